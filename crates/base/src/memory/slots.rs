//! Slots of equal size in a block, as the two ends of a ring see them.
//!
//! These two views are where shared bytes become Rust slices. The ring protocol says which slots an
//! end may touch: a producer those that the tail has freed, a consumer those that the head has
//! published. While it holds them nobody else has reason to touch them.

use super::Block;

/// The slots that a producer fills.
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

    /// Where `count` slots from `index` on begin, and how many bytes they are up to the ring's end.
    fn range(&self, index: u32, count: u32) -> (*mut u8, usize) {
        let first = index & self.mask;
        assert!(
            count <= self.mask + 1 - first,
            "a run of slots does not wrap"
        );
        let at = self.offset + first as usize * self.slot_size;
        let len = count as usize * self.slot_size;
        (self.block.pointer(at, len), len)
    }
}

impl WriteSlots {
    /// `count` slots of `slot_size` bytes that start at `offset` in `block`.
    ///
    /// # Panics
    /// If they are not all in the block, or `count` is no power of two.
    pub fn new(block: Block, offset: usize, slot_size: usize, count: u32) -> Self {
        Self {
            slots: Slots::new(block, offset, slot_size, count),
        }
    }

    /// The bytes of `count` neighbouring slots from the one of counter `index` on.
    pub fn bytes_mut(&mut self, index: u32, count: u32) -> &mut [u8] {
        let (pointer, len) = self.slots.range(index, count);
        // SAFETY: in range; `&mut self` keeps other slices of this end away, and the protocol
        // (module head) keeps the other end away.
        unsafe { core::slice::from_raw_parts_mut(pointer, len) }
    }
}

impl ReadSlots {
    /// `count` slots of `slot_size` bytes that start at `offset` in `block`.
    ///
    /// # Panics
    /// If they are not all in the block, or `count` is no power of two.
    pub fn new(block: Block, offset: usize, slot_size: usize, count: u32) -> Self {
        Self {
            slots: Slots::new(block, offset, slot_size, count),
        }
    }

    /// The bytes of `count` neighbouring slots from the one of counter `index` on.
    pub fn bytes(&self, index: u32, count: u32) -> &[u8] {
        let (pointer, len) = self.slots.range(index, count);
        // SAFETY: in range; the protocol (module head) keeps writers away from published slots.
        unsafe { core::slice::from_raw_parts(pointer, len) }
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
    #[should_panic(expected = "does not wrap")]
    fn a_run_must_not_wrap() {
        let block = Memory::new(1 << 20).allocate(64).unwrap();
        ReadSlots::new(block, 0, 16, 4).bytes(3, 2);
    }
}
