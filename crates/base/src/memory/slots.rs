//! Slots of equal size in a block, as seen by the two ends of a ring.
//!
//! The ring protocol determines which slots an end may access: a producer those that the tail has
//! freed, a consumer those that the head has published. While an end holds them, nothing else has a
//! reason to access them. A peer that does so all the same changes the bytes that the views show,
//! and nothing else. Two ends over the same slots are possible, so neither gives out slices:
//!
//! ```compile_fail,E0308
//! # use rackweave_base::memory::WriteSlots;
//! fn fill(slots: &mut WriteSlots) -> &mut [u8] {
//!     slots.bytes_mut(0, 1)
//! }
//! ```
//! ```compile_fail,E0308
//! # use rackweave_base::memory::ReadSlots;
//! fn look(slots: &ReadSlots) -> &[u8] {
//!     slots.bytes(0, 1)
//! }
//! ```

use super::copy::{fence_streaming, stream_shared};
use super::{Block, SharedBytes, SharedBytesMut};

/// The slots that a producer writes.
#[derive(Debug)]
pub struct WriteSlots {
    slots: Slots,
}

/// The slots that a consumer reads.
#[derive(Debug)]
pub struct ReadSlots {
    slots: Slots,
}

#[derive(Debug)]
struct Slots {
    block: Block,
    offset: usize,
    slot_size: usize,
    mask: u32,
}

impl Slots {
    fn new(block: Block, offset: usize, slot_size: usize, count: u32) -> Self {
        assert!(
            count.is_power_of_two(),
            "a ring has a power of two of slots"
        );
        assert!(
            offset + slot_size * count as usize <= block.len(),
            "slots beyond the block"
        );
        Self {
            block,
            offset,
            slot_size,
            mask: count - 1,
        }
    }

    /// The offset in the block of `count` slots from `index` on, and their length in bytes.
    #[inline]
    fn range(&self, index: u32, count: u32) -> (usize, usize) {
        let first = index & self.mask;
        assert!(
            count <= self.mask + 1 - first,
            "a run of slots does not wrap"
        );
        let at = self.offset + first as usize * self.slot_size;
        let len = count as usize * self.slot_size;
        (at, len)
    }
}

impl WriteSlots {
    /// `count` slots of `slot_size` bytes that start at `offset` in `block`.
    ///
    /// # Panics
    /// If they are not all in the block, or `count` is not a power of two.
    pub fn new(block: Block, offset: usize, slot_size: usize, count: u32) -> Self {
        Self {
            slots: Slots::new(block, offset, slot_size, count),
        }
    }

    /// The bytes of `count` adjacent slots, starting with the one of counter `index`.
    #[inline]
    pub fn bytes_mut(&mut self, index: u32, count: u32) -> SharedBytesMut<'_> {
        let (at, len) = self.slots.range(index, count);
        self.slots.block.bytes_mut(at, len)
    }

    /// Copies `bytes` into the slot of counter `index`, from byte `at` of the slot on, bypassing
    /// the caches: for rings that are larger than the caches. Needs [`Self::fence`] before the slot
    /// is published.
    ///
    /// # Panics
    /// If the slot does not contain that range.
    pub fn stream(&mut self, index: u32, at: usize, bytes: &[u8]) {
        let mut slot = self.bytes_mut(index, 1);
        let target = slot.slice(at..at + bytes.len()).as_mut_ptr();
        // SAFETY: as long as `bytes`, which is a distinct Rust slice, and all access is atomic.
        unsafe { stream_shared(bytes, target) };
    }

    /// Orders the stores of [`Self::stream`] before all later stores. A release store does not
    /// suffice: on x86 it is an ordinary store, and ordinary stores may pass streaming stores.
    pub fn fence(&self) {
        fence_streaming();
    }
}

impl ReadSlots {
    /// `count` slots of `slot_size` bytes that start at `offset` in `block`.
    ///
    /// # Panics
    /// If they are not all in the block, or `count` is not a power of two.
    pub fn new(block: Block, offset: usize, slot_size: usize, count: u32) -> Self {
        Self {
            slots: Slots::new(block, offset, slot_size, count),
        }
    }

    /// The bytes of `count` adjacent slots, starting with the one of counter `index`.
    #[inline]
    pub fn bytes(&self, index: u32, count: u32) -> SharedBytes<'_> {
        let (at, len) = self.slots.range(index, count);
        self.slots.block.bytes(at, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn slots_wrap_by_counter() {
        let block = Memory::new(1 << 20).allocate(128 + 4 * 16).unwrap();
        let mut write = WriteSlots::new(block.clone(), 128, 16, 4);
        write.bytes_mut(u32::MAX, 1).fill(7);
        let read = ReadSlots::new(block, 128, 16, 4);
        assert_eq!(read.bytes(3, 1), [7; 16]);
        assert_eq!(read.bytes(0, 3), [0; 48]);
    }

    #[test]
    fn streamed_bytes_arrive_whatever_their_alignment() {
        let block = Memory::new(1 << 20).allocate(128 + 4 * 200).unwrap();
        let mut write = WriteSlots::new(block.clone(), 128, 200, 4);
        let read = ReadSlots::new(block, 128, 200, 4);
        let bytes: Vec<u8> = (1..=200).collect();
        for index in 0..4 {
            for (at, from, to) in [
                (0, 0, 200),
                (3, 1, 190),
                (8, 8, 9),
                (40, 5, 52),
                (200, 7, 7),
            ] {
                write.bytes_mut(index, 1).fill(0);
                write.stream(index, at, &bytes[from..to]);
                write.fence();
                let mut expect = [0; 200];
                expect[at..at + to - from].copy_from_slice(&bytes[from..to]);
                assert_eq!(
                    read.bytes(index, 1),
                    expect,
                    "{from}..{to} at {at} of slot {index}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "does not wrap")]
    fn a_run_must_not_wrap() {
        let block = Memory::new(1 << 20).allocate(64).unwrap();
        ReadSlots::new(block, 0, 16, 4).bytes(3, 2);
    }
}
