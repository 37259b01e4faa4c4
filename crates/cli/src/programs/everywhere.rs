//! Drives several nodes of this process.

use core::task::Waker;
use rackweave_rack::Node;
use rackweave_verbs::Progress;

/// Nodes that have a NIC each, and no machine in common. There is at least one.
pub struct Everywhere(pub Vec<Node>);

impl Progress for Everywhere {
    fn drive(&self) -> bool {
        self.0
            .iter()
            .fold(false, |moved, node| node.drive() | moved)
    }

    /// Sleeps at the first node: packets for the others wake their own threads.
    fn relax(&self, idle_rounds: u32) {
        self.0[0].relax(idle_rounds);
    }

    fn wake_later(&self, waker: &Waker) {
        self.0.iter().for_each(|node| node.wake_later(waker));
    }
}
