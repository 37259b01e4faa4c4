//! The shape of a pool.

use rackweave_base::Duration;

/// The shape of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// The node, as the directory knows it.
    pub node: u16,
    /// Bytes of a page, and of a buffer frame.
    pub page_size: u32,
    /// Buffer frames.
    pub frames: u32,
    /// The identity of the pages' store; zero if it is not known yet
    /// ([`super::Pool::set_identity`]).
    pub store_id: u64,
    /// Whether pages are given checksums when they are written, and checked when they are read.
    pub checksums: bool,
    /// Buffer frames that are freed together.
    pub evict_batch: u32,
    /// Fewer free buffer frames than this have pages evicted.
    pub low_water: u32,
    /// How long whoever has to answer may be gone before a fix fails.
    pub patience: Duration,
    /// From which the times of retries are drawn.
    pub seed: u64,
}

impl PoolConfig {
    /// [`Self::patience`] of [`Self::new`].
    pub const PATIENCE: Duration = Duration::from_secs(5);

    /// How long a call that waits takes at most, for each thing that it waits for: twice the
    /// patience, so that somebody who does not answer is found out before.
    pub(super) fn limit(&self) -> Duration {
        self.patience * 2
    }

    /// A pool of this many buffer frames, otherwise as usual: checksums, an eighth of the buffer
    /// frames kept free but no more than 64, evicted in batches of half of those.
    pub fn new(node: u16, page_size: u32, frames: u32) -> Self {
        let low_water = (frames / 8).clamp(1, 64);
        Self {
            node,
            page_size,
            frames,
            store_id: 0,
            checksums: true,
            evict_batch: (low_water / 2).max(1),
            low_water,
            patience: Self::PATIENCE,
            seed: 1,
        }
    }
}
