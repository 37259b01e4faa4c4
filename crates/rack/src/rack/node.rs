//! A node that is here.

use core::fmt;
use core::task::Waker;
use rackweave_base::{Instant, NodeId};
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use std::sync::Arc;

/// A node of a rack in this process: whoever has it may post work there. Clones are the same node.
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

    /// Acts with the node's verbs, and sees to it that what was posted gets going.
    pub fn with<R>(&self, act: impl FnOnce(&mut dyn Verbs) -> R) -> R {
        returned(act, |act| self.access.act(act))
    }

    /// The same without waking anybody up: for polling.
    pub fn poll<R>(&self, act: impl FnOnce(&mut dyn Verbs) -> R) -> R {
        returned(act, |act| self.access.peek(act))
    }

    /// The time there.
    pub fn now(&self) -> Instant {
        self.access.now()
    }

    /// Drives the rack a little, as who waits does. True if anything happened.
    pub fn drive(&self) -> bool {
        self.access.drive()
    }

    /// The way to it, for machines that wait.
    pub fn access(&self) -> &Arc<dyn NodeAccess> {
        &self.access
    }
}

/// What `act` returns, called by way of something that passes nothing back.
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
