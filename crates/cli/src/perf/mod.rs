//! The command `perf`: measures the rack, embedded, simulated or hosted, and parts of it.
//!
//! `messages` are perftest's tests, `flow_bw` those of flows, `rewrite`, `events` and `idle`
//! measure the machine. Numbers of real time are given beside something measured in the same
//! run wherever they depend on the machine.
//!
//! The rooms that nodes of a hosted rack share (`hosted::jobs`) are those of the ends: `ends`,
//! `initiator`, `pair`, and their `loops`. `demo` uses the loops of `messaging`.

pub mod amount;
pub mod ends;
mod events;
mod flow;
mod flow_bw;
mod flow_hosted;
mod flow_report;
mod flow_simulated;
mod idle;
mod idle_hosted;
mod index;
mod index_shift;
pub mod initiator;
mod list;
pub mod loops;
pub mod messages;
mod messages_hosted;
mod messages_simulated;
pub mod messaging;
mod pages;
pub mod pair;
pub mod report;
mod rewrite;
mod rpc;
mod sequencer;

use crate::args::{PerfArgs, Test};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};

/// Runs the command.
///
/// # Errors
/// If an argument makes no sense or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    list::check_arguments(args)?;
    match args.test {
        Test::List => {
            crate::output::print(globals, "perf-list", &list::Tests::all())?;
            Ok(Verdict::Passed)
        }
        Test::ReadBw
        | Test::ReadLat
        | Test::WriteBw
        | Test::WriteLat
        | Test::SendBw
        | Test::SendLat
        | Test::AtomicLat => messages::run(args, globals),
        Test::FlowBw => flow_bw::run(args, globals),
        Test::ShuffleBw => flow_bw::shuffle(args, globals),
        Test::BalanceBw | Test::ReplicateBw => flow_bw::fan_out(args, globals),
        Test::Sequencer => list::check_alone(args).and_then(|()| sequencer::run(args, globals)),
        Test::Index => list::check_alone(args).and_then(|()| index::run(args, globals)),
        Test::IndexShift => list::check_alone(args).and_then(|()| index_shift::run(args, globals)),
        Test::Messaging => list::check_alone(args).and_then(|()| messaging::run(args, globals)),
        Test::Pages => list::check_alone(args).and_then(|()| pages::run(args, globals)),
        Test::Rpc => list::check_alone(args).and_then(|()| rpc::run(args, globals)),
        Test::Rewrite => list::check_alone(args).and_then(|()| rewrite::run(args, globals)),
        Test::Events => list::check_alone(args).and_then(|()| events::run(args, globals)),
        Test::Idle => idle::run(args, globals),
    }
}

/// The name of a test at the command line.
fn name_of(test: Test) -> &'static str {
    match test {
        Test::List => "list",
        Test::ReadBw => "read_bw",
        Test::ReadLat => "read_lat",
        Test::WriteBw => "write_bw",
        Test::WriteLat => "write_lat",
        Test::SendBw => "send_bw",
        Test::SendLat => "send_lat",
        Test::AtomicLat => "atomic_lat",
        Test::FlowBw => "flow_bw",
        Test::ShuffleBw => "shuffle_bw",
        Test::BalanceBw => "balance_bw",
        Test::ReplicateBw => "replicate_bw",
        Test::Index => "index",
        Test::IndexShift => "index_shift",
        Test::Messaging => "messaging",
        Test::Pages => "pages",
        Test::Rpc => "rpc",
        Test::Sequencer => "sequencer",
        Test::Rewrite => "rewrite",
        Test::Events => "events",
        Test::Idle => "idle",
    }
}
