//! The test `idle` on a hosted rack: the CPU time of all its processes together.

use super::idle::{ITEM_BYTES, Idle, RING_BYTES, measure, nap};
use crate::globals::Globals;
use crate::hosted::jobs::flow::{CONSUME, ConsumeArguments, Contents, StreamFound};
use crate::hosted::runner::JobRunner;
use crate::items::Manner;
use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use std::time::Duration;

/// Measures a rack left alone with a silent flow, and then while a consumer waits.
///
/// # Errors
/// If the rack cannot do it, or its processes are not on this machine.
pub fn run(
    config: &RackConfig,
    span: Duration,
    globals: &Globals,
    tick: &mut dyn FnMut(),
) -> Result<Idle, CliError> {
    let mut runner = JobRunner::gather(config, globals)?;
    let found = runner.found();
    let pids = found.nodes.iter().filter_map(|node| node.pid);
    let processes: Vec<String> = pids.chain([found.pid]).map(|pid| pid.to_string()).collect();
    let last = NodeId(config.node.len() as u16 - 1);
    let ends = (&[NodeId(0)][..], &[last][..]);
    let flow = runner.create_flow("the flow", ends, ITEM_BYTES, RING_BYTES)?;
    let percent_of_a_core = measure(&processes, span, |until| nap(until, globals, tick))?;
    let arguments = ConsumeArguments {
        ring: flow.consumers[0],
        index: 0,
        producers: 1,
        items: None,
        contents: Contents::Measured(Manner {
            batch: 1,
            touch: false,
        }),
    };
    let sink = runner.start(last, CONSUME, &arguments)?;
    let percent_of_a_core_waiting = measure(&processes, span, |until| nap(until, globals, tick))?;
    runner.stop(sink);
    let taken: StreamFound = runner.result(sink)?;
    runner.close_flows();
    Ok(Idle {
        percent_of_a_core,
        percent_of_a_core_waiting,
        is_silent: taken.items == 0,
    })
}
