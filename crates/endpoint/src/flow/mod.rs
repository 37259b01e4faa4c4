//! The two ends of a zero-sided flow: loads and stores on a ring in local memory, nothing else.
//!
//! A [`Producer`] writes items and moves the head; the switch reads the head, moves the items and
//! writes the tail back. A [`Consumer`] sees the head that the switch wrote, reads items and moves
//! the tail. Neither posts a work request (zero-sided RDMA, section 3.2).
//!
//! Calls come in three forms: one item by copy ([`Producer::push`], [`Consumer::pop`]), many items
//! by copy (`push_batch`, `pop_batch`) and items in place ([`Producer::reserve`] and `commit`,
//! [`Consumer::peek`] and `release`). None of them waits. Those that end in `_wait`, and
//! [`Producer::push_all`], wait and drive the rack meanwhile ([`wait_until`]). All forms can be
//! mixed.
//!
//! # Memory order
//!
//! Head and tail words hand items over. Each end must keep two orders. Here it does so with a
//! release store of its own word and an acquire load of the switch's:
//!
//! | end | what must come first | what must come after |
//! |---|---|---|
//! | producer, `commit` | the bytes of the items | the store of the head |
//! | producer, `reserve` | the load of the tail | the first store into a slot that it freed |
//! | consumer, `peek` | the load of the head | the first load from a slot that it filled |
//! | consumer, `release` | the last load from the slots | the store of the tail |
//!
//! The other side of each is the node's own NIC, which reads and writes this memory as a device. A
//! word is aligned, and is loaded and stored whole, in one access.
//!
//! A processing unit that does not run this code needs the following:
//!
//! - *x86-64*: ordinary loads and stores keep all four orders, if the compiler keeps them. Stores
//!   past the caches are the exception: they need `sfence` before the head is stored.
//! - *ARM64*: `dmb oshst` before a producer's head is stored. `dmb oshld`, which orders loads
//!   before all that follows, after head or tail is loaded and before a consumer's tail is stored.
//!   The domain is the outer-shareable one, since the observer is a device. This code compiles to
//!   `stlr` and `ldar`, which suffice for a software NIC, since that is one more core.
//! - *GPU*: `__threadfence_system()` in the four places, since a fence of device scope does not
//!   order accesses for a NIC. Head and tail need `volatile` accesses, or system-scope atomics, so
//!   that they are neither kept in a register nor served from a cache that the NIC's writes miss.
//!   If several threads fill the slots, they meet at a barrier first, and one thread fences and
//!   stores the head.
//! - *Memory that is not coherent with the NIC* must be written back before the head is stored and
//!   invalidated after the head is loaded. For that reason, the lines of words have one writer
//!   each.
//!
//! # Byte order
//!
//! A ring's words are in the byte order of its node ([`RingLayout::order`]); the switch converts
//! them. A word is converted as a whole, so it is still one access. The content of items concerns
//! only producer and consumer: nothing else interprets it.

mod consumer;
mod doorbell;
mod partition;
mod producer;
mod wait;

pub use consumer::{Consumer, Taken};
pub use doorbell::{Doorbell, Notify};
pub use partition::{ITEM_HEADER, Partitioner, Stores, hash_key};
pub use producer::{Producer, PushError};
pub use wait::wait_until;

use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::Block;
use rackweave_wire::fabric::ring::{self, ByteOrder};
use std::sync::Arc;

/// The shape of a ring in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLayout {
    /// The size of an item in bytes, a multiple of eight.
    pub item_size: u32,
    /// Number of slots, a power of two.
    pub slots: u32,
    /// The byte order of head, tail and states.
    pub order: ByteOrder,
}

/// Why a block cannot be a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RingError {
    /// The number of slots is not a power of two from 2 to 2^30.
    #[error("a ring of {0} slots; a power of two from 2 to 2^30 is needed")]
    Slots(u32),
    /// The item size is zero or not a multiple of eight.
    #[error("items of {0} bytes; a multiple of 8 is needed")]
    ItemSize(u32),
    /// The block is too small.
    #[error("the ring needs {needs} bytes, its block has {has}")]
    TooSmall {
        /// Bytes needed.
        needs: u64,
        /// Bytes available.
        has: u64,
    },
}

/// Held by the owner of an end of a flow: an end has one owner at a time.
#[derive(Debug)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Returns `None` if the end is claimed already.
    pub fn new(is_taken: &Arc<AtomicBool>) -> Option<Self> {
        let was_taken = is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Self(is_taken.clone()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
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
        self.order
            .native(self.block.word(self.offset).load(Ordering::Acquire))
    }

    /// The bytes as they are in memory.
    fn bytes(&self) -> [u8; 8] {
        self.block
            .word(self.offset)
            .load(Ordering::Relaxed)
            .to_ne_bytes()
    }

    fn store(&self, word: u64) {
        let raw = self.order.native(word);
        self.block.word(self.offset).store(raw, Ordering::Release);
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
