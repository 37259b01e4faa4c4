//! Faults, and members that join and leave, with their times.

use super::plan::FlowPlan;
use crate::wrong::{self, nanos};
use rackweave_base::{Instant, NodeId, Rng};
use rackweave_controller::{FlowShape, LossPolicy};

/// An event at a certain time. Flows and their members are given by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    RestartSwitch,
    /// `long`: long enough that the switch may give the node up.
    CutCable {
        node: NodeId,
        long: bool,
    },
    MendCable(NodeId),
    /// `is_reported`: whether the controller is notified at once or must detect the crash.
    Crash {
        node: NodeId,
        is_reported: bool,
    },
    JoinConsumer {
        flow: usize,
        node: NodeId,
    },
    /// The controller removes a consumer.
    RemoveConsumer {
        flow: usize,
        index: usize,
    },
    /// A consumer leaves on its own.
    LeaveConsumer {
        flow: usize,
        index: usize,
    },
    JoinProducer {
        flow: usize,
        node: NodeId,
    },
    /// Requested again while the producer is busy, up to this many times.
    RemoveProducer {
        flow: usize,
        index: usize,
        tries: u32,
    },
    SetWeight {
        flow: usize,
        weight: Option<u32>,
    },
}

/// How often the removal of a busy producer is requested.
const TRIES: u32 = 12;

/// Most runs last from tens to hundreds of microseconds; early is as likely as late.
fn some_time(rng: &mut Rng) -> Instant {
    wrong::some_time(rng, 12, 20)
}

pub(super) fn plan(rng: &mut Rng, nodes: u64, flows: &[FlowPlan]) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    let some_node = |rng: &mut Rng| NodeId(rng.below(nodes) as u16);
    if rng.chance(0.3) {
        for _ in 0..rng.between(1, 3) {
            all.push((some_time(rng), Disturbance::RestartSwitch));
        }
    }
    if rng.chance(0.2) {
        let (at, node) = (some_time(rng), some_node(rng));
        let long = rng.chance(0.4);
        let lasts = match long {
            true => nanos(rng, 1_000_000, 12_000_000),
            false => nanos(rng, 1000, 1_000_000),
        };
        all.push((at, Disturbance::CutCable { node, long }));
        all.push((at + lasts, Disturbance::MendCable(node)));
    }
    let elastic = flows
        .iter()
        .any(|flow| flow.spec.on_loss != LossPolicy::Abort);
    if rng.chance(if elastic { 0.4 } else { 0.2 }) {
        for _ in 0..if rng.chance(0.15) { 2 } else { 1 } {
            let (node, is_reported) = (some_node(rng), rng.chance(0.5));
            all.push((some_time(rng), Disturbance::Crash { node, is_reported }));
        }
    }
    for (at, flow) in flows.iter().enumerate() {
        change_members(rng, nodes, at, flow, &mut all);
    }
    all
}

/// Draws the members that join and leave one flow.
fn change_members(
    rng: &mut Rng,
    nodes: u64,
    flow: usize,
    plan: &FlowPlan,
    all: &mut Vec<(Instant, Disturbance)>,
) {
    let spec = &plan.spec;
    let some_node = |rng: &mut Rng| NodeId(rng.below(nodes) as u16);
    let mut add = |rng: &mut Rng, disturbance| all.push((some_time(rng), disturbance));
    // Indexes of members that may have joined by then, and of some that never do.
    let (consumers, producers) = (spec.consumers.len() as u64, spec.producers.len() as u64);
    let fixed = spec.shape == FlowShape::Shuffle;
    if rng.chance(if fixed { 0.05 } else { 0.35 }) {
        for _ in 0..rng.between(1, 2) {
            let node = some_node(rng);
            add(rng, Disturbance::JoinConsumer { flow, node });
        }
    }
    if rng.chance(if fixed { 0.05 } else { 0.3 }) {
        for _ in 0..rng.between(1, 2) {
            let index = rng.below(consumers + 1) as usize;
            add(rng, Disturbance::RemoveConsumer { flow, index });
        }
    }
    if rng.chance(0.08) {
        let index = rng.below(consumers + 1) as usize;
        add(rng, Disturbance::LeaveConsumer { flow, index });
    }
    if rng.chance(0.3) {
        for _ in 0..rng.between(1, 2) {
            let node = some_node(rng);
            add(rng, Disturbance::JoinProducer { flow, node });
        }
    }
    if rng.chance(0.25) {
        let (index, tries) = (rng.below(producers + 1) as usize, TRIES);
        add(rng, Disturbance::RemoveProducer { flow, index, tries });
    }
    let set_weight = if spec.weight.is_some() { 0.5 } else { 0.05 };
    if rng.chance(set_weight) {
        for _ in 0..rng.between(1, 3) {
            let weight = rng.chance(0.8).then(|| rng.between(1, 100) as u32);
            add(rng, Disturbance::SetWeight { flow, weight });
        }
    }
}
