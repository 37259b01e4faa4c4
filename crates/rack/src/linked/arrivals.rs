//! How a switch learns at which of its ports packets have arrived.

use rackweave_base::BitSet;
use rackweave_link::{Doorbell, Doorbells};

/// The ports that may have packets.
pub(crate) enum Arrivals {
    /// Links that ring no doorbells: any port may.
    #[cfg(any(test, feature = "hosted"))]
    Anywhere,
    /// Links that ring the doorbell of their port.
    Rung {
        doorbells: Doorbells,
        /// Rung for the switch itself, when a run ends before everything is done.
        again: Doorbell,
        /// The ports that rang and may still have packets.
        ports: BitSet,
    },
}

impl Arrivals {
    /// Ports whose links ring these doorbells: one for each port, and one more.
    pub fn rung(doorbells: &Doorbells, ports: usize) -> Self {
        Self::Rung {
            again: doorbells.doorbell(ports),
            ports: BitSet::new(ports),
            doorbells: doorbells.clone(),
        }
    }

    /// Takes the rings since the last call.
    #[inline]
    pub fn collect(&mut self) {
        match self {
            #[cfg(any(test, feature = "hosted"))]
            Self::Anywhere => {}
            Self::Rung {
                doorbells, ports, ..
            } => doorbells.take_all(ports),
        }
    }

    /// The first port from `from` on, of `count`, that may have packets.
    #[inline]
    pub fn next(&self, from: usize, count: usize) -> Option<usize> {
        match self {
            #[cfg(any(test, feature = "hosted"))]
            Self::Anywhere => (from < count).then_some(from),
            Self::Rung { ports, .. } => ports.next(from).filter(|&port| port < count),
        }
    }

    /// Records that a port has no more packets.
    #[inline]
    pub fn emptied(&mut self, port: usize) {
        match self {
            #[cfg(any(test, feature = "hosted"))]
            Self::Anywhere => {}
            Self::Rung { ports, .. } => ports.remove(port),
        }
    }

    /// Ends a run: has the switch run again if it has packets queued, or ports have some left.
    #[inline]
    pub fn finish(&self, has_queued: bool) {
        match self {
            #[cfg(any(test, feature = "hosted"))]
            Self::Anywhere => {}
            Self::Rung { again, ports, .. } => {
                if has_queued || !ports.is_empty() {
                    again.ring();
                }
            }
        }
    }
}
