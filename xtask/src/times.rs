//! How long the steps of `cargo xtask ci` take: a table in the repository, and the comparison of a
//! run with it.
//!
//! Machines differ in speed, so a step is compared with the other steps of the same run: a machine
//! that is twice as slow doubles all of them. What fails is a step that has become slower than its
//! row says by more than the run as a whole.

use crate::Failure;
use crate::process::root;
use std::fmt::Write as _;
use std::fs;

/// The table, from the root of the project.
pub const TABLE: &str = ".ci/times.tsv";
/// The first lines of the table.
const HEADER: &str = "\
# Seconds that each step of `cargo xtask ci` took on an idle machine with two cores, from a clean
# clone. A run of all steps fails if a step takes more than twice as long, and 60 seconds longer,
# after a correction for slower machines. Steps that may install a compiler (library, miri, tsan)
# have no row. `cargo xtask ci --record` writes this file.
";

/// Steps that may install a compiler first. They get no row and are not judged: the time depends on
/// the network.
const INSTALLING: [&str; 3] = ["library", "miri", "tsan"];

/// A step fails if it takes more than this many times its row.
const RATIO_MAX: f64 = 2.0;
/// Shorter excesses never fail a step: they are noise.
const EXCESS_SECONDS: f64 = 60.0;
/// Rows below this say nothing about the speed of the machine.
const SECONDS_TO_COMPARE: f64 = 5.0;

/// The seconds of a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Time {
    pub step: String,
    pub seconds: f64,
}

/// The table of the repository; empty if there is none yet.
pub fn read() -> Result<Vec<Time>, Failure> {
    match fs::read_to_string(root().join(TABLE)) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::check(format!("{TABLE}: {error}"))),
    }
}

/// Replaces the table by the times of a run.
pub fn record(now: &[Time]) -> Result<(), Failure> {
    fs::write(root().join(TABLE), text(now))
        .map_err(|error| Failure::check(format!("{TABLE}: {error}")))
}

fn parse(text: &str) -> Result<Vec<Time>, Failure> {
    let mut times = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let time = line.split_once('\t').and_then(|(step, seconds)| {
            Some(Time {
                step: step.to_owned(),
                seconds: seconds.parse().ok().filter(|&seconds| seconds > 0.0)?,
            })
        });
        let number = at + 1;
        times.push(time.ok_or_else(|| {
            Failure::check(format!(
                "{TABLE}:{number}: not a step, a tab and its seconds: {line}"
            ))
        })?);
    }
    Ok(times)
}

/// Whole seconds, at least one, so that a new recording changes few lines.
fn text(times: &[Time]) -> String {
    let mut text = HEADER.to_owned();
    for Time { step, seconds } in times {
        if INSTALLING.contains(&step.as_str()) {
            continue;
        }
        let _infallible = writeln!(text, "{step}\t{:.0}", seconds.max(1.0));
    }
    text
}

/// The run as a table: each step with its seconds now and before, and their ratio.
pub fn table(now: &[Time], before: &[Time]) -> String {
    let mut table = format!(
        "{:8} {:>8} {:>8} {:>6}\n",
        "step", "seconds", "before", "ratio"
    );
    let mut sums = (0.0, 0.0);
    for Time { step, seconds } in now {
        let row = match row(before, step) {
            Some(before) => {
                sums = (sums.0 + seconds, sums.1 + before);
                format!(
                    "{step:8} {seconds:8.1} {before:8.1} {:6.2}",
                    seconds / before
                )
            }
            None => format!("{step:8} {seconds:8.1} {:>8} {:>6}", "new", "-"),
        };
        table += &row;
        table.push('\n');
    }
    if sums.1 > 0.0 {
        let (now, before) = sums;
        let _infallible = write!(
            table,
            "{:8} {now:8.1} {before:8.1} {:6.2}",
            "all",
            now / before
        );
    }
    table.trim_end().to_owned()
}

/// A message for each step that has become too slow, with what to do. Only meaningful for a run of
/// all steps.
pub fn slower(now: &[Time], before: &[Time]) -> Vec<String> {
    let slowness = slowness(now, before);
    let mut slower = Vec::new();
    for Time { step, seconds } in now {
        let Some(before) = row(before, step) else {
            continue;
        };
        let expected = before * slowness;
        if *seconds > expected * RATIO_MAX && *seconds > expected + EXCESS_SECONDS {
            let message = format!(
                "{step} takes {seconds:.0} s; its row in {TABLE} says {before:.0} s, which is \
                 {expected:.0} s here ({slowness:.2} times as long, the median of all steps). If \
                 this is meant, set the row to {:.0} and give the reason in the commit message.",
                seconds / slowness
            );
            slower.push(message);
        }
    }
    slower
}

/// How many times as long the steps of this run take as their rows say: the median, which one slow
/// step does not move. At least 1: on a faster machine, and where most is already built, the steps
/// that are not faster are not wrong.
fn slowness(now: &[Time], before: &[Time]) -> f64 {
    let mut ratios: Vec<f64> = now
        .iter()
        .filter_map(|Time { step, seconds }| {
            let before = row(before, step).filter(|&before| before >= SECONDS_TO_COMPARE)?;
            Some(seconds / before)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    let median = match ratios.len() {
        0 => 1.0,
        odd if odd % 2 == 1 => ratios[middle],
        _ => f64::midpoint(ratios[middle - 1], ratios[middle]),
    };
    median.max(1.0)
}

fn row(times: &[Time], step: &str) -> Option<f64> {
    let time = times.iter().find(|time| time.step == step)?;
    Some(time.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rows: &[(&str, f64)]) -> Vec<Time> {
        let time = |&(step, seconds): &(&str, f64)| Time {
            step: step.to_owned(),
            seconds,
        };
        rows.iter().map(time).collect()
    }

    fn before() -> Vec<Time> {
        times(&[
            ("fmt", 2.0),
            ("clippy", 120.0),
            ("test", 500.0),
            ("loom", 100.0),
            ("demo", 8.0),
        ])
    }

    /// The steps that fail in a run with these seconds.
    #[track_caller]
    fn check(now: &[(&str, f64)], expect: &[&str]) {
        let found = slower(&times(now), &before());
        let found: Vec<_> = found
            .iter()
            .filter_map(|message| message.split(' ').next())
            .collect();
        assert_eq!(found, expect, "{now:?}");
    }

    #[test]
    fn a_step_that_doubles_fails() {
        let now = |loom| {
            [
                ("fmt", 2.0),
                ("clippy", 130.0),
                ("test", 490.0),
                ("loom", loom),
                ("demo", 8.0),
            ]
        };
        check(&now(100.0), &[]);
        check(&now(199.0), &[]);
        check(&now(215.0), &["loom"]);
    }

    #[test]
    fn a_machine_that_is_slower_in_all_steps_is_no_failure() {
        let now = |loom| {
            [
                ("fmt", 6.0),
                ("clippy", 360.0),
                ("test", 1500.0),
                ("loom", loom),
                ("demo", 24.0),
            ]
        };
        check(&now(300.0), &[]);
        check(&now(610.0), &["loom"]);
    }

    #[test]
    fn a_machine_that_is_faster_in_most_steps_fails_none_of_the_others() {
        let built_before = [
            ("fmt", 2.0),
            ("clippy", 3.0),
            ("test", 200.0),
            ("loom", 95.0),
            ("demo", 8.0),
        ];
        check(&built_before, &[]);
    }

    #[test]
    fn a_short_step_may_vary_by_any_factor() {
        let now = [
            ("fmt", 20.0),
            ("clippy", 120.0),
            ("test", 500.0),
            ("loom", 100.0),
            ("demo", 37.0),
        ];
        check(&now, &[]);
    }

    #[test]
    fn a_step_without_a_row_is_not_judged() {
        check(&[("miri", 1000.0), ("test", 500.0)], &[]);
    }

    #[test]
    fn the_message_says_which_row_to_write() {
        let now = times(&[("clippy", 240.0), ("test", 1000.0), ("loom", 600.0)]);
        let found = slower(&now, &before());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("loom takes 600 s;"), "{found:?}");
        assert!(found[0].contains("set the row to 300 "), "{found:?}");
    }

    #[test]
    fn a_recorded_table_is_read_again() {
        let times = times(&[("fmt", 0.3), ("test", 512.4)]);
        let read = parse(&text(&times)).expect("it can be read");
        let seconds: Vec<_> = read.iter().map(|time| time.seconds).collect();
        assert_eq!(seconds, [1.0, 512.0]);
        for wrong in ["fmt 2", "fmt\ttwo", "fmt\t-1", "fmt\t0"] {
            let result = parse(wrong);
            assert!(
                matches!(&result, Err(Failure::Check(text)) if text.contains(":1: ")),
                "{wrong}: {result:?}"
            );
        }
    }

    #[test]
    fn a_table_has_each_step_now_and_before() {
        let now = times(&[("fmt", 3.0), ("miri", 100.0)]);
        let expect = "\
step      seconds   before  ratio
fmt           3.0      2.0   1.50
miri        100.0      new      -
all           3.0      2.0   1.50";
        assert_eq!(table(&now, &before()), expect);
    }
}
