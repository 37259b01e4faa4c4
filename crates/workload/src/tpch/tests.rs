//! Scale, parts and results; rows, workers and bad input are in files of their own.

mod fake_switch;
mod fan_out;
mod malformed;
mod results;
mod rows;
mod workers;

use super::*;
use fake_switch::FakeFlow;
use rackweave_endpoint::flow::ITEM_HEADER;
use std::collections::BTreeSet;

/// Bytes of an item that holds two line items or four orders.
const ITEM_BYTES: usize = ITEM_HEADER + 2 * LineitemRow::BYTES;

/// A flow of one ring, with items of [`ITEM_BYTES`].
fn flow() -> FakeFlow {
    FakeFlow::new(1, 1, ITEM_BYTES as u32, 4)
}

fn scale(factor: f64) -> ScaleFactor {
    ScaleFactor::new(factor).unwrap()
}

#[test]
fn scale_factors_are_checked() {
    for good in [0.001, 0.1, 1.0, 100.0] {
        assert_eq!(scale(good).get(), good);
    }
    let check = |text: &str, expect: &str| {
        assert_eq!(text.parse::<ScaleFactor>().unwrap_err().to_string(), expect);
    };
    let range = "use one from 0.001 to 100";
    check("0", &format!("scale factor 0 is out of range; {range}"));
    check("-1", &format!("scale factor -1 is out of range; {range}"));
    check(
        "100.5",
        &format!("scale factor 100.5 is out of range; {range}"),
    );
    check("NaN", &format!("scale factor NaN is out of range; {range}"));
    check("inf", &format!("scale factor inf is out of range; {range}"));
    check("big", "`big` is no scale factor; use a number such as 0.1");
    assert_eq!("0.5".parse(), Ok(scale(0.5)));
}

#[test]
fn parts_are_checked() {
    assert!(Part::new(1, 2).is_ok());
    for (part, parts) in [(0, 0), (2, 2), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        assert_eq!(Part::new(part, parts), Err(PartError { part, parts }));
    }
}

#[test]
fn parts_are_the_table_cut_in_pieces() {
    for (factor, parts) in [(0.001, 1), (0.001, 7), (0.01, 2), (0.01, 3)] {
        let scale = scale(factor);
        let cut: Vec<Part> = (0..parts)
            .map(|part| Part::new(part, parts).unwrap())
            .collect();
        let whole: Vec<_> = generate::orders(scale, Part::WHOLE)
            .map(|row| OrderRow::from(&row))
            .collect();
        let pieces: Vec<_> = cut
            .iter()
            .flat_map(|part| generate::orders(scale, *part))
            .map(|row| OrderRow::from(&row))
            .collect();
        assert!(whole == pieces, "orders in {parts} parts");
        let keys: BTreeSet<_> = whole.iter().map(|row| row.order_key).collect();
        assert_eq!(keys.len(), whole.len(), "no order is there twice");

        let whole: Vec<_> = generate::lineitem(scale, Part::WHOLE)
            .map(|row| LineitemRow::from(&row))
            .collect();
        let pieces: Vec<_> = cut
            .iter()
            .flat_map(|part| generate::lineitem(scale, *part))
            .map(|row| LineitemRow::from(&row))
            .collect();
        assert!(whole == pieces, "line items in {parts} parts");
        let lines: BTreeSet<_> = whole
            .iter()
            .map(|row| (row.order_key, row.line_number))
            .collect();
        assert_eq!(lines.len(), whole.len(), "no line item is there twice");
        assert!(lines.iter().all(|(key, _)| keys.contains(key)));

        let expected: Vec<_> = cut.iter().map(|part| part.expected_rows(scale)).collect();
        assert_eq!(
            expected.iter().map(|rows| rows.orders).sum::<u64>(),
            keys.len() as u64
        );
        assert_eq!(expected_rows(scale).orders, keys.len() as u64);
        let ratio = expected_rows(scale).lineitem as f64 / lines.len() as f64;
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
    }
}

#[test]
fn a_checksum_tells_results_apart() {
    let result = reference(scale(0.001));
    let mut seen = BTreeSet::from([result.checksum()]);
    let mut changed = |change: &dyn Fn(&mut QueryResult)| {
        let mut other = result.clone();
        change(&mut other);
        assert_ne!(other, result);
        assert!(seen.insert(other.checksum()));
    };
    changed(&|result| result.rows.lineitem += 1);
    changed(&|result| result.q1[1].sum_discount += 1);
    changed(&|result| result.q1[3].count -= 1);
    changed(&|result| result.join[4].revenue += 1);
    changed(&|result| result.join.truncate(4));
    assert!(!result.matches_published_q1(), "this is not scale factor 1");
}

#[test]
fn answers_are_shown_as_tables() {
    let text = reference(scale(0.001)).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4 + 1 + 1 + 5);
    assert!(lines[0].starts_with("l_returnflag l_linestatus"));
    assert!(lines[..5].iter().all(|line| line.len() == lines[0].len()));
    assert!(lines[6].starts_with("o_orderpriority"));
    assert!(lines[7].starts_with("1-URGENT"));
}

#[test]
fn workers_may_move_between_threads() {
    fn check<T: Send>() {}
    check::<StorageWorker>();
    check::<ComputeWorker>();
    check::<Reference>();
}
