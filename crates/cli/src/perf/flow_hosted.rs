//! Flows of a hosted rack: the ends are jobs of its nodes.

use super::flow::{FlowMeasured, FlowPlan};
use crate::globals::Globals;
use crate::hosted::jobs::flow::{Contents, StreamFound};
use crate::hosted::runner::JobRunner;
use crate::outcome::CliError;
use crate::progress::Progress;
use rackweave_rack::RackConfig;
use std::time::Instant;

/// Runs the flow on the hosted rack of `config`.
///
/// # Errors
/// Why it could not be completed.
pub fn run(
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<FlowMeasured, CliError> {
    let mut runner = JobRunner::gather(config, globals)?;
    let nodes = (&plan.producers[..], &plan.consumers[..]);
    let bytes = (plan.item_size, plan.ring_bytes);
    let contents = Contents::Measured(plan.manner);
    let (sinks, sources) = runner.start_flow(nodes, bytes, contents, plan.amount)?;
    let start = Instant::now();
    // Only the sources are stopped: then the streams end, and so do the sinks.
    runner.spare(&sinks);
    let ends = [&sources[..], &sinks].concat();
    runner.wait(&ends, |runner| {
        let items = ends.iter().map(|&end| runner.done(end)).sum();
        let now = start.elapsed().as_nanos() as u64;
        progress.set(|| plan.fraction(items, now));
    })?;
    let mut pushed = 0;
    for &source in &sources {
        pushed += runner.result::<StreamFound>(source)?.items;
    }
    let (mut items, mut nanos, mut is_sound) = (0, 0, true);
    for &sink in &sinks {
        let found: StreamFound = runner.result(sink)?;
        items += found.items;
        nanos = nanos.max(found.nanos);
        is_sound &= found.violations.is_empty();
    }
    runner.close_flows();
    Ok(FlowMeasured {
        items,
        nanos,
        nanos_taking: nanos,
        verified: is_sound && pushed == items && items > 0,
        ..FlowMeasured::default()
    })
}
