//! Observers of a rack.

use super::RackStatistics;
use crate::Backend;
use std::sync::{Arc, Weak};

/// Looks at a rack for as long as it is there, and keeps nothing of it alive. Clones are one
/// observer. Of an embedded rack any thread may look; of a simulated one, the thread that built it.
#[derive(Clone)]
pub struct RackObserver(Weak<dyn Backend>);

impl RackObserver {
    pub(crate) fn new(rack: &Arc<dyn Backend>) -> Self {
        Self(Arc::downgrade(rack))
    }

    /// The rack at this moment; nothing if it is gone.
    ///
    /// Whoever drives the rack waits at most as long as for another thread that posts work. While
    /// somebody sets something up or takes it down, flows, sequencers and the number of lost pages
    /// may be those of the look before. A ring's counters have 32 bits: of a ring that moves
    /// 2^32 items between two looks, so many are not told.
    pub fn look(&self) -> Option<RackStatistics> {
        Some(self.0.upgrade()?.statistics())
    }
}
