//! The command `perf`: measures the rack, embedded, simulated or hosted, and parts of it.
//!
//! `args` has the tests, `test_run` runs one. `messages` are perftest's tests, `flow_bw` those of
//! flows; `rewrite` and `idle` measure the machine. Real-time results that depend on the machine
//! are reported beside something measured in the same run.
//!
//! On a running rack, `peer` is the process at the far end of `messages` and of the ping-pong.
//! A running rack is joined ([`RealRack`](crate::programs::RealRack)); the tests are the same.
//! `demo` uses those of `messaging` and `sequencer`.

pub mod args;
mod failover;
mod flow;
mod flow_bw;
mod idle;
mod index_shift;
mod initiator;
pub mod messages;
pub mod messaging;
mod pages;
mod pair;
pub mod peer;
mod rewrite;
mod rpc;
pub mod sequencer;
mod test_run;

use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use args::{PerfArgs, Test};
use clap::ValueEnum;
use serde_json::json;
use test_run::TestRun;

/// Runs the command.
///
/// # Errors
/// If an argument is invalid or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    args.check(globals)?;
    if args.test == Test::List {
        let tests = Test::value_variants().iter().skip(1);
        let tests = tests.map(|test| json!({"name": test.name(), "about": test.about()}));
        let list = json!({"tests": tests.collect::<Vec<_>>()});
        crate::output::report(globals, "perf-list", &list)?;
        return Ok(Verdict::Passed);
    }
    let mut test = TestRun::new(args, globals)?;
    let found = args.test.measure(&mut test)?;
    test.finish(found)
}
