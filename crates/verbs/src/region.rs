//! Regions: registered memory and its access rights.

use rackweave_base::{Block, Lkey, Rkey};
use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// The operations allowed on a region (specification 1.4, 10.6.3.1). Local read is always
    /// allowed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub struct Access: u8 {
        /// The local NIC may store data here: receives, READ results, atomic results.
        const LOCAL_WRITE = 1;
        /// A peer may READ.
        const REMOTE_READ = 2;
        /// A peer may WRITE. Needs `LOCAL_WRITE`.
        const REMOTE_WRITE = 4;
        /// A peer may run atomics. Needs `LOCAL_WRITE`.
        const REMOTE_ATOMIC = 8;
    }
}

/// A protection domain: queue pairs use only regions of their own domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PdId(pub u32);

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CqId(pub u32);

/// Registered memory.
#[derive(Clone, Debug)]
pub struct Region {
    /// The bytes.
    pub block: Block,
    /// The address of the first byte, as used by peers and work requests.
    pub address: u64,
    /// The key for local work requests.
    pub lkey: Lkey,
    /// The key for peers.
    pub rkey: Rkey,
    /// The protection domain that it belongs to.
    pub pd: PdId,
}

impl Region {
    /// A segment of `len` bytes at `offset`, for a work request.
    pub fn segment(&self, offset: u64, len: u32) -> crate::Segment {
        crate::Segment {
            address: self.address + offset,
            length: len,
            lkey: self.lkey,
        }
    }
}
