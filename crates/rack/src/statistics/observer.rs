//! Who looks at a rack.

use super::collect::{self, Seen};
use super::{Described, RackStatistics};
use crate::embedded::Shared;
use std::sync::{Arc, Mutex, Weak};

/// What all observers of a rack share.
pub(crate) struct Observed {
    pub described: Described,
    /// What was seen last.
    pub seen: Mutex<Seen>,
}

/// Looks at an embedded rack, from any thread, for as long as the rack is there. It keeps nothing
/// of what the rack does alive. Clones are one observer.
#[derive(Clone)]
pub struct RackObserver {
    rack: Weak<Shared>,
    observed: Arc<Observed>,
}

impl RackObserver {
    pub(crate) fn new(rack: Weak<Shared>, observed: Arc<Observed>) -> Self {
        Self { rack, observed }
    }

    /// The rack at this moment; nothing if it is gone.
    ///
    /// Whoever drives the rack waits at most as long as for another thread that posts work. While
    /// somebody sets something up or takes it down, flows, sequencers and the number of lost pages
    /// may be those of the look before. A ring's counters have 32 bits: of a ring that moves
    /// 2^32 items between two looks, so many are not told.
    pub fn look(&self) -> Option<RackStatistics> {
        let rack = self.rack.upgrade()?;
        Some(collect::look(&rack, &self.observed))
    }
}
