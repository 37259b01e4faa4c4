//! Ours beside what a user would choose instead, on the same machine: `cargo xtask peers`.
//!
//! [`rows`] has the comparisons, in the form of [`row`]. [`probe`] says how a number is obtained:
//! [`session`] runs the programs, as [`children`] that do not outlive this process, and
//! [`mod@parse`] reads their output. [`table`] prints the result. The crates among the peers, and
//! the source of the program for MPI, are in `peers/`, a workspace of its own.

mod children;
mod parse;
mod probe;
mod row;
mod rows;
mod session;
mod table;

use crate::{Failure, process, steps};
use row::{Contender, Row};
use rows::{LEFT_OUT, ROWS};
use session::Session;
use std::path::PathBuf;
use table::{Line, Series};

const HELP: &str = "\
Measures what a user would choose instead of Rackweave, beside Rackweave, on this machine.

Usage: cargo xtask peers [--rounds N] [--only ROW]... [--binary PATH] [--list]

Options:
  --rounds N     how often everything is measured, ours and theirs in turn; 5 without it
  --only ROW     only rows whose names begin so; several times for several
  --binary PATH  this rackweave, and not target/release/rackweave, which is built first
  --list         prints the rows
  --help         prints this text

The table has medians and the range of the rounds. What is not installed is named, with the Debian
package that has it. All of them:

  apt-get install ucx-utils openmpi-bin libopenmpi-dev gcc redis-server fio iperf3

Examples:
  cargo xtask peers
  cargo xtask peers --only tree --only sequencer
  cargo xtask peers --rounds 9 --only read-64k --binary /tmp/rackweave
  cargo xtask peers --list

All rows together take five minutes or so, on an idle machine. The exit status is 1 if a measurement
failed; a peer that is missing is no failure.";

const ROUNDS: usize = 5;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    rounds: usize,
    only: Vec<String>,
    binary: Option<PathBuf>,
    list: bool,
    help: bool,
}

/// A contender of a row: ours, or a peer by its position.
type Who = Option<usize>;

/// What is known about one contender.
#[derive(Default)]
struct Found {
    series: Series,
    /// Why there is no number, or none any more.
    problem: Option<String>,
    has_failed: bool,
}

/// Measures all rows, or those chosen.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = parse(arguments)?;
    if options.help {
        println!("{HELP}");
        return Ok(());
    }
    let rows: Vec<&Row> = ROWS.iter().filter(|row| options.has(row)).collect();
    if options.list {
        list(&rows);
        return Ok(());
    }
    let binary = match options.binary {
        Some(binary) => std::path::absolute(&binary)
            .map_err(|error| Failure::check(format!("{}: {error}", binary.display())))?,
        None => {
            steps::release()?;
            process::binary("release")
        }
    };
    let mut session = Session::new(binary)?;
    let found = measure(&mut session, &rows, options.rounds);
    // Nothing runs any more when the table is printed.
    drop(session);
    report(&rows, &found)
}

impl Options {
    fn has(&self, row: &Row) -> bool {
        let chosen = |only: &String| row.name.starts_with(only.as_str());
        self.only.is_empty() || self.only.iter().any(chosen)
    }
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options {
        rounds: ROUNDS,
        only: Vec::new(),
        binary: None,
        list: false,
        help: false,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--rounds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                let number = number.filter(|&number| number > 0);
                let error = || Failure::usage("--rounds needs a number above zero");
                options.rounds = number.ok_or_else(error)?;
            }
            "--only" => {
                let error = || Failure::usage("--only needs a row; --list prints them");
                let only = rest.next().ok_or_else(error)?;
                if !ROWS.iter().any(|row| row.name.starts_with(only.as_str())) {
                    let text = format!("peers has no row {only}; --list prints them");
                    return Err(Failure::usage(text));
                }
                options.only.push(only.clone());
            }
            "--binary" => {
                let error = || Failure::usage("--binary needs a file");
                options.binary = Some(rest.next().ok_or_else(error)?.into());
            }
            "--list" => options.list = true,
            "--help" | "-h" => options.help = true,
            other => {
                let text = format!("peers does not know {other}; --help prints what it knows");
                return Err(Failure::usage(text));
            }
        }
    }
    Ok(options)
}

fn list(rows: &[&Row]) {
    for row in rows {
        println!("{:18} {}", row.name, row.about);
        for contender in contenders(row).map(|who| contender(row, who)) {
            println!(
                "{:18}   {:22} {}",
                "",
                contender.name,
                contender.probe.run_line()
            );
        }
    }
    for (name, reason) in LEFT_OUT {
        println!("not measured: {name}: {reason}");
    }
}

fn contenders(row: &Row) -> impl DoubleEndedIterator<Item = Who> {
    std::iter::once(None).chain((0..row.peers.len()).map(Some))
}

fn contender(row: &Row, who: Who) -> &Contender {
    who.map_or(&row.ours, |at| &row.peers[at])
}

/// All contenders of all rows, ours first.
fn measure(session: &mut Session, rows: &[&Row], rounds: usize) -> Vec<Vec<Found>> {
    let mut look = |row: &&Row| -> Vec<Found> {
        let missing = contenders(row).map(|who| session.missing(contender(row, who).probe));
        let found = missing.map(|problem| Found {
            problem,
            ..Found::default()
        });
        found.collect()
    };
    let mut found: Vec<Vec<Found>> = rows.iter().map(&mut look).collect();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        session.next_round();
        for (row, found) in rows.iter().zip(&mut found) {
            let mut order: Vec<Who> = contenders(row).collect();
            // Neither side always has the machine that the other one leaves.
            if round % 2 == 1 {
                order.reverse();
            }
            for who in order {
                let found = &mut found[who.map_or(0, |at| at + 1)];
                if found.problem.is_none() {
                    take(session, contender(row, who), found);
                }
            }
        }
    }
    found
}

fn take(session: &mut Session, contender: &Contender, found: &mut Found) {
    match session.measure(contender.probe) {
        Ok(number) => found.series.numbers.push(number * contender.scale),
        Err(error) => {
            eprintln!("  failed: {error}");
            found.problem = Some(error);
            found.has_failed = true;
        }
    }
}

fn report(rows: &[&Row], found: &[Vec<Found>]) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for (&row, found) in rows.iter().zip(found) {
        for (peer, theirs) in found.iter().skip(1).enumerate() {
            let problem = match &theirs.problem {
                Some(_) if theirs.has_failed => Some("failed, see below"),
                Some(problem) => Some(problem.as_str()),
                None => None,
            };
            lines.push(Line {
                row,
                peer,
                ours: &found[0].series,
                theirs: problem.map_or(Ok(&theirs.series), Err),
            });
        }
        let failed = found.iter().filter(|found| found.has_failed);
        failures.extend(failed.filter_map(|found| found.problem.as_deref()));
    }
    println!("{}", table::print(&lines));
    for (name, reason) in LEFT_OUT {
        println!("not measured: {name}: {reason}");
    }
    failures.sort_unstable();
    failures.dedup();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::check(format!(
            "failed: {}",
            failures.join("\nfailed: ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_checked() {
        let options = parse(&arguments("--rounds 3 --only tree --only read-64k")).expect("sound");
        assert_eq!((options.rounds, options.list), (3, false));
        let chosen = ROWS.iter().filter(|row| options.has(row));
        let names: Vec<_> = chosen.map(|row| row.name).collect();
        assert_eq!(
            names,
            ["read-64k", "read-64k-deep", "tree", "tree-together"]
        );
        let wrong = [
            "--rounds",
            "--rounds 0",
            "--only",
            "--only trees",
            "tree",
            "--binary",
        ];
        for wrong in wrong {
            let parsed = parse(&arguments(wrong));
            assert!(matches!(parsed, Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn rows_have_names_of_their_own() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(
                ROWS[..at].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
            assert!(!row.peers.is_empty(), "{}", row.name);
        }
    }
}
