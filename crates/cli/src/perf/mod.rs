//! The command `perf`: measures the rack, embedded, simulated or hosted, and parts of it.
//!
//! `args` has the table of tests. `messages` are perftest's tests, `flow_bw` those of flows;
//! `rewrite` and `idle` measure the machine. Real-time results that depend on the machine are
//! reported beside something measured in the same run.
//!
//! Nodes of a hosted rack (`hosted::jobs`) share the ends: `crate::items`, `crate::verbs`.
//! `demo` uses those of `messaging` and `sequencer`.

pub mod args;
mod flow;
mod flow_bw;
mod flow_hosted;
mod idle;
mod idle_hosted;
mod index_shift;
pub mod messages;
mod messages_hosted;
pub mod messaging;
mod pages;
pub mod report;
mod rewrite;
mod rpc;
pub mod sequencer;
mod test_run;

use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use args::{PerfArgs, TESTS};
use serde::Serialize;
use std::fmt;

/// Runs the command.
///
/// # Errors
/// If an argument is invalid or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    args.check()?;
    args.test.run(args, globals)
}

/// Every test except the list itself, with one line about it.
#[derive(Serialize)]
struct List {
    tests: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
}

fn list(_: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let tests = TESTS.iter().skip(1).map(|test| Entry {
        name: test.name,
        about: test.about,
    });
    let list = List {
        tests: tests.collect(),
    };
    crate::output::print(globals, "perf-list", &list)?;
    Ok(Verdict::Passed)
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, about } in &self.tests {
            writeln!(f, "{name:<12} {about}")?;
        }
        Ok(())
    }
}
