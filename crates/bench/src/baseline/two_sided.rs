//! Replication by two-sided SEND and RECEIVE, driven by CPUs: the baseline of figure 12.
//!
//! The paper compares with DFI (Thostrup et al., SIGMOD 2021), which sends unreliable datagrams to
//! a multicast group of the switch and makes them reliable in software. The soft NIC has reliable
//! connections only and the switch's forwarding has no multicast, so there are two stand-ins
//! ([`Fanout`]):
//!
//! * the producer posts one SEND per consumer. A native multicast would save the sender's link,
//!   which carries every message once per consumer; with one consumer the two are alike but for
//!   DFI's own acknowledgements.
//! * the consumers pass messages on in a chain. No link then carries a message twice in one
//!   direction, as with a multicast, but every consumer except the last spends a SEND on it.
//!
//! Global order comes from a sequencer: a word at a node, raised by fetch-and-add. A producer
//! requests the number of the next message while it sends one. Consumers copy messages out of their
//! receive buffers and deliver them in the order of the numbers, holding back what arrived too
//! early.
//!
//! Messages are DFI's segments of 8 KiB; the paper does not say what figure 12 used. One core or a
//! few make messages and as many per consumer take them ([`TwoSidedPlan::cores`]); credit keeps
//! receivers from being overrun.

mod actors;
mod edge;
pub mod log;

use crate::baseline::requests::Remote;
use crate::baseline::set_up::{self, NodeEnd, connect, region};
use crate::harness::drive::{Testbed, Until, nodes};
use crate::harness::{Result, Run, Scale};
pub use actors::MESSAGE_BYTES_MIN;
use actors::{Common, Sequencer, consumer, producer};
use edge::{Inlet, Outlet, ROOM, WINDOW, edge};
use log::{Log, Outcome};
use rackweave_base::{Duration, NodeId};
use rackweave_rack::config::{FaultSection, Role};
use rackweave_rack::{Rack, RackConfig};
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of a message: DFI's segment.
pub const MESSAGE_BYTES: u32 = 8 << 10;

/// Maximum completions that wait to be taken at a node.
const COMPLETIONS: u32 = 4096;

/// Virtual time after which a run has failed. Even one message at a time takes less.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a message reaches all consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fanout {
    /// The producer sends it to each.
    Each,
    /// Each consumer sends it to the next.
    Chain,
}

/// The parameters of a replication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoSidedPlan {
    /// Nodes that produce.
    pub producers: u32,
    /// Nodes that consume.
    pub consumers: u32,
    /// Whether all consumers deliver in one order.
    pub ordered: bool,
    /// How a message reaches all consumers.
    pub fanout: Fanout,
    /// Bytes of a message, a multiple of eight of at least [`MESSAGE_BYTES_MIN`].
    pub message_bytes: u32,
    /// Cores of each producer and of each consumer, which share the bytes of every message; the
    /// first of them posts and polls.
    pub cores: u32,
    /// Messages of each producer.
    pub messages: u64,
}

impl TwoSidedPlan {
    /// One producer and DFI's segments, as many as `scale` says.
    pub fn new(consumers: u32, ordered: bool, scale: Scale) -> Self {
        Self {
            producers: 1,
            consumers,
            ordered,
            fanout: Fanout::Each,
            message_bytes: MESSAGE_BYTES,
            cores: 1,
            messages: scale.pick(1_000, 8_000),
        }
    }

    fn check(&self) -> Result<()> {
        let (least, bytes) = (MESSAGE_BYTES_MIN as u64, self.message_bytes.into());
        set_up::check(&[
            ("the number of producers", self.producers.into(), 1..=16, 1),
            ("the number of consumers", self.consumers.into(), 1..=16, 1),
            ("the number of cores", self.cores.into(), 1..=16, 1),
            ("the size of a message", bytes, least..=1 << 20, 8),
        ])
    }
}

/// Replicates according to the plan, on a rack of its own.
///
/// # Errors
/// If the plan is invalid, the rack cannot be built, a message is lost, damaged, duplicated or out
/// of order, or the user stops the run.
pub fn run(run: &mut Run<'_>, plan: &TwoSidedPlan) -> Result<Outcome> {
    run_with_faults(run, plan, FaultSection::default())
}

fn run_with_faults(
    run: &mut Run<'_>,
    plan: &TwoSidedPlan,
    faults: FaultSection,
) -> Result<Outcome> {
    plan.check()?;
    let mut world = SetUp::new(plan, run.seed, faults)?;
    world.spawn()?;
    world.rack.drive(run, Until::Done(PATIENCE))?;
    world.outcome()
}

/// The parts of a run.
struct SetUp<'a> {
    plan: &'a TwoSidedPlan,
    seed: u64,
    rack: Testbed,
    /// Of the producers, the consumers and the sequencer, in this order.
    node_ends: Vec<NodeEnd>,
    logs: Vec<Rc<RefCell<Log>>>,
}

impl<'a> SetUp<'a> {
    fn new(plan: &'a TwoSidedPlan, seed: u64, faults: FaultSection) -> Result<Self> {
        let count = plan.producers + plan.consumers + u32::from(plan.ordered);
        let config = RackConfig {
            seed,
            node: nodes("node", Role::Compute, count as usize).collect(),
            faults,
            ..RackConfig::default()
        };
        let rack = Testbed::new(&config)?;
        // A producer makes messages in its memory; the first word of the sequencer's memory is
        // raised.
        let bytes = WINDOW as usize * plan.message_bytes as usize;
        let ids = (0..count).map(|at| NodeId(at as u16));
        let node_ends = ids.map(|node| NodeEnd::new(&rack, node, bytes, COMPLETIONS));
        Ok(Self {
            plan,
            seed,
            node_ends: node_ends.collect::<Result<_, _>>()?,
            logs: Vec::new(),
            rack,
        })
    }

    fn common(&self, node_end: &NodeEnd) -> Common {
        Common {
            cq: node_end.cq,
            message: self.plan.message_bytes,
            cores: self.plan.cores,
            seed: self.seed,
        }
    }

    /// Connects all nodes and starts their cores.
    fn spawn(&mut self) -> Result<()> {
        let (producers, others) = self.node_ends.split_at(self.plan.producers as usize);
        let (consumers, sequencers) = others.split_at(self.plan.consumers as usize);
        let count = consumers.len();
        let mut inlets: Vec<Vec<Inlet>> = (0..count).map(|_| Vec::new()).collect();
        let mut next: Vec<Option<Outlet>> = (0..count).map(|_| None).collect();
        let direct = match self.plan.fanout {
            Fanout::Each => count,
            Fanout::Chain => 1,
        };
        let bytes = self.plan.message_bytes;
        for (at, from) in producers.iter().enumerate() {
            let mut outlets = Vec::new();
            for (to, inlets) in consumers[..direct].iter().zip(&mut inlets) {
                let (outlet, inlet) = edge(&self.rack, from, to, inlets.len(), bytes)?;
                outlets.push(outlet);
                inlets.push(inlet);
            }
            let sequencer = match sequencers.first() {
                Some(to) => Some(sequencer(&self.rack, from, to)?),
                None => None,
            };
            let (buffers, total) = (from.region.clone(), self.plan.messages);
            let common = self.common(from);
            let producer = producer(common, at as u16, outlets, sequencer, buffers, total);
            self.rack.spawn(from.node, producer);
        }
        for at in direct..count {
            let (from, to) = (&consumers[at - 1], &consumers[at]);
            let (outlet, inlet) = edge(&self.rack, from, to, inlets[at].len(), bytes)?;
            next[at - 1] = Some(outlet);
            inlets[at].push(inlet);
        }
        for (at, (inlets, outlet)) in inlets.into_iter().zip(next).enumerate() {
            let log = Rc::new(RefCell::new(Log::default()));
            let total = self.plan.messages * u64::from(self.plan.producers);
            let (common, ordered) = (self.common(&consumers[at]), self.plan.ordered);
            let consumer = consumer(common, inlets, outlet, ordered, total, log.clone());
            self.logs.push(log);
            let node = consumers[at].node;
            self.rack.spawn(node, consumer);
        }
        Ok(())
    }

    fn outcome(self) -> Result<Outcome> {
        let nodes: Vec<NodeId> = self.node_ends.iter().map(|end| end.node).collect();
        let (producers, others) = nodes.split_at(self.plan.producers as usize);
        let consumers = &others[..self.logs.len()];
        let total = self.plan.messages * u64::from(self.plan.producers);
        let counts = (total, self.plan.message_bytes);
        Outcome::new(&self.rack, &self.logs, counts, [producers, consumers])
    }
}

/// Connects a producer with the sequencer.
fn sequencer(rack: &Rack, from: &NodeEnd, to: &NodeEnd) -> Result<Sequencer> {
    let (qpn, _) = connect(rack, from, to, ROOM)?;
    Ok(Sequencer {
        word: Remote::new(qpn, &to.region),
        answer: region(rack, from.node, from.pd, 8)?,
        asked: 0,
        is_pending: false,
        number: None,
    })
}

#[cfg(test)]
mod tests;
