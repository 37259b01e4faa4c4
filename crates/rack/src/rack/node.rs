//! A node that is here.

use crate::address::Address;
use core::fmt;
use core::task::Waker;
use rackweave_base::{Instant, NodeId};
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A node of a rack in this process; its holder may post work there. Clones are the same node.
#[derive(Clone)]
pub struct Node {
    id: NodeId,
    name: Arc<str>,
    access: Arc<dyn NodeAccess>,
}

impl Node {
    pub(super) fn new(id: NodeId, name: &str, access: Arc<dyn NodeAccess>) -> Self {
        let name = name.into();
        Self { id, name, access }
    }

    /// Its number.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The IP address of its NIC. Its GID is the same address, mapped to IPv6.
    pub fn ip(&self) -> Ipv4Addr {
        Address::of_node(self.id).ip
    }

    /// Calls `act` with the node's verbs, and makes sure that posted work is processed.
    pub fn with<R>(&self, act: impl FnOnce(&mut dyn Verbs) -> R) -> R {
        returned(act, |act| self.access.act(act))
    }

    /// The same without waking another thread: for polling.
    pub fn poll<R>(&self, act: impl FnOnce(&mut dyn Verbs) -> R) -> R {
        returned(act, |act| self.access.peek(act))
    }

    /// The current time at the node.
    pub fn now(&self) -> Instant {
        self.access.now()
    }

    /// Drives the rack a little, as a waiting thread does. Returns true if anything happened.
    pub fn drive(&self) -> bool {
        self.access.drive()
    }

    /// The access to the node, for machines that wait.
    pub fn access(&self) -> &Arc<dyn NodeAccess> {
        &self.access
    }
}

/// The return value of `act`, called through a function that returns nothing.
fn returned<R>(
    act: impl FnOnce(&mut dyn Verbs) -> R,
    call: impl FnOnce(&mut dyn FnMut(&mut dyn Verbs)),
) -> R {
    let (mut act, mut result) = (Some(act), None);
    call(&mut |verbs| {
        if let Some(act) = act.take() {
            result = Some(act(verbs));
        }
    });
    result.expect("a node that is here lets everybody act")
}

impl From<&Node> for NodeId {
    fn from(node: &Node) -> Self {
        node.id
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.access, &other.access)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {})", self.id.0, self.name)
    }
}

impl Progress for Node {
    fn drive(&self) -> bool {
        self.access.drive()
    }

    fn relax(&self, idle_rounds: u32) {
        self.access.relax(idle_rounds);
    }

    fn set_driven(&self, is_driven: bool) {
        self.access.set_driven(is_driven);
    }

    fn sleep(&self, limit: core::time::Duration) {
        self.access.sleep(limit);
    }

    fn wake_later(&self, waker: &Waker) {
        self.access.wake_later(waker);
    }
}

impl NodeAccess for Node {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.access.act(act);
    }

    fn peek(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.access.peek(act);
    }

    fn try_act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.access.try_act(act)
    }

    fn now(&self) -> Instant {
        self.access.now()
    }
}
