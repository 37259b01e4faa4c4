//! Region memory: the bytes that NICs read and write on behalf of peers.
//!
//! A [`Memory`] is the arena of one rack in one process. A [`Block`] is a zeroed, 4 KiB-aligned
//! piece of it, which a node registers as a region. A [`BlockRef`] names bytes of a block without
//! keeping it alive; packets carry it, so that an in-process transfer copies its payload once, from
//! the source region to the target region. A reference to a block that is gone resolves to nothing.
//!
//! Bytes of a block are shared with peers by design, as RDMA memory is. Ring words are accessed as
//! atomics with acquire and release order, and they hand over the bulk bytes: whoever follows the
//! ring protocol never races with a copy. A peer that breaks the protocol damages bytes, never
//! memory safety of the arena: addresses are checked at every access, and memory once obtained from
//! the system stays mapped until the arena is dropped.

mod slots;

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::{Arc, Mutex};

pub use slots::{ReadSlots, WriteSlots};

/// Alignment of every block, in bytes: a page, so that cache lines and words never straddle.
pub const BLOCK_ALIGNMENT: usize = 4096;

/// Blocks of this size and more begin at a multiple of it and ask the system for huge pages:
/// walking page tables is what limits copying large rings.
const HUGE_PAGE: usize = 2 << 20;

/// The most blocks that one arena can hold at a time.
pub const BLOCKS_MAX: usize = 1 << 14;

/// Why an arena could not give a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The arena's limit would be exceeded.
    #[error("{asked} bytes asked for, {left} of the rack's {limit} left; raise memory_limit")]
    LimitReached {
        /// Bytes asked for.
        asked: usize,
        /// Bytes left under the limit.
        left: usize,
        /// The arena's limit in bytes.
        limit: usize,
    },
    /// All block slots are taken.
    #[error("the rack already holds {BLOCKS_MAX} memory blocks")]
    TooManyBlocks,
    /// Zero bytes were asked for.
    #[error("a memory block needs at least one byte")]
    Empty,
}

/// The arena of all region memory of one rack in one process. Clones share it.
#[derive(Clone)]
pub struct Memory(Arc<Arena>);

/// A piece of an arena. Clones share the bytes; the last one to go gives them back to the arena.
#[derive(Clone)]
pub struct Block(Arc<Owned>);

/// Names bytes of a block without keeping the block alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    slot: u32,
    generation: u32,
    offset: u64,
    len: u32,
}

struct Arena {
    slots: Box<[Slot]>,
    books: Mutex<Books>,
}

struct Books {
    limit: usize,
    used: usize,
    slots_used: usize,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    pointer: AtomicPtr<u8>,
    capacity: AtomicUsize,
    /// Odd while a block lives here; it grows at every allocation and every release.
    generation: AtomicU32,
}

struct Owned {
    arena: Memory,
    slot: u32,
    generation: u32,
    pointer: *mut u8,
    len: usize,
}

// SAFETY: the pointer stays valid while `arena` lives, and all access goes through atomics or raw
// copies under the sharing rules in the module's head.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// How a block of `capacity` bytes is obtained from the system.
fn layout(capacity: usize) -> Layout {
    let alignment = if capacity >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        BLOCK_ALIGNMENT
    };
    Layout::from_size_align(capacity, alignment).expect("capacity is bounded by the limit")
}

/// Asks for huge pages. A system that has none goes on with small ones.
fn advise(pointer: *mut u8, capacity: usize) {
    #[cfg(target_os = "linux")]
    if capacity >= HUGE_PAGE {
        // SAFETY: the range was just allocated, whole pages of it, and the advice changes no byte.
        unsafe { libc::madvise(pointer.cast(), capacity, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pointer, capacity);
}

impl Memory {
    /// An arena that gives out at most `limit` bytes at a time.
    pub fn new(limit: usize) -> Self {
        let slots = (0..BLOCKS_MAX).map(|_| Slot::default()).collect();
        let books = Books {
            limit,
            used: 0,
            slots_used: 0,
            free: Vec::new(),
        };
        Self(Arc::new(Arena {
            slots,
            books: Mutex::new(books),
        }))
    }

    /// A block of `len` zero bytes.
    ///
    /// # Errors
    /// If the arena's limit or its number of blocks is exceeded, or `len` is zero.
    pub fn allocate(&self, len: usize) -> Result<Block, MemoryError> {
        if len == 0 {
            return Err(MemoryError::Empty);
        }
        let mut books = self.0.books.lock().expect("no holder of this lock panics");
        let left = books.limit - books.used;
        let capacity = len
            .checked_next_multiple_of(BLOCK_ALIGNMENT)
            .unwrap_or(usize::MAX);
        // A free slot may be larger than asked for, by a quarter at most.
        let fits = |slot: &u32| {
            let have = self.0.slots[*slot as usize]
                .capacity
                .load(Ordering::Relaxed);
            have >= capacity && have - capacity <= capacity / 4
        };
        let reused = books
            .free
            .iter()
            .rposition(fits)
            .map(|at| books.free.swap_remove(at));
        let index = match reused {
            Some(index) => index,
            None => {
                if capacity > left {
                    return Err(MemoryError::LimitReached {
                        asked: len,
                        left,
                        limit: books.limit,
                    });
                }
                if books.slots_used == BLOCKS_MAX {
                    return Err(MemoryError::TooManyBlocks);
                }
                let index = books.slots_used;
                let layout = layout(capacity);
                // SAFETY: the layout has a size above zero.
                let pointer = unsafe { alloc_zeroed(layout) };
                if pointer.is_null() {
                    return Err(MemoryError::LimitReached {
                        asked: len,
                        left: 0,
                        limit: books.limit,
                    });
                }
                advise(pointer, capacity);
                books.slots_used += 1;
                books.used += capacity;
                let slot = &self.0.slots[index];
                slot.pointer.store(pointer, Ordering::Release);
                slot.capacity.store(capacity, Ordering::Release);
                index as u32
            }
        };
        let slot = &self.0.slots[index as usize];
        let pointer = slot.pointer.load(Ordering::Acquire);
        if reused.is_some() {
            // SAFETY: the slot's memory is `capacity` bytes and no block owns it.
            unsafe { ptr::write_bytes(pointer, 0, slot.capacity.load(Ordering::Relaxed)) };
        }
        let generation = slot.generation.fetch_add(1, Ordering::AcqRel) + 1;
        Ok(Block(Arc::new(Owned {
            arena: self.clone(),
            slot: index,
            generation,
            pointer,
            len,
        })))
    }

    /// Bytes obtained from the system so far, those of released blocks included.
    pub fn bytes_held(&self) -> usize {
        self.0
            .books
            .lock()
            .expect("no holder of this lock panics")
            .used
    }

    /// The most bytes that this arena gives out.
    pub fn limit(&self) -> usize {
        self.0
            .books
            .lock()
            .expect("no holder of this lock panics")
            .limit
    }

    fn resolve(&self, reference: BlockRef) -> Option<*mut u8> {
        let slot = self.0.slots.get(reference.slot as usize)?;
        let end = reference.offset.checked_add(u64::from(reference.len))?;
        if slot.generation.load(Ordering::Acquire) != reference.generation
            || end > slot.capacity.load(Ordering::Relaxed) as u64
        {
            return None;
        }
        let base = slot.pointer.load(Ordering::Acquire);
        // SAFETY: offset + len lies within the slot's capacity, checked above.
        Some(unsafe { base.add(reference.offset as usize) })
    }

    /// Copies the referenced bytes into `target`, which must be as long as the reference.
    /// False if the block is gone.
    #[must_use]
    pub fn read(&self, source: BlockRef, target: &mut [u8]) -> bool {
        assert_eq!(
            source.len as usize,
            target.len(),
            "a copy needs equal lengths"
        );
        let Some(pointer) = self.resolve(source) else {
            return false;
        };
        // SAFETY: `resolve` checked the source range; `target` is a distinct Rust slice.
        unsafe { copy_shared(pointer, target.as_mut_ptr(), target.len()) };
        true
    }

    /// Copies `source` over the referenced bytes, of the same length. False if the block is gone.
    #[must_use]
    pub fn write(&self, target: BlockRef, source: &[u8]) -> bool {
        assert_eq!(
            target.len as usize,
            source.len(),
            "a copy needs equal lengths"
        );
        let Some(pointer) = self.resolve(target) else {
            return false;
        };
        // SAFETY: `resolve` checked the target range; `source` is a distinct Rust slice.
        unsafe { copy_shared(source.as_ptr(), pointer, source.len()) };
        true
    }

    /// Copies referenced bytes over referenced bytes of the same length; they may overlap.
    /// False if either block is gone.
    #[must_use]
    pub fn copy(&self, source: BlockRef, target: BlockRef) -> bool {
        assert_eq!(source.len, target.len, "a copy needs equal lengths");
        let (Some(from), Some(to)) = (self.resolve(source), self.resolve(target)) else {
            return false;
        };
        // SAFETY: both ranges were checked; `copy_shared` allows overlap.
        unsafe { copy_shared(from, to, source.len as usize) };
        true
    }

    /// The aligned 64-bit word at the start of `reference`, applied to `update` atomically.
    /// Returns what the word held before, or nothing if the block is gone or the place unaligned.
    pub fn update_word(
        &self,
        reference: BlockRef,
        mut update: impl FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        if reference.len != 8 {
            return None;
        }
        let pointer = self.resolve(reference)?.cast::<u64>();
        if !pointer.is_aligned() {
            return None;
        }
        // SAFETY: in range, aligned, and only accessed atomically or by racing raw copies.
        let word = unsafe { AtomicU64::from_ptr(pointer) };
        let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, &mut update);
        Some(before.unwrap_or_else(|kept| kept))
    }
}

/// The most bytes that [`copy_shared`] moves as single words.
const WORDWISE_MAX: usize = 64;

/// Copies `len` bytes between memory that others may access meanwhile.
///
/// Up to [`WORDWISE_MAX`] bytes of aligned words are copied word by word in ascending order, each
/// atomically, with acquire loads and release stores. Everything before a word copy is visible to
/// whoever sees the word: that is what lets a ring's head publish its items.
///
/// # Safety
/// Both ranges must be valid for `len` bytes. They may overlap.
unsafe fn copy_shared(source: *const u8, target: *mut u8, len: usize) {
    let aligned = (source as usize | target as usize | len).is_multiple_of(8);
    if aligned && len <= WORDWISE_MAX {
        for word in 0..len / 8 {
            // SAFETY: within the ranges, valid by contract, and aligned, checked just above.
            unsafe {
                let from = AtomicU64::from_ptr(source.cast_mut().cast::<u64>().add(word));
                let to = AtomicU64::from_ptr(target.cast::<u64>().add(word));
                to.store(from.load(Ordering::Acquire), Ordering::Release);
            }
        }
        return;
    }
    // SAFETY: valid by contract.
    unsafe { ptr::copy(source, target, len) };
}

impl Block {
    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a block is never empty")]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// The arena that the block belongs to.
    pub fn memory(&self) -> &Memory {
        &self.0.arena
    }

    /// A reference to `len` bytes from `offset` on, or nothing if they are not all in the block.
    pub fn reference(&self, offset: u64, len: u32) -> Option<BlockRef> {
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.0.len as u64).then_some(BlockRef {
            slot: self.0.slot,
            generation: self.0.generation,
            offset,
            len,
        })
    }

    /// Copies bytes from `offset` on into `target`.
    ///
    /// # Panics
    /// If the range is not in the block.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let pointer = self.pointer(offset, target.len());
        // SAFETY: `pointer` checked the range.
        unsafe { copy_shared(pointer, target.as_mut_ptr(), target.len()) };
    }

    /// Copies `source` into the block at `offset`.
    ///
    /// # Panics
    /// If the range is not in the block.
    pub fn write(&self, offset: usize, source: &[u8]) {
        let pointer = self.pointer(offset, source.len());
        // SAFETY: `pointer` checked the range.
        unsafe { copy_shared(source.as_ptr(), pointer, source.len()) };
    }

    /// The 64-bit word at `offset`, a multiple of eight.
    ///
    /// # Panics
    /// If the word is not in the block or not aligned.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        let pointer = self.pointer(offset, 8).cast::<u64>();
        assert!(
            pointer.is_aligned(),
            "a word lies at a multiple of eight bytes"
        );
        // SAFETY: in range, aligned, and it lives as long as `self`.
        unsafe { AtomicU64::from_ptr(pointer) }
    }

    fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
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

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Memory({} bytes held)", self.bytes_held())
    }
}

impl BlockRef {
    /// The number of bytes referenced.
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty reference is of no use to ask for"
    )]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The part of `len` bytes that starts `offset` bytes into this reference.
    ///
    /// # Panics
    /// If the part is not within it.
    #[must_use]
    pub const fn part(&self, offset: u32, len: u32) -> Self {
        assert!(offset as u64 + len as u64 <= self.len as u64);
        Self {
            offset: self.offset + offset as u64,
            len,
            ..*self
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let slot = &self.arena.0.slots[self.slot as usize];
        slot.generation.fetch_add(1, Ordering::AcqRel);
        let mut books = self
            .arena
            .0
            .books
            .lock()
            .expect("no holder of this lock panics");
        books.free.push(self.slot);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for slot in &self.slots {
            let pointer = slot.pointer.load(Ordering::Acquire);
            if !pointer.is_null() {
                let capacity = slot.capacity.load(Ordering::Acquire);
                let layout = layout(capacity);
                // SAFETY: allocated with this layout; every block holds the arena, so none is left.
                unsafe { dealloc(pointer, layout) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
