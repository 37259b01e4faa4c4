//! Replication and fairness between producers (zero-sided RDMA, figures 12 and 14): the harness.
//!
//! One or several producers send items, and all consumers receive all of them. Every producer has
//! one ring.
//!
//! Checks: every byte, that every consumer gets every item, each producer's in order, and whether
//! all consumers saw one order ([`Outcome::same_order`]). Producers build items in their slots and
//! consumers read them in theirs, at the same cost per byte as the two-sided baseline's. One core
//! streams fewer bytes than a link carries; [`ReplicationPlan::cores`] of them share each item.

use crate::baseline::two_sided::log::{Log, Outcome};
use crate::harness::one_to_one::payload_rate;
use crate::harness::prelude::*;
use rackweave_controller::{FlowShape, FlowSpec};
use rackweave_sim::checkers::stamp;

/// Bytes of an item, like the baseline's messages.
pub const ITEM_BYTES: u32 = crate::baseline::two_sided::MESSAGE_BYTES;

/// Bytes of a ring: what a link carries in a third of a millisecond. With a quarter of it, slots
/// are released too late for a flow to fill the links of four consumers.
pub const RING_BYTES: u32 = 512 * ITEM_BYTES;

/// Maximum bytes of one transfer.
pub const BATCH_BYTES: u32 = 1 << 20;

/// Limit on the virtual time of a run.
const TIME_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicationPlan {
    pub producers: u32,
    pub consumers: u32,
    /// Bytes of an item, at least those of a stamp.
    pub item_bytes: u32,
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
}

/// Payload bytes per second of a link that carries only full packets of 4096 bytes.
pub fn link_rate() -> f64 {
    payload_rate(4096)
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
    let node = |at: u32| NodeId(at as u16);
    let producers: Vec<NodeId> = (0..plan.producers).map(node).collect();
    let consumers: Vec<NodeId> = (plan.producers..count as u32).map(node).collect();
    let ends = [&producers[..], &consumers];
    let spec = flow_spec(&rack, ends, plan.item_bytes, plan.ring_bytes)?;
    let flow = rack.create_flow(FlowSpec {
        shape: plan.shape,
        batch_bytes: plan.batch_bytes,
        // As in the paper, rings are polled at a fixed interval, whether or not they are active.
        poll_interval_max: spec.poll_interval,
        ..spec
    })?;
    for (at, &node) in producers.iter().enumerate() {
        let ring = flow.take_producer(at).or_failed("replication")?;
        rack.spawn(node, source(ring, *plan, run.seed, at as u16));
    }
    let mut logs = Vec::new();
    for (at, &node) in consumers.iter().enumerate() {
        let ring = flow.take_consumer(at).or_failed("replication")?;
        let log = Rc::<RefCell<Log>>::default();
        rack.spawn(node, sink(ring, plan.cores, run.seed, log.clone()));
        logs.push(log);
    }
    rack.drive(run, Until::Done(TIME_MAX))?;
    let counts = (plan.items * u64::from(plan.producers), plan.item_bytes);
    Outcome::new(&rack, &logs, counts, ends)
}

/// The cores that write the items of producer `index` into its ring, each its share of every item.
///
/// Memory is accessed at the beginning of a step and its time passes afterwards, so both ends
/// notify the switch in the next step.
fn source(mut ring: Producer, plan: ReplicationPlan, seed: u64, index: u16) -> impl Program {
    let (mut next, mut is_written) = (0, false);
    move |context: &mut Context<'_>| -> Turn {
        if core::mem::take(&mut is_written) {
            ring.commit(1);
        }
        if next == plan.items {
            ring.finish();
            return Ok(Step::Done);
        }
        match ring.reserve(1) {
            Ok(mut slot) => {
                let mut item = vec![0; slot.len()];
                stamp::fill(&mut item, index, 0, next, seed);
                slot.copy_from(&item);
                next += 1;
                is_written = true;
                let bytes = plan.item_bytes.div_ceil(plan.cores);
                Ok(Step::Compute(stream_time(context.cpu(), u64::from(bytes))))
            }
            Err(PushError::Full) => Ok(Step::WaitForPacket),
            Err(error) => Err(format!("producer {index}: {error}")),
        }
    }
}

/// The cores that read items in a ring, each its share of every item.
fn sink(mut ring: Consumer, cores: u32, seed: u64, log: Rc<RefCell<Log>>) -> impl Program {
    // The item whose time is passing.
    let mut taken = None;
    move |context: &mut Context<'_>| -> Turn {
        if let Some(stamp) = taken.take() {
            ring.release(1);
            log.borrow_mut().note(context.now(), stamp);
        }
        match ring.peek(1) {
            Taken::Items(item) => {
                let stamp = stamp::check(&item.to_vec(), seed);
                taken = Some(stamp.map_err(|error| error.to_string())?);
                let bytes = (item.len() as u64).div_ceil(u64::from(cores));
                Ok(Step::Compute(stream_time(context.cpu(), bytes)))
            }
            Taken::Empty => Ok(Step::WaitForPacket),
            Taken::Ended => Ok(Step::Done),
            Taken::Aborted => Err("the flow was broken off".into()),
        }
    }
}

#[cfg(test)]
mod tests;
