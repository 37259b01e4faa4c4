//! State shared by all nodes of a run and their observers.

use super::plan::{CallPlan, MessagingPlan};
use super::stream::{Cut, Stream};
use crate::campaign::Findings;
use core::cell::{Cell, RefCell};
use core::fmt;
use rackweave_base::{Instant, Memory, NodeId, Rng};
use rackweave_sim::checkers::MessageHistory;
use rackweave_sim::checkers::messages::Peer;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A call: one stream, and one connection if it succeeds. Its number is that of the connection.
pub(super) struct Call {
    pub number: u32,
    pub plan: CallPlan,
    /// Present once the compute node has begun.
    pub stream: RefCell<Option<Rc<Stream>>>,
    /// Whether the storage node has accepted it.
    pub accepted: Cell<bool>,
    /// Whether it is over for the compute node, for the storage node.
    over: [Cell<bool>; 2],
}

impl Call {
    fn new(number: u32, plan: CallPlan) -> Rc<Self> {
        Rc::new(Self {
            number,
            plan,
            stream: RefCell::new(None),
            accepted: Cell::new(false),
            over: Default::default(),
        })
    }

    /// The number of the node at this end.
    pub fn node(&self, peer: Peer) -> NodeId {
        match peer {
            Peer::Compute => self.plan.from,
            Peer::Storage => self.plan.to,
        }
    }

    /// Whether the compute node has begun it.
    pub fn is_begun(&self) -> bool {
        self.stream.borrow().is_some()
    }

    fn cell(&self, peer: Peer) -> &Cell<bool> {
        &self.over[usize::from(peer == Peer::Storage)]
    }

    pub fn is_over_for(&self, peer: Peer) -> bool {
        self.cell(peer).get()
    }

    pub fn is_over(&self) -> bool {
        self.over.iter().all(Cell::get)
    }

    pub fn set_over(&self, peer: Peer) {
        self.cell(peer).set(true);
    }

    /// Cancels a call that was not begun.
    pub fn cancel(&self) {
        self.over.iter().for_each(|over| over.set(true));
    }
}

/// Counters of a run.
#[derive(Default)]
pub(super) struct Counts {
    /// Handshakes that an honest node gave up or refused.
    pub refused: Cell<u64>,
    /// Lies and invalid handshakes that were detected, by the reported reason.
    pub caught: RefCell<BTreeMap<String, u64>>,
}

impl Counts {
    pub fn catch(&self, what: impl fmt::Debug) {
        let mut caught = self.caught.borrow_mut();
        *caught.entry(format!("{what:?}")).or_default() += 1;
    }
}

/// State shared by all nodes.
pub(super) struct Shared {
    pub plan: MessagingPlan,
    pub memory: Memory,
    pub history: RefCell<MessageHistory>,
    /// Violations that the history does not show.
    pub wrong: Findings,
    pub counts: Counts,
    pub calls: RefCell<Vec<Rc<Call>>>,
    /// Nodes that have crashed.
    pub dead: RefCell<Vec<NodeId>>,
}

impl Shared {
    /// Adds a call to be made.
    pub fn add_call(&self, plan: CallPlan) {
        let mut calls = self.calls.borrow_mut();
        let number = calls.len() as u32;
        calls.push(Call::new(number, plan));
    }

    pub fn is_dead(&self, node: NodeId) -> bool {
        self.dead.borrow().contains(&node)
    }

    /// A call that a node has to handle: made by it and not begun, or made to it and not accepted.
    pub fn waiting(&self, node: NodeId) -> Option<Rc<Call>> {
        let calls = self.calls.borrow();
        let mut open = calls.iter().filter(|call| {
            let accepts = call.plan.to == node && call.is_begun() && !call.accepted.get();
            accepts && !call.is_over_for(Peer::Storage)
        });
        open.next().cloned()
    }

    /// The next call that a node makes, and when it is due.
    pub fn next_call(&self, node: NodeId) -> Option<Rc<Call>> {
        let calls = self.calls.borrow();
        let open = calls
            .iter()
            .filter(|call| call.plan.from == node && !call.is_begun() && !call.is_over());
        open.min_by_key(|call| (call.plan.at, call.number)).cloned()
    }

    /// A node crashes: its part of all its calls is over.
    pub fn died(&self, now: Instant, node: NodeId) {
        self.dead.borrow_mut().push(node);
        let mut rng = Rng::new(self.plan.seed ^ now.as_nanos() ^ u64::from(node.0) << 40);
        for call in self.calls.borrow().iter().filter(|call| call.is_begun()) {
            for peer in [Peer::Compute, Peer::Storage] {
                if call.node(peer) != node || call.is_over_for(peer) {
                    continue;
                }
                let how = *rng.pick(&[Cut::Silent, Cut::End]);
                if let Some(stream) = &*call.stream.borrow() {
                    stream.kill(now, peer, how);
                }
                self.history.borrow_mut().died(call.number, peer);
                call.set_over(peer);
            }
        }
    }

    /// Whether all calls are over, except those never begun by a crashed node.
    pub fn all_over(&self) -> bool {
        let calls = self.calls.borrow();
        calls
            .iter()
            .all(|call| call.is_over() || (!call.is_begun() && self.is_dead(call.plan.from)))
    }
}
