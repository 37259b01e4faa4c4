//! Flows: set-up, change, tear-down, failure.
//!
//! A flow owns one consumer ring per consumer, and producer rings: one per producer and consumer in
//! a shuffle, else one per producer. The controller allocates and registers the rings on their
//! nodes, connects the lanes, fills the tables and starts the polling; from then on the switch runs
//! the flow. The controller acts again to add and remove producers and consumers (`members`), to
//! change weights (`weights`), to tear down flows that have ended, to abort those that have failed,
//! and to restore those that a restart of the switch has wiped out (`recover`). The progress of
//! flows is read from their rings (`look`).
//!
//! Many threads may act on flows at once. Each flow has a lock, which is held while its members are
//! asked; no lock is held then that is needed for another flow (`registry`).

mod flow;
mod look;
mod members;
mod recover;
mod registry;
mod rings;
mod set_up;
mod spec;
mod tables;
mod weights;

use crate::{Controller, Fabric, LaneError, NameError, RegionError, Site};
use rackweave_base::NodeId;
use rackweave_base::text::Text;
use rackweave_programs::Digest;
use rackweave_programs::flows::{FlowDigest, ThreadId, Whose};
use rackweave_switch::transfer::FailReason;
use rackweave_wire::fabric::ring::{ByteOrder, SwitchState};
use serde::{Deserialize, Serialize};

pub(crate) use flow::Flow;
pub use look::{FlowLook, RingCounters};
pub use members::Loss;
pub(crate) use registry::FlowRegistry;
pub use rings::{Bell, FlowRings, Ring};
use set_up::forget_ring;
pub use spec::{FlowShape, FlowSpec, LossPolicy, WEIGHT_MAX};

/// The number of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FlowState {
    /// Items move.
    Running,
    /// All producers have finished, all items are delivered, the lanes are taken down.
    Ended,
    /// It was aborted.
    Aborted(AbortReason),
}

/// Why a flow was aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum AbortReason {
    /// A node does not reply or refuses.
    #[error("{role} on {node:?}: {reason}")]
    Lane {
        /// The node.
        node: NodeId,
        /// Its role in the flow.
        #[serde(with = "rackweave_base::text")]
        role: Text,
        /// The failure reported by the switch.
        reason: FailReason,
    },
    /// A node has died.
    #[error("{0:?} has died")]
    NodeDied(NodeId),
    /// A consumer takes no more items.
    #[error("the consumer on {0:?} has left")]
    ConsumerLeft(NodeId),
    /// A node wrote an invalid ring word.
    #[error("a node on {0:?} wrote a ring word that makes no sense")]
    BadRingWord(NodeId),
    /// The controller that had set it up is gone.
    #[error("its controller has ended")]
    ControllerLost,
    /// It was closed on request.
    #[error("it was closed")]
    Closed,
    /// It could not be set up again after a restart of the switch or the loss of a member.
    #[error("it could not be set up again: {0}")]
    NotRecovered(LaneError),
}

/// Why a flow could not be set up or changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum FlowError {
    /// A value of the specification is out of range.
    #[error("{what} is {value}: {rule}")]
    BadSpec {
        /// The value's name.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// The value.
        value: u64,
        /// What it should be.
        #[serde(with = "rackweave_base::text")]
        rule: Text,
    },
    /// The rack has no node of that name.
    #[error("{0}")]
    NoNode(String),
    /// The end is at a node of another process, or was removed with its flow.
    #[error("the ring is at a node that is not in this process, or gone with its flow")]
    NotHere,
    /// The end is taken already.
    #[error("this end of the flow is taken; its owner has to drop it first")]
    Taken,
    /// One end was requested, and there are several.
    #[error("the producer has {0} ends, one for each consumer; take them together")]
    Several(usize),
    /// Memory that was named as a ring cannot be one.
    #[error("{0}")]
    BadRing(String),
    /// The switch's tables have too few free entries for rings.
    #[error(
        "the switch has room for {free} more {what}, {asked} are needed; raise switch.{setting}"
    )]
    TablesFull {
        /// The kind of rings.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// Entries needed.
        asked: usize,
        /// Entries free.
        free: usize,
        /// The setting to raise.
        #[serde(with = "rackweave_base::text")]
        setting: Text,
    },
    /// A node could not make the memory of a ring.
    #[error("{node:?}: {error}")]
    Region {
        /// The node.
        node: NodeId,
        /// The cause.
        error: RegionError,
    },
    /// A ring of a flow that is to be taken over belongs to another flow.
    #[error("a ring on {node:?} belongs to a flow that runs")]
    RingInUse {
        /// The node.
        node: NodeId,
    },
    /// A ring of a flow that is to be taken over has been removed or aborted.
    #[error("a ring on {node:?} is gone or broken off; set the flow up anew")]
    RingGone {
        /// The node.
        node: NodeId,
    },
    /// The shape of the flow does not allow the change.
    #[error("a flow of shape {} cannot {change}: {rule}", shape.name())]
    ShapeForbids {
        /// The shape.
        shape: FlowShape,
        /// The requested change.
        #[serde(with = "rackweave_base::text")]
        change: Text,
        /// The reason.
        #[serde(with = "rackweave_base::text")]
        rule: Text,
    },
    /// The flow would have no such member left.
    #[error("it is the flow's last {role}; close the flow instead")]
    LastMember {
        /// Producer or consumer.
        #[serde(with = "rackweave_base::text")]
        role: Text,
    },
    /// There is no such member, or it has left.
    #[error("the flow has no {role} {index}, or it has left")]
    NoSuchMember {
        /// Producer or consumer.
        #[serde(with = "rackweave_base::text")]
        role: Text,
        /// Its number in the flow.
        index: usize,
    },
    /// A producer cannot be removed with undelivered items.
    #[error("producer {index} has not finished, or its items are not all delivered")]
    ProducerBusy {
        /// Its number in the flow.
        index: usize,
    },
    /// The flow is not running, or does not exist.
    #[error("the flow does not run")]
    NotRunning,
    /// A lane could not be connected.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// Its name is taken, or unknown.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Fabric {
    /// Sets the byte order of the words of rings made on `node` from now on.
    pub fn set_byte_order(&self, node: NodeId, order: ByteOrder) {
        self.flows.set_order(node, order);
    }

    /// The current rings of a flow; `None` if there is no such flow. Waits as
    /// [`Self::flow_state`] does.
    pub fn flow_rings(&self, id: FlowId) -> Option<FlowRings> {
        self.flows.with(id, |flow| flow.rings.clone())
    }

    /// The state of a flow; `None` if there is no such flow. Waits for an operation that is
    /// changing the flow.
    pub fn flow_state(&self, id: FlowId) -> Option<FlowState> {
        self.flows.with(id, |flow| flow.state)
    }

    /// The switch's next report, and the flow that it is about, if that flow exists. No node is
    /// asked.
    pub fn poll_digest(&self, site: &mut dyn Site) -> Option<(Digest, Option<FlowId>)> {
        self.flows.poll_digest(site)
    }

    /// Handles one report of the switch about a flow. Other flows do not wait for it.
    pub fn handle_flow_digest(&self, site: &mut dyn Site, id: FlowId, digest: FlowDigest) {
        let act = |flow: &mut Flow| self.flow_digest(site, flow, digest);
        let _ = self.flows.with_running(id, act);
    }

    /// The flow may have been set up again since the report, or the member may have left.
    fn flow_digest(&self, site: &mut dyn Site, flow: &mut Flow, digest: FlowDigest) {
        let (whose, ring) = match digest {
            FlowDigest::ThreadEnded(thread) => return self.thread_ended(site, flow, thread),
            FlowDigest::Quiet(_) => {
                // A consumer that could not join is among the losses.
                let _ = self.settle(site, flow);
                return;
            }
            // The registers have the current state.
            FlowDigest::ThreadFailed { thread, .. } if !is_so(site, |it| it.has_failed(thread)) => {
                return;
            }
            FlowDigest::ThreadFailed { whose, ring, .. }
            | FlowDigest::BadRingWord { whose, ring, .. } => (whose, ring),
            FlowDigest::ConsumerLeft { consumer, ring, .. } => (Whose::Consumer(consumer), ring),
        };
        // At the time of the report, the number may have been another member's, of this flow or
        // another; the ring's key cannot have been.
        let member = flow.member(whose);
        let Some((role, index)) = member.filter(|&(_, at)| flow.has_ring(whose, at, ring)) else {
            return;
        };
        let node = match whose {
            Whose::Consumer(_) => flow.spec.consumers[index],
            Whose::Producer(_) => flow.spec.producers[index],
        };
        let reason = match digest {
            FlowDigest::ThreadFailed { reason, .. } => AbortReason::Lane { node, role, reason },
            FlowDigest::ConsumerLeft { .. } => AbortReason::ConsumerLeft(node),
            FlowDigest::BadRingWord { .. } | FlowDigest::ThreadEnded(_) | FlowDigest::Quiet(_) => {
                AbortReason::BadRingWord(node)
            }
        };
        let (consumers, producers) = match whose {
            Whose::Consumer(_) => (vec![index], vec![]),
            Whose::Producer(_) => (vec![], vec![index]),
        };
        self.members_lost(site, flow, &consumers, &producers, reason);
    }

    fn thread_ended(&self, site: &mut dyn Site, flow: &mut Flow, thread: ThreadId) {
        let is_its = flow.threads().any(|(id, _)| id == thread);
        // At the time of the report, the number may have been another flow's.
        if !is_its || !is_so(site, |it| it.has_ended(thread)) {
            return;
        }
        flow.thread_ended(thread);
        if flow.has_work() {
            self.flows.lock().note(flow);
        } else {
            self.take_down(site, flow, FlowState::Ended);
        }
    }

    /// Aborts a flow. Items that its consumers have been shown stay valid.
    pub fn close_flow(&self, site: &mut dyn Site, id: FlowId) {
        let closed = FlowState::Aborted(AbortReason::Closed);
        let close = |flow: &mut Flow| self.take_down(site, flow, closed);
        let _ = self.flows.with_running(id, close);
    }

    /// Handles the death of a node: forgets what was made on it, and returns the flows that may
    /// have members there. Call [`Self::flow_node_died`] for each of them before a node of this
    /// name is admitted again. No node is asked.
    pub fn flows_losing(&self, node: NodeId) -> Vec<FlowId> {
        self.lanes.forget_home(node);
        self.flows.of_node(node)
    }

    /// Handles the death of a node in one flow: it continues without the node or is aborted,
    /// according to its policy. Waits for an operation that is changing the flow: members may die
    /// while it is set up.
    pub fn flow_node_died(&self, site: &mut dyn Site, id: FlowId, node: NodeId) {
        let lose = |flow: &mut Flow| {
            let (consumers, producers) = flow.members_on(node);
            if !consumers.is_empty() || !producers.is_empty() {
                let reason = AbortReason::NodeDied(node);
                self.members_lost(site, flow, &consumers, &producers, reason);
            }
        };
        let _ = self.flows.with_running(id, lose);
    }

    /// Removes lanes and table entries of a flow and writes to both sides how it ended.
    fn take_down(&self, site: &mut dyn Site, flow: &mut Flow, state: FlowState) {
        flow.state = state;
        self.disconnect_flow(site, flow);
        let state_word = match state {
            FlowState::Ended => SwitchState::Ended,
            FlowState::Aborted(_) | FlowState::Running => SwitchState::Aborted,
        };
        flow.rings_at_end = Some(RingCounters::at_end(flow, |ring| {
            ring.tell(site, state_word)
        }));
        flow.rings_left().for_each(|ring| forget_ring(site, ring));
        self.flows.retire(flow);
        self.share_out(site);
    }
}

impl Controller {
    /// Handles all reports of the switch.
    pub fn handle_digests(&mut self, site: &mut dyn Site) {
        while let Some((digest, flow)) = self.poll_digest(site) {
            self.handle_digest_of(site, flow, digest);
        }
    }

    /// Handles one report of the switch.
    pub fn handle_digest(&mut self, site: &mut dyn Site, digest: Digest) {
        let flow = match digest {
            Digest::Flow(digest) => self.flows.owner(digest),
            Digest::Page(_) | Digest::Sequencer(_) => None,
        };
        self.handle_digest_of(site, flow, digest);
    }

    fn handle_digest_of(&mut self, site: &mut dyn Site, flow: Option<FlowId>, digest: Digest) {
        match digest {
            Digest::Page(digest) => self.handle_page_digest(site, digest),
            Digest::Sequencer(digest) => self.handle_sequencer_digest(site, digest),
            Digest::Flow(digest) => {
                if let Some(flow) = flow {
                    self.handle_flow_digest(site, flow, digest);
                }
            }
        }
    }

    /// Handles the death of a node in pages and sequencers; [`Fabric::flows_losing`] is for flows.
    pub fn services_node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        self.page_node_died(site, node);
        self.sequencer_node_died(site, node);
        self.index_node_died(site, node);
        self.forget_services(node);
    }

    /// Handles the death of a node: flows with it continue without it or are aborted, according to
    /// their policies.
    pub fn node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        self.services_node_died(site, node);
        for id in self.flows_losing(node) {
            self.flow_node_died(site, id, node);
        }
    }
}

/// Whether the switch's registers currently say so.
fn is_so(site: &mut dyn Site, ask: impl Fn(&rackweave_programs::flows::Flows) -> bool) -> bool {
    let mut answer = false;
    site.switch(&mut |_, switch| answer = ask(&switch.program().flows));
    answer
}
