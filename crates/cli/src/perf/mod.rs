//! The command `perf`: measures the rack, embedded, simulated or hosted, and parts of it.
//!
//! `args` has the table of tests. `messages` are perftest's tests, `flow_bw` those of flows;
//! `rewrite` and `idle` measure the machine. Real-time results that depend on the machine are
//! reported beside something measured in the same run.
//!
//! A running rack is joined ([`RealRack`](crate::programs::RealRack)); the tests are the same.
//! `demo` uses those of `messaging` and `sequencer`.

pub mod args;
mod failover;
mod flow;
mod flow_bw;
mod idle;
mod index_shift;
pub mod messages;
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
use serde_json::json;

/// Runs the command.
///
/// # Errors
/// If an argument is invalid or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    args.check()?;
    args.test.run(args, globals)
}

/// Prints every test except the list itself, with one line about it.
fn list(_: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let tests = TESTS.iter().skip(1);
    let tests = tests.map(|test| json!({"name": test.name, "about": test.about}));
    let list = json!({"tests": tests.collect::<Vec<_>>()});
    crate::output::report(globals, "perf-list", &list)?;
    Ok(Verdict::Passed)
}
