//! A block: the owner's view of its bytes.

use super::copy::{load_shared, store_shared};
use super::{BlockRef, Memory, Origin};
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

/// A piece of an arena. Clones share the bytes; when the last one is dropped, they return to the
/// arena.
#[derive(Clone)]
pub struct Block(Arc<Owned>);

struct Owned {
    arena: Memory,
    slot: u32,
    generation: u32,
    pointer: *mut u8,
    len: usize,
}

// SAFETY: the pointer stays valid while `arena` lives, and all access goes through atomics or raw
// copies under the sharing rules in the module documentation.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        self.arena.release(self.slot);
    }
}

impl Block {
    /// The block of `len` bytes in `slot` of `arena`, with the slot's `generation`.
    pub(super) fn new(
        arena: Memory,
        slot: u32,
        generation: u32,
        pointer: *mut u8,
        len: usize,
    ) -> Self {
        Self(Arc::new(Owned {
            arena,
            slot,
            generation,
            pointer,
            len,
        }))
    }

    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a block is never empty")]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// The arena that the block belongs to.
    pub fn memory(&self) -> &Memory {
        &self.0.arena
    }

    /// A reference to `len` bytes from `offset` on, or `None` if they are not all in the block.
    pub fn reference(&self, offset: u64, len: u32) -> Option<BlockRef> {
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.0.len as u64).then_some(BlockRef {
            slot: self.0.slot,
            generation: self.0.generation,
            offset,
            len,
            origin: Origin::OWN,
        })
    }

    /// Copies bytes from `offset` on into `target`.
    ///
    /// # Panics
    /// If the range is not in the block.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let pointer = self.pointer(offset, target.len());
        // SAFETY: `pointer` checked the range.
        unsafe { load_shared(pointer, target.as_mut_ptr(), target.len()) };
    }

    /// Copies `source` into the block at `offset`.
    ///
    /// # Panics
    /// If the range is not in the block.
    pub fn write(&self, offset: usize, source: &[u8]) {
        let pointer = self.pointer(offset, source.len());
        // SAFETY: `pointer` checked the range.
        unsafe { store_shared(source.as_ptr(), pointer, source.len()) };
    }

    /// The 64-bit word at `offset`, a multiple of eight.
    ///
    /// # Panics
    /// If the word is not in the block or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        let pointer = self.pointer(offset, 8).cast::<u64>();
        assert!(
            pointer.is_aligned(),
            "a word lies at a multiple of eight bytes"
        );
        // SAFETY: in range, aligned, and it lives as long as `self`.
        unsafe { AtomicU64::from_ptr(pointer) }
    }

    /// `count` 64-bit words from `offset` on, a multiple of eight.
    ///
    /// # Panics
    /// If they are not all in the block, or not aligned.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        let len = count.saturating_mul(8);
        let pointer = self.pointer(offset, len).cast::<AtomicU64>();
        assert!(
            pointer.is_aligned(),
            "words lie at a multiple of eight bytes"
        );
        // SAFETY: in range and aligned; an atomic word has the layout of a plain one, every value
        // is valid, and the bytes live as long as `self`.
        unsafe { core::slice::from_raw_parts(pointer, count) }
    }

    #[inline]
    pub(super) fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.0.len),
            "bytes {offset}..+{len} of a block of {} bytes",
            self.0.len
        );
        // SAFETY: in range, just checked.
        unsafe { self.0.pointer.add(offset) }
    }
}

impl core::fmt::Debug for Block {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Block({} bytes)", self.0.len)
    }
}
