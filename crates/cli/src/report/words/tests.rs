//! Tests of `words`.

use super::*;

#[test]
fn numbers_have_three_digits_and_five_letters() {
    let reported = [
        0.0, 0.004, 0.01, 1.0, 5.25, 42.0, 99.94, 99.96, 100.4, 999.4, 999.5, 1234.0, 99_949.0,
        999_499.0, 999_500.0, 12e6, 1.5e9, 2e15,
    ];
    let reported: Vec<String> = reported.into_iter().map(si).collect();
    assert_eq!(
        reported.join(" "),
        "0 0 0.01 1 5.25 42 99.9 100 100 999 1.00k 1.23k 99.9k 999k 1.00M 12.0M 1.50G 2.00P"
    );
    assert!(reported.iter().all(|word| word.len() <= 5), "{reported:?}");
}

#[test]
fn every_answer_has_words() {
    let counters = rackweave_programs::pages::PageCounters::default();
    let mut names: Vec<&str> = counters.list().map(|(name, _)| name).collect();
    let mut known: Vec<&str> = ANSWERS.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, names);
}

#[test]
fn ends_of_flows_are_counted() {
    let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let many = names(&["a", "b", "a", "c"]);
    assert_eq!([ends(&many, 7), ends(&many, 6)], ["2×a b c", "a +2"]);
    let one = names(&["a-long-name", "a-long-name"]);
    assert_eq!([ends(&one, 3), ends(&[], 3)], ["2×a-long-name", ""]);
}

#[test]
fn times_and_sizes() {
    assert_eq!(
        [clock(0.4), clock(62.0), clock(3723.9)],
        ["0:00", "1:02", "1:02:03"]
    );
    assert_eq!(
        [binary(65536), binary(1 << 20), binary(100)],
        ["64 KiB", "1 MiB", "100 bytes"]
    );
    assert_eq!(
        [with_unit(1234.0, "B"), with_unit(5.0, "bit/s")],
        ["1.23 kB", "5 bit/s"]
    );
    assert_eq!([share(1.0, 3.0), share(0.0, 0.0)], ["33.3 %", "-"]);
}
