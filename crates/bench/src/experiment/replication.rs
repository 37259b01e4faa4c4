//! Replication and fairness between producers (zero-sided RDMA, figures 12 and 14): the harness.
//!
//! One or several producers send items, and all consumers receive all of them. Every producer has
//! one ring.
//!
//! Checks: every byte, that every consumer gets every item, each producer's in order, and whether
//! all consumers saw one order ([`Outcome::same_order`]). Producers build items in their slots and
//! consumers read them in theirs, at the same cost per byte as the two-sided baseline's. One core
//! streams fewer bytes than a link carries; [`ReplicationPlan::cores`] of them share each item.

mod actors;

use crate::baseline::two_sided::log::{Log, same_order};
use crate::harness::drive::{OrFailed, Testbed, Until, failed, nodes};
use crate::harness::one_to_one::payload_rate;
use crate::harness::{Result, Run, Scale};
use actors::{ItemSource, Sink};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::{FlowError, FlowShape, FlowSpec};
use rackweave_rack::config::Role;
use rackweave_rack::{Flow, RackConfig, SimulatedRack};
use rackweave_sim::CpuReport;
use std::rc::Rc;

/// Bytes of an item, like the baseline's messages.
pub const ITEM_BYTES: u32 = crate::baseline::two_sided::MESSAGE_BYTES;

/// Bytes of a ring: what a link carries in a third of a millisecond. With a quarter of it, slots
/// are released too late for a flow to fill the links of four consumers.
pub const RING_BYTES: u32 = 512 * ITEM_BYTES;

/// Maximum bytes of one transfer.
pub const BATCH_BYTES: u32 = 1 << 20;

/// Limit on the virtual time of a run.
const TIME_MAX: Duration = Duration::from_secs(2);

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicationPlan {
    /// Number of producing nodes.
    pub producers: u32,
    /// Number of consuming nodes.
    pub consumers: u32,
    /// Bytes of an item, at least those of a stamp.
    pub item_bytes: u32,
    /// Bytes of a ring.
    pub ring_bytes: u32,
    /// Maximum bytes of one transfer.
    pub batch_bytes: u32,
    /// Cores of each producer and of each consumer, which share every item.
    pub cores: u32,
    /// Items of each producer.
    pub items: u64,
    /// Whether the flow replicates; with one consumer an ordinary flow is the smallest replication.
    pub shape: FlowShape,
}

impl ReplicationPlan {
    /// A plan with the baseline's item size.
    pub fn new(producers: u32, consumers: u32, scale: Scale) -> Self {
        Self {
            producers,
            consumers,
            item_bytes: ITEM_BYTES,
            ring_bytes: RING_BYTES,
            batch_bytes: BATCH_BYTES,
            cores: 1,
            // Several times the capacity of a ring.
            items: scale.pick(3_000, 8_000),
            shape: FlowShape::Replicate,
        }
    }

    /// The producing nodes.
    pub fn producer_nodes(&self) -> Vec<NodeId> {
        (0..self.producers).map(|at| NodeId(at as u16)).collect()
    }

    /// The consuming nodes.
    pub fn consumer_nodes(&self) -> Vec<NodeId> {
        let nodes = self.producers..self.producers + self.consumers;
        nodes.map(|at| NodeId(at as u16)).collect()
    }
}

/// The measurements of a flow.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes per second of each producer while all of them were producing, seen by the first
    /// consumer.
    pub producers: Vec<f64>,
    /// Bytes per second that each consumer took in the steady state.
    pub consumers: Vec<f64>,
    /// Whether all consumers took the same items in the same order.
    pub same_order: bool,
    /// When the last item was taken, in seconds of virtual time.
    pub seconds: f64,
    /// CPU time of each producer's first core; the other cores of a team spend as much on items.
    pub producer_cpus: Vec<CpuReport>,
    /// CPU time of each consumer's first core.
    pub consumer_cpus: Vec<CpuReport>,
}

/// Payload bytes per second of a link that carries only full packets of 4096 bytes.
pub fn link_rate() -> f64 {
    payload_rate(4096)
}

/// As in the paper, rings are polled at a fixed interval, whether or not they are active.
fn flow(rack: &mut SimulatedRack, plan: &ReplicationPlan) -> Result<Flow, FlowError> {
    let (producers, consumers) = (plan.producer_nodes(), plan.consumer_nodes());
    let spec = rack
        .flow(&producers, &consumers)
        .item_bytes(plan.item_bytes)
        .ring_bytes(plan.ring_bytes)
        .shape(plan.shape)
        .spec()?;
    rack.create_flow(FlowSpec {
        batch_bytes: plan.batch_bytes,
        poll_interval_max: spec.poll_interval,
        ..spec
    })
}

/// Runs a plan on a rack of its own.
pub fn measure(run: &mut Run<'_>, plan: &ReplicationPlan) -> Result<Outcome> {
    let count = (plan.producers + plan.consumers) as usize;
    let config = RackConfig {
        seed: run.seed,
        node: nodes("node", Role::Compute, count).collect(),
        ..RackConfig::default()
    };
    let mut rack = Testbed::new(&config)?;
    let flow = flow(&mut rack, plan)?;
    for (at, &node) in plan.producer_nodes().iter().enumerate() {
        let ring = flow.take_producer(at).or_failed("replication")?;
        let source = ItemSource {
            ring,
            plan: *plan,
            seed: run.seed,
            index: at as u16,
            next: 0,
            is_written: false,
        };
        rack.spawn(node, source);
    }
    let mut logs = Vec::new();
    for (at, &node) in plan.consumer_nodes().iter().enumerate() {
        let ring = flow.take_consumer(at).or_failed("replication")?;
        let log = Rc::<RefCell<Log>>::default();
        let sink = Sink {
            ring,
            cores: plan.cores,
            seed: run.seed,
            taken: None,
            log: log.clone(),
        };
        logs.push(log);
        rack.spawn(node, sink);
    }
    rack.drive(run, Until::Done(TIME_MAX))?;
    outcome(&rack, plan, logs.iter().map(|log| log.take()).collect())
}

fn outcome(rack: &SimulatedRack, plan: &ReplicationPlan, logs: Vec<Log>) -> Result<Outcome> {
    let total = plan.items * u64::from(plan.producers);
    for (at, log) in logs.iter().enumerate() {
        if log.count() != total || !log.is_in_order_per_producer() {
            let count = log.count();
            let what = format!(
                "consumer {at} took {count} items of {total}, or a producer's out of order"
            );
            return Err(failed("replication", what));
        }
    }
    let cpu = |node: &NodeId| rack.cpu_report(*node).unwrap_or_default();
    let rate = |log: &Log| log.goodput(plan.item_bytes);
    let last = logs.iter().map(Log::last).max().unwrap_or_default();
    let shares = |log: &Log| log.shares(plan.item_bytes, plan.producers);
    Ok(Outcome {
        producers: logs.first().map(shares).unwrap_or_default(),
        consumers: logs.iter().map(rate).collect(),
        same_order: same_order(&logs),
        seconds: (last - Instant::ZERO).as_secs_f64(),
        producer_cpus: plan.producer_nodes().iter().map(cpu).collect(),
        consumer_cpus: plan.consumer_nodes().iter().map(cpu).collect(),
    })
}

#[cfg(test)]
mod tests;
