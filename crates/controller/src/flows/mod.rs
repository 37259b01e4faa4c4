//! Flows: set-up, tear-down, failure.
//!
//! A flow owns one consumer ring per consumer and one producer ring per producer and consumer. The
//! controller allocates and registers the rings on their nodes, connects the lanes, fills the
//! tables and lets the polling begin; from then on the switch runs the flow. It comes back to tear
//! down what has ended, to break off what has failed, and to set up again what a restart of the
//! switch has wiped out (`recover`).

mod recover;
mod rings;
mod set_up;

use crate::lanes::Connected;
use crate::{Controller, LaneError, RegionError, Site};
use rackweave_base::NodeId;
use rackweave_programs::flows::{ProducerId, ThreadId};
use rackweave_programs::pipeline::Digest;
use rackweave_switch::transfer::FailReason;
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::ring::{ByteOrder, SwitchState};

pub use rings::{FlowRings, Ring};

/// A flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

/// What a flow shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// The nodes of the producers. A node may appear more than once.
    pub producers: Vec<NodeId>,
    /// The nodes of the consumers. A node may appear more than once.
    pub consumers: Vec<NodeId>,
    /// The size of an item in bytes, a multiple of eight.
    pub item_size: u32,
    /// Slots of a producer ring, a power of two.
    pub producer_slots: u32,
    /// Slots of a consumer ring, a power of two.
    pub consumer_slots: u32,
    /// Bytes of one transfer at most (zero-sided RDMA, section 7.1: no more than 4 MiB).
    pub batch_bytes: u32,
    /// Transfers of one consumer under way at a time: 1, 2 or 4.
    pub transfers: u8,
    /// The path MTU.
    pub mtu: Mtu,
}

impl FlowSpec {
    /// A flow of items of `item_size` bytes with rings of about `ring_bytes` bytes.
    pub fn new(
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> Self {
        let slots = (ring_bytes / item_size.max(1)).max(2);
        let slots = 1 << slots.ilog2();
        Self {
            producers: producers.to_vec(),
            consumers: consumers.to_vec(),
            item_size,
            producer_slots: slots,
            consumer_slots: slots,
            batch_bytes: 1 << 20,
            transfers: 4,
            mtu: Mtu::B4096,
        }
    }
}

/// How a flow is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Items move.
    Running,
    /// All producers have finished, all items are delivered, the lanes are taken down.
    Ended,
    /// Broken off.
    Aborted(AbortReason),
}

/// Why a flow was broken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AbortReason {
    /// A node does not answer or refuses.
    #[error("{role} on {node:?}: {reason}")]
    Lane {
        /// The node.
        node: NodeId,
        /// What it is in the flow.
        role: &'static str,
        /// What the switch says.
        reason: FailReason,
    },
    /// A node has died.
    #[error("{0:?} has died")]
    NodeDied(NodeId),
    /// A consumer takes no more items.
    #[error("the consumer on {0:?} has left")]
    ConsumerLeft(NodeId),
    /// A node wrote nonsense into a ring word.
    #[error("a unit of the thread on {0:?} wrote a ring word that makes no sense")]
    BadRingWord(NodeId),
    /// Somebody asked for it.
    #[error("it was closed")]
    Closed,
    /// It could not be set up again after a restart of the switch.
    #[error("it could not be set up again after a restart of the switch: {0}")]
    NotRecovered(LaneError),
}

/// Why a flow could not be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlowError {
    /// A value of the specification is out of range.
    #[error("{what} is {value}: {rule}")]
    BadSpec {
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
        /// What it should be.
        rule: &'static str,
    },
    /// The switch's tables hold no more rings.
    #[error(
        "the switch has room for {free} more {what}, {asked} are needed; raise switch.{setting}"
    )]
    TablesFull {
        /// Rings of which kind.
        what: &'static str,
        /// Rings needed.
        asked: usize,
        /// Rings left.
        free: usize,
        /// The setting to raise.
        setting: &'static str,
    },
    /// A node could not make the memory of a ring.
    #[error("{node:?}: {error}")]
    Region {
        /// The node.
        node: NodeId,
        /// Why.
        error: RegionError,
    },
    /// A ring of a flow that is to be taken over belongs to another flow.
    #[error("a ring on {node:?} belongs to a flow that runs")]
    RingInUse {
        /// The node.
        node: NodeId,
    },
    /// A ring of a flow that is to be taken over is gone or broken off.
    #[error("a ring on {node:?} is gone or broken off; set the flow up anew")]
    RingGone {
        /// The node.
        node: NodeId,
    },
    /// A lane could not be connected.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// All flows, and which table entries are free.
pub(crate) struct FlowBook {
    flows: Vec<Flow>,
    threads: Vec<bool>,
    producers: Vec<bool>,
    orders: Vec<(NodeId, ByteOrder)>,
}

/// A flow as the controller knows it.
pub(crate) struct Flow {
    spec: FlowSpec,
    state: FlowState,
    rings: FlowRings,
    threads_first: ThreadId,
    producers_first: ProducerId,
    threads_running: Vec<bool>,
    lanes: Vec<Connected>,
}

impl FlowBook {
    pub fn new(threads: u16, producers: u16) -> Self {
        Self {
            flows: Vec::new(),
            threads: vec![false; usize::from(threads)],
            producers: vec![false; usize::from(producers)],
            orders: Vec::new(),
        }
    }

    /// The byte order of a node's memory: little-endian, unless told otherwise.
    fn order(&self, node: NodeId) -> ByteOrder {
        let known = self.orders.iter().find(|(id, _)| *id == node);
        known.map_or(ByteOrder::Little, |&(_, order)| order)
    }

    fn of_thread(&self, thread: ThreadId) -> Option<FlowId> {
        let position = self.flows.iter().position(|flow| {
            let first = flow.threads_first.0;
            flow.state == FlowState::Running
                && (first..first + flow.spec.consumers.len() as u16).contains(&thread.0)
        });
        position.map(|at| FlowId(at as u32))
    }
}

impl Controller {
    /// Rings made on `node` from now on have their words in this byte order.
    pub fn set_byte_order(&mut self, node: NodeId, order: ByteOrder) {
        self.flows.orders.retain(|(id, _)| *id != node);
        self.flows.orders.push((node, order));
    }

    /// The state of a flow; nothing if there is no such flow.
    pub fn flow_state(&self, id: FlowId) -> Option<FlowState> {
        self.flows.flows.get(id.0 as usize).map(|flow| flow.state)
    }

    /// Acts on what the switch has reported.
    pub fn handle_digests(&mut self, site: &mut dyn Site) {
        loop {
            let mut digest = None;
            site.switch(&mut |_, switch| digest = switch.poll_digest());
            match digest {
                None => return,
                Some(digest) => self.handle_digest(site, digest),
            }
        }
    }

    /// Acts on one report of the switch.
    pub fn handle_digest(&mut self, site: &mut dyn Site, digest: Digest) {
        let thread = match digest {
            Digest::ThreadEnded(thread) | Digest::ConsumerLeft(thread) => thread,
            Digest::BadRingWord(thread) | Digest::ThreadFailed { thread, .. } => thread,
        };
        let Some(id) = self.flows.of_thread(thread) else {
            return;
        };
        let flow = &mut self.flows.flows[id.0 as usize];
        let at = usize::from(thread.0 - flow.threads_first.0);
        let consumer = flow.spec.consumers[at];
        let reason = match digest {
            Digest::ThreadEnded(_) => {
                flow.threads_running[at] = false;
                if !flow.threads_running.contains(&true) {
                    self.take_down(site, id, FlowState::Ended);
                }
                return;
            }
            Digest::ConsumerLeft(_) => AbortReason::ConsumerLeft(consumer),
            Digest::BadRingWord(_) => AbortReason::BadRingWord(consumer),
            Digest::ThreadFailed {
                producer: None,
                reason,
                ..
            } => AbortReason::Lane {
                node: consumer,
                role: "consumer",
                reason,
            },
            Digest::ThreadFailed {
                producer: Some(producer),
                reason,
                ..
            } => {
                // Producer rings of a thread lie one after the other, in the order of producers.
                let place =
                    usize::from(producer - flow.producers_first.0) % flow.spec.producers.len();
                AbortReason::Lane {
                    node: flow.spec.producers[place],
                    role: "producer",
                    reason,
                }
            }
        };
        self.take_down(site, id, FlowState::Aborted(reason));
    }

    /// Breaks off a flow. What its consumers have been shown stays valid.
    pub fn close_flow(&mut self, site: &mut dyn Site, id: FlowId) {
        if self.flow_state(id) == Some(FlowState::Running) {
            self.take_down(site, id, FlowState::Aborted(AbortReason::Closed));
        }
    }

    /// A node has died: flows that need it are broken off, and the others told.
    pub fn node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        self.lanes.forget_home(node);
        for at in 0..self.flows.flows.len() {
            let flow = &self.flows.flows[at];
            let concerned =
                flow.spec.producers.contains(&node) || flow.spec.consumers.contains(&node);
            if flow.state == FlowState::Running && concerned {
                let reason = AbortReason::NodeDied(node);
                self.take_down(site, FlowId(at as u32), FlowState::Aborted(reason));
            }
        }
    }

    /// Takes lanes and table entries of a flow down and tells both sides how it ended.
    fn take_down(&mut self, site: &mut dyn Site, id: FlowId, state: FlowState) {
        let flow = &mut self.flows.flows[id.0 as usize];
        flow.state = state;
        let (first, count) = (flow.threads_first.0, flow.spec.consumers.len() as u16);
        let lanes = core::mem::take(&mut flow.lanes);
        site.switch(&mut |_, switch| {
            for thread in first..first + count {
                switch.program_mut().flows.remove(ThreadId(thread));
            }
        });
        for lane in &lanes {
            self.disconnect_lane(site, lane);
        }
        let flow = &self.flows.flows[id.0 as usize];
        let told = match state {
            FlowState::Ended => SwitchState::Ended,
            FlowState::Aborted(_) | FlowState::Running => SwitchState::Aborted,
        };
        for ring in flow.rings.all() {
            ring.tell(site, told);
        }
        let threads = usize::from(first)..usize::from(first + count);
        self.flows.threads[threads].fill(false);
        let first = usize::from(flow.producers_first.0);
        let rings = flow.spec.producers.len() * usize::from(count);
        self.flows.producers[first..first + rings].fill(false);
        self.deregister(site, id);
    }
}
