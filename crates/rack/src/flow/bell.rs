//! Doorbells that ends ring by themselves.

use crate::Node;
use rackweave_endpoint::flow::{Doorbell, Notify};
use rustix::time::{ClockId, clock_gettime};

/// A clock that is cheap to read, and moves every few milliseconds.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A silence is longer than this, in nanoseconds.
const TICK: i64 = 4_000_000;

/// Rings the doorbell of a ring that changes after a silence. While a ring changes often, the
/// switch polls it often, and a doorbell for every change would cost more than it gives.
#[derive(Debug)]
pub(super) struct AfterSilence {
    node: Node,
    bell: Doorbell,
    /// When the ring changed last: seconds, and ticks in the second.
    changed: (i64, i64),
}

impl AfterSilence {
    pub fn new(node: Node, bell: Doorbell) -> Self {
        Self {
            node,
            bell,
            changed: (0, 0),
        }
    }
}

impl Notify for AfterSilence {
    fn changed(&mut self) {
        let now = clock_gettime(CLOCK);
        let now = (now.tv_sec, now.tv_nsec / TICK);
        if core::mem::replace(&mut self.changed, now) != now {
            // If the NIC does not accept it, the switch finds the change by polling.
            let _ = self.node.with(|verbs| self.bell.ring(verbs));
        }
    }
}
