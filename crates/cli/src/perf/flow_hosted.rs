//! Flows of a hosted rack: the ends are jobs of its nodes.

use super::flow::{FlowMeasured, FlowPlan};
use crate::globals::Globals;
use crate::hosted::crew::Crew;
use crate::hosted::jobs::flow::{
    CONSUME, ConsumeArguments, Contents, PRODUCE, ProduceArguments, StreamFound,
};
use crate::outcome::CliError;
use crate::progress::Progress;
use rackweave_rack::RackConfig;
use std::time::Instant;

/// Runs the flow on the hosted rack of `config`.
///
/// # Errors
/// Names what happened if it could not be brought to its end.
pub fn run(
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<FlowMeasured, CliError> {
    let mut crew = Crew::gather(config, globals)?;
    let nodes = (&plan.producers[..], &plan.consumers[..]);
    let flow = crew.create_flow("the flow", nodes, plan.item_size, plan.ring_bytes)?;
    // Consumers first, so that the first item does not wait for the one who takes it.
    let mut sinks = Vec::new();
    let contents = Contents::Measured(plan.manner);
    for (index, &node) in plan.consumers.iter().enumerate() {
        let arguments = ConsumeArguments {
            ring: flow.consumers[index],
            index: index as u16,
            producers: plan.producers.len() as u16,
            items: None,
            contents,
        };
        sinks.push(crew.start(node, CONSUME, &arguments)?);
    }
    let mut sources = Vec::new();
    for (index, &node) in plan.producers.iter().enumerate() {
        let arguments = ProduceArguments {
            rings: flow.of_producer(index),
            index: index as u16,
            contents,
            amount: plan.amount,
        };
        sources.push(crew.start(node, PRODUCE, &arguments)?);
    }
    let start = Instant::now();
    // Only the sources are asked to stop: then the streams end, and so do the sinks.
    crew.spare(&sinks);
    let ends = [&sources[..], &sinks].concat();
    crew.wait(&ends, |crew| {
        let items = ends.iter().map(|&end| crew.done(end)).sum();
        let now = start.elapsed().as_nanos() as u64;
        progress.set(|| plan.fraction(items, now));
    })?;
    let mut pushed = 0;
    for &source in &sources {
        pushed += crew.result::<StreamFound>(source)?.items;
    }
    let (mut items, mut nanos, mut is_sound) = (0, 0, true);
    for &sink in &sinks {
        let found: StreamFound = crew.result(sink)?;
        items += found.items;
        nanos = nanos.max(found.nanos);
        is_sound &= found.violations.is_empty();
    }
    crew.close_flows();
    Ok(FlowMeasured {
        items,
        nanos,
        nanos_taking: nanos,
        verified: is_sound && pushed == items && items > 0,
        ..FlowMeasured::default()
    })
}
