//! Observers of a rack.

use super::RackStatistics;
use crate::Backend;
use std::sync::{Arc, Weak};

/// Observes a rack for as long as it exists, without keeping it alive. Clones are one observer. An
/// embedded rack can be observed from any thread; a simulated one, from the thread that built it.
#[derive(Clone)]
pub struct RackObserver(Weak<dyn Backend>);

impl RackObserver {
    pub(crate) fn new(rack: &Arc<dyn Backend>) -> Self {
        Self(Arc::downgrade(rack))
    }

    /// The state of the rack at this moment; `None` if it has ended.
    ///
    /// Threads that drive the rack wait at most as long as for another thread that posts work.
    /// While another thread sets up or removes something, flows, sequencers and the number of lost
    /// pages may be those of the previous look. A ring's counters have 32 bits: if a ring moves
    /// 2^32 items between two looks, these are not counted.
    pub fn look(&self) -> Option<RackStatistics> {
        Some(self.0.upgrade()?.statistics())
    }
}
