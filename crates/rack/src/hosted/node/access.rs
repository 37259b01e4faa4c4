//! Access of the program in a node's process to its NIC.

use super::NodeProcess;
use super::shared::NodeCore;
use core::task::Waker;
use rackweave_base::Instant;
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use std::sync::Arc;

/// A node that has joined.
pub(in crate::hosted) struct NodeAccessPoint(Arc<NodeCore>);

impl NodeAccessPoint {
    pub fn new(process: &NodeProcess) -> Self {
        Self(process.core.clone())
    }
}

impl Progress for NodeAccessPoint {
    fn drive(&self) -> bool {
        self.0.pump.drive()
    }

    fn relax(&self, idle_rounds: u32) {
        self.0.pump.relax(idle_rounds);
    }

    fn set_driven(&self, is_driven: bool) {
        self.0.pump.set_driven(is_driven);
    }

    fn sleep(&self, limit: core::time::Duration) {
        self.0.pump.sleep(limit);
    }

    fn wake_later(&self, waker: &Waker) {
        self.0.pump.wake_later(waker);
    }
}

impl NodeAccess for NodeAccessPoint {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.0
            .pump
            .with(|machine| machine.nic().map(|nic| act(nic)));
    }

    fn peek(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.0
            .pump
            .peek(|machine| machine.nic().map(|nic| act(nic)));
    }

    fn now(&self) -> Instant {
        self.0.pump.now()
    }
}
