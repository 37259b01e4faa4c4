//! The configuration of a pool.

use rackweave_base::Duration;

/// The configuration of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// The node's number in the directory.
    pub node: u16,
    /// Bytes of a buffer frame: of a page, or of the smallest one if there are several sizes.
    pub frame_size: u32,
    /// Number of buffer frames.
    pub frames: u32,
    /// The identity of the pages' store; zero if it is not known yet
    /// ([`super::Pool::set_identity`]).
    pub store_id: u64,
    /// Whether pages get a checksum when they are written, which is checked when they are read.
    pub checksums: bool,
    /// Number of buffer frames that are freed together.
    pub evict_batch: u32,
    /// Pages are evicted when fewer buffer frames than this are free.
    pub low_water: u32,
    /// How long a peer may fail to respond before a fix fails.
    pub patience: Duration,
    /// Whether the node asks for leases on pages that it reads often, in order to read them without
    /// asking the directory.
    pub leases: bool,
    /// Seed for the retry times.
    pub seed: u64,
}

impl PoolConfig {
    /// [`Self::patience`] of [`Self::new`].
    pub const PATIENCE: Duration = Duration::from_secs(5);

    /// Time limit of a blocking call, for each thing it waits for: twice the patience, so that a
    /// peer that does not respond is detected first.
    pub(super) fn limit(&self) -> Duration {
        self.patience * 2
    }

    /// A pool with this many buffer frames and default settings: checksums on, no leases; an eighth
    /// of the buffer frames kept free, but at most 64; evicted in batches of half as many.
    pub fn new(node: u16, frame_size: u32, frames: u32) -> Self {
        let low_water = (frames / 8).clamp(1, 64);
        Self {
            node,
            frame_size,
            frames,
            store_id: 0,
            checksums: true,
            evict_batch: (low_water / 2).max(1),
            low_water,
            patience: Self::PATIENCE,
            leases: false,
            seed: 1,
        }
    }
}
