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
pub mod log;

use crate::baseline::verbs::{self, NodeEnd, Remote, connect, region};
use crate::harness::prelude::*;
use actors::{
    CAPACITY, Common, Inlet, MESSAGE_BYTES_MIN, Outlet, Sequencer, WINDOW, consumer, edge, producer,
};
use log::{Log, Outcome};
use rackweave_rack::config::FaultSection;

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoSidedPlan {
    pub producers: u32,
    pub consumers: u32,
    /// Whether all consumers deliver in one order.
    pub ordered: bool,
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
        verbs::check(&[
            ("the number of producers", self.producers.into(), 1..=16, 1),
            ("the number of consumers", self.consumers.into(), 1..=16, 1),
            ("the number of cores", self.cores.into(), 1..=16, 1),
            ("the size of a message", bytes, least..=1 << 20, 8),
        ])
    }
}

/// Replicates according to the plan, on a rack of its own.
pub fn run(run: &mut Run<'_>, plan: &TwoSidedPlan, faults: FaultSection) -> Result<Outcome> {
    plan.check()?;
    let count = plan.producers + plan.consumers + u32::from(plan.ordered);
    let config = RackConfig {
        seed: run.seed,
        node: nodes("node", Role::Compute, count as usize).collect(),
        faults,
        ..RackConfig::default()
    };
    let mut rack = Testbed::new(&config)?;
    // A producer makes messages in its memory; the first word of the sequencer's memory is raised.
    let bytes = WINDOW as usize * plan.message_bytes as usize;
    let ends = (0..count).map(|at| NodeEnd::new(&rack, NodeId(at as u16), bytes, COMPLETIONS));
    let ends = ends.collect::<Result<Vec<_>>>()?;
    let (producers, others) = ends.split_at(plan.producers as usize);
    let (consumers, sequencers) = others.split_at(plan.consumers as usize);
    let parts = [producers, consumers, sequencers];
    let logs = spawn(&mut rack, plan, run.seed, parts)?;
    rack.drive(run, Until::Done(PATIENCE))?;
    let total = plan.messages * u64::from(plan.producers);
    let [from, to] = [producers, consumers].map(|ends| ends.iter().map(|end| end.node));
    let (from, to): (Vec<NodeId>, Vec<NodeId>) = (from.collect(), to.collect());
    Outcome::new(&rack, &logs, (total, plan.message_bytes), [&from, &to])
}

/// Connects all nodes and starts their cores. Returns the consumers' logs.
fn spawn(
    rack: &mut Testbed,
    plan: &TwoSidedPlan,
    seed: u64,
    [producers, consumers, sequencers]: [&[NodeEnd]; 3],
) -> Result<Vec<Rc<RefCell<Log>>>> {
    let common = |end: &NodeEnd| Common {
        cq: end.cq,
        message: plan.message_bytes,
        cores: plan.cores,
        seed,
    };
    let (count, bytes) = (consumers.len(), plan.message_bytes);
    let mut inlets: Vec<Vec<Inlet>> = (0..count).map(|_| Vec::new()).collect();
    let mut next: Vec<Option<Outlet>> = (0..count).map(|_| None).collect();
    let direct = match plan.fanout {
        Fanout::Each => count,
        Fanout::Chain => 1,
    };
    for (at, from) in producers.iter().enumerate() {
        let mut outlets = Vec::new();
        for (to, inlets) in consumers[..direct].iter().zip(&mut inlets) {
            let (outlet, inlet) = edge(rack, from, to, inlets.len(), bytes)?;
            outlets.push(outlet);
            inlets.push(inlet);
        }
        let sequencer = sequencers.first().map(|to| sequencer(rack, from, to));
        let (sequencer, buffers) = (sequencer.transpose()?, from.region.clone());
        let own = at as u16;
        let producer = producer(
            common(from),
            own,
            outlets,
            sequencer,
            buffers,
            plan.messages,
        );
        rack.spawn(from.node, producer);
    }
    for at in direct..count {
        let (from, to) = (&consumers[at - 1], &consumers[at]);
        let (outlet, inlet) = edge(rack, from, to, inlets[at].len(), bytes)?;
        next[at - 1] = Some(outlet);
        inlets[at].push(inlet);
    }
    let total = plan.messages * u64::from(plan.producers);
    let mut logs = Vec::new();
    for ((end, inlets), outlet) in consumers.iter().zip(inlets).zip(next) {
        let log = Rc::<RefCell<Log>>::default();
        let consumer = consumer(
            common(end),
            inlets,
            outlet,
            plan.ordered,
            total,
            log.clone(),
        );
        rack.spawn(end.node, consumer);
        logs.push(log);
    }
    Ok(logs)
}

fn sequencer(rack: &Rack, from: &NodeEnd, to: &NodeEnd) -> Result<Sequencer> {
    let (qpn, _) = connect(rack, from, to, CAPACITY)?;
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
