//! The two ends of a zero-sided flow: loads and stores on a ring in local memory, nothing else.
//!
//! A [`Producer`] writes items and moves the head; the switch reads the head, moves the items and
//! writes the tail back. A [`Consumer`] sees the head that the switch wrote, reads items and moves
//! the tail. Neither posts a work request (zero-sided RDMA, section 3.2).
//!
//! On units with a weaker memory order than their NIC expects, the store that moves head or tail
//! must come after the bytes it stands for: it is a release store here.

mod consumer;
mod partition;
mod producer;
mod wait;

pub use consumer::{Consumer, Taken};
pub use partition::{ITEM_HEADER, Partitioner, hash_key};
pub use producer::{Producer, PushError};
pub use wait::wait_until;

use rackweave_base::Block;
use rackweave_wire::fabric::ring::{self, ByteOrder};

/// The shape of a ring in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLayout {
    /// The size of an item in bytes, a multiple of eight.
    pub item_size: u32,
    /// Slots, a power of two.
    pub slots: u32,
    /// The byte order of head, tail and states.
    pub order: ByteOrder,
}

/// Why a block cannot be a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RingError {
    /// The number of slots is no power of two from 2 to 2^30.
    #[error("a ring of {0} slots; a power of two from 2 to 2^30 is needed")]
    Slots(u32),
    /// The item size is zero or no multiple of eight.
    #[error("items of {0} bytes; a multiple of 8 is needed")]
    ItemSize(u32),
    /// The block is too small.
    #[error("the ring needs {needs} bytes, its block has {has}")]
    TooSmall {
        /// Bytes needed.
        needs: u64,
        /// Bytes there are.
        has: u64,
    },
}

impl RingLayout {
    fn check(&self, block: &Block) -> Result<(), RingError> {
        if !self.slots.is_power_of_two() || !(2..=ring::SLOTS_MAX).contains(&self.slots) {
            return Err(RingError::Slots(self.slots));
        }
        if self.item_size == 0 || !self.item_size.is_multiple_of(8) {
            return Err(RingError::ItemSize(self.item_size));
        }
        let (needs, has) = (
            ring::region_bytes(self.item_size, self.slots),
            block.len() as u64,
        );
        if needs > has {
            return Err(RingError::TooSmall { needs, has });
        }
        Ok(())
    }
}

/// A word of a ring, in the node's byte order.
#[derive(Debug)]
struct WordCell {
    block: Block,
    offset: usize,
    order: ByteOrder,
}

impl WordCell {
    fn new(block: &Block, offset: u64, order: ByteOrder) -> Self {
        Self {
            block: block.clone(),
            offset: offset as usize,
            order,
        }
    }

    fn load(&self) -> u64 {
        self.order.native(
            self.block
                .word(self.offset)
                .load(core::sync::atomic::Ordering::Acquire),
        )
    }

    fn store(&self, word: u64) {
        let raw = self.order.native(word);
        self.block
            .word(self.offset)
            .store(raw, core::sync::atomic::Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
