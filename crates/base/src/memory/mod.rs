//! Region memory: the bytes that NICs read and write on behalf of peers.
//!
//! A [`Memory`] is the arena of one rack in one process. A [`Block`] is a zeroed, 4 KiB-aligned
//! piece of it, which a node registers as a region. A [`BlockRef`] refers to bytes of a block
//! without keeping the block alive; packets carry it, so that a transfer between machines of one
//! host copies its payload once, from the source region to the target region. A reference to a
//! block that no longer exists resolves to nothing.
//!
//! Bytes of a block are shared with peers by design, as RDMA memory is: a peer may write them at
//! any time. All access to them is therefore atomic, in words or by copies ([`SharedBytes`]). Ring
//! words use acquire and release order, which hands over the bulk bytes. A peer that violates the
//! protocol corrupts bytes, never memory safety: addresses are checked at every access, and memory
//! obtained from the system stays mapped until the arena is dropped.
//!
//! A [shared](Memory::shared) arena is in one segment. Other processes of the host
//! [import](Memory::import) it under a name, an [`Origin`], to read from it. They cannot write to
//! it.

mod arena;
mod block;
mod copy;
#[cfg(target_os = "linux")]
mod foreign;
mod frames;
#[cfg(target_os = "linux")]
pub mod mapping;
mod reference;
#[cfg(target_os = "linux")]
mod shared;
mod slots;
mod view;

use copy::{copy_shared, fill_shared, load_shared, store_shared};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, MutexGuard};

use arena::{Allocations, Arena};
pub use block::Block;
pub use frames::{FrameRead, FrameWrite, Frames, Retired, Stamp};
pub use reference::{BlockRef, Origin};
#[cfg(target_os = "linux")]
pub use shared::ImportError;
pub use slots::{ReadSlots, WriteSlots};
pub use view::{SharedBytes, SharedBytesMut};

/// Alignment of every block, in bytes: a page, so that cache lines and words never straddle.
pub const BLOCK_ALIGNMENT: usize = 4096;

/// Maximum number of blocks of one arena.
pub const BLOCKS_MAX: usize = if cfg!(miri) { 1 << 6 } else { 1 << 14 };

/// Why an arena could not provide a block, or could not be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum MemoryError {
    /// The arena's limit would be exceeded.
    #[error("{asked} bytes asked for, {left} of the rack's {limit} left; raise memory_limit")]
    LimitReached {
        /// Bytes requested.
        asked: usize,
        /// Bytes left under the limit.
        left: usize,
        /// The arena's limit in bytes.
        limit: usize,
    },
    /// All block slots are taken.
    #[error("the rack already holds {BLOCKS_MAX} memory blocks")]
    TooManyBlocks,
    /// Zero bytes were requested.
    #[error("a memory block needs at least one byte")]
    Empty,
    /// The system provides no memory that processes can share.
    #[cfg(target_os = "linux")]
    #[error(
        "no shared memory for a limit of {limit} bytes: {source}; lower memory_limit (a kernel \
         before Linux 5.1 has none at all)"
    )]
    NotShared {
        /// The limit requested.
        limit: usize,
        /// The error of the system.
        #[serde(with = "errno")]
        source: rustix::io::Errno,
    },
}

/// An error of the system, as a number.
#[cfg(target_os = "linux")]
mod errno {
    use rustix::io::Errno;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(error: &Errno, to: S) -> Result<S::Ok, S::Error> {
        error.raw_os_error().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Errno, D::Error> {
        Ok(Errno::from_raw_os_error(i32::deserialize(from)?))
    }
}

/// The arena of all region memory of one rack in one process. Clones share it.
#[derive(Clone)]
pub struct Memory(Arc<Arena>);

impl Memory {
    /// An arena of which at most `limit` bytes are allocated at a time.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Arena::new(limit, 0)))
    }

    /// An arena like that of [`Self::new`] whose blocks other processes can read: see
    /// [`Self::descriptor`].
    ///
    /// # Errors
    /// If the system provides no such memory.
    #[cfg(target_os = "linux")]
    pub fn shared(limit: usize) -> Result<Self, MemoryError> {
        let segment = shared::Segment::create(limit)
            .map_err(|source| MemoryError::NotShared { limit, source })?;
        let mut arena = Arena::new(limit, shared::first_generation());
        arena.segment = Some(segment);
        Ok(Self(Arc::new(arena)))
    }

    /// The segment of a shared arena, to be passed to the processes that may read its blocks: they
    /// [import](Self::import) it.
    #[cfg(target_os = "linux")]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.segment.as_ref().map(shared::Segment::descriptor)
    }

    /// The name by which other processes know this arena; [`Origin::OWN`] if there is none.
    pub fn origin(&self) -> Origin {
        Origin(self.0.origin.load(Ordering::Relaxed))
    }

    /// Sets the name by which other processes know this arena. References are translated by it when
    /// they leave or enter the process, so it must be set before the first one does.
    pub fn set_origin(&self, origin: Origin) {
        self.0.origin.store(origin.0, Ordering::Relaxed);
    }

    /// Maps the arena of another process read-only, so that references into `origin` resolve. An
    /// arena that was imported under this name before is removed.
    ///
    /// # Errors
    /// If the name is reserved, or the descriptor does not refer to an arena of this version.
    #[cfg(target_os = "linux")]
    pub fn import(&self, origin: Origin, fd: OwnedFd) -> Result<(), ImportError> {
        self.0.imports.insert(origin, &fd)
    }

    /// Unmaps the arena that was imported as `origin`, if there is one, once the copies from it
    /// that are in progress have ended. References into it then resolve to nothing.
    #[cfg(target_os = "linux")]
    pub fn forget(&self, origin: Origin) {
        self.0.imports.remove(origin);
    }

    /// A block of `len` zero bytes.
    ///
    /// # Errors
    /// If the arena's limit or its number of blocks is exceeded, or `len` is zero.
    pub fn allocate(&self, len: usize) -> Result<Block, MemoryError> {
        if len == 0 {
            return Err(MemoryError::Empty);
        }
        let mut allocations = self.allocations();
        let capacity = len
            .checked_next_multiple_of(BLOCK_ALIGNMENT)
            .unwrap_or(usize::MAX);
        // A free slot may be larger than requested, by a quarter at most.
        let fits = |slot: &u32| {
            let have = self.0.slots[*slot as usize]
                .capacity
                .load(Ordering::Relaxed);
            have >= capacity && have - capacity <= capacity / 4
        };
        let reused = allocations.free.iter().rposition(fits);
        let index = match reused {
            Some(at) => allocations.free.swap_remove(at),
            None => self.0.obtain(&mut allocations, len, capacity)?,
        };
        let slot = &self.0.slots[index as usize];
        let pointer = slot.pointer.load(Ordering::Acquire);
        if reused.is_some() {
            // SAFETY: the slot's memory is `capacity` bytes and no block owns it. A copy still in
            // progress by a reference to the old block reads it by atomic accesses.
            unsafe { fill_shared(pointer, 0, slot.capacity.load(Ordering::Relaxed)) };
        }
        let generation = self.0.next_generation(index);
        Ok(Block::new(self.clone(), index, generation, pointer, len))
    }

    /// Takes back a block that has no owners left.
    fn release(&self, slot: u32) {
        self.0.next_generation(slot);
        self.allocations().free.push(slot);
    }

    /// Bytes obtained from the system so far, those of released blocks included.
    pub fn bytes_held(&self) -> usize {
        self.allocations().used
    }

    /// Bytes of the blocks that exist.
    pub fn bytes_in_use(&self) -> usize {
        let allocations = self.allocations();
        let capacity = |&slot: &u32| self.0.slots[slot as usize].capacity.load(Ordering::Relaxed);
        allocations.used - allocations.free.iter().map(capacity).sum::<usize>()
    }

    /// Maximum bytes that this arena allocates.
    pub fn limit(&self) -> usize {
        self.allocations().limit
    }

    fn allocations(&self) -> MutexGuard<'_, Allocations> {
        self.0
            .allocations
            .lock()
            .expect("no holder of this lock panics")
    }

    /// The referenced bytes, if they are in an existing block of this arena.
    #[inline]
    fn resolve(&self, reference: BlockRef) -> Option<*mut u8> {
        if reference.origin != Origin::OWN {
            return None;
        }
        let slot = self.0.slots.get(reference.slot as usize)?;
        let end = reference.offset.checked_add(u64::from(reference.len))?;
        if slot.generation.load(Ordering::Acquire) != reference.generation
            || end > slot.capacity.load(Ordering::Relaxed) as u64
        {
            return None;
        }
        let base = slot.pointer.load(Ordering::Acquire);
        // SAFETY: offset + len is within the slot's capacity, checked above.
        Some(unsafe { base.add(reference.offset as usize) })
    }

    /// Calls `read` with the referenced bytes, in whichever arena they are; they stay mapped while
    /// it runs. Returns false if the block no longer exists, even if it was released only while
    /// `read` ran: then `read` may have seen bytes of the next block.
    #[inline]
    fn with_source(&self, source: BlockRef, read: impl FnOnce(*const u8)) -> bool {
        if source.origin == Origin::OWN {
            let Some(pointer) = self.resolve(source) else {
                return false;
            };
            read(pointer);
            // Pairs with the fence in `next_generation`: if bytes of a later block were read, its
            // generation is seen as well.
            fence(Ordering::Acquire);
            return self.resolve(source).is_some();
        }
        #[cfg(target_os = "linux")]
        return self.0.imports.with(source, read);
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Copies the referenced bytes into `target`, which must be as long as the reference. Returns
    /// false if the block no longer exists.
    #[must_use]
    pub fn read(&self, source: BlockRef, target: &mut [u8]) -> bool {
        assert_eq!(
            source.len as usize,
            target.len(),
            "a copy needs equal lengths"
        );
        self.with_source(source, |pointer| {
            // SAFETY: the source range was checked; `target` is a distinct Rust slice.
            unsafe { load_shared(pointer, target.as_mut_ptr(), target.len()) };
        })
    }

    /// Copies `source` over the referenced bytes, of the same length. Returns false if the block no
    /// longer exists or is not in this arena. The caller keeps the block alive during the copy, as
    /// a NIC does through its region table: otherwise the bytes may be written to the next block.
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
        unsafe { store_shared(source.as_ptr(), pointer, source.len()) };
        true
    }

    /// Copies referenced bytes over referenced bytes of the same length; they may overlap. Returns
    /// false if either block no longer exists, or the target is not in this arena. If the source
    /// was released meanwhile, the target may have been written to. The caller keeps the target
    /// alive, as for [`Self::write`].
    #[must_use]
    pub fn copy(&self, source: BlockRef, target: BlockRef) -> bool {
        assert_eq!(source.len, target.len, "a copy needs equal lengths");
        let Some(to) = self.resolve(target) else {
            return false;
        };
        self.with_source(source, |from| {
            // SAFETY: both ranges were checked; `copy_shared` allows overlap.
            unsafe { copy_shared(from, to, source.len as usize) };
        })
    }

    /// Applies `update` atomically to the aligned 64-bit word at the start of `reference`. Returns
    /// the word's old value, or `None` if the block no longer exists or is not in this arena, or
    /// the word is unaligned.
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

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Memory({} bytes held)", self.bytes_held())
    }
}

// Miri has no memfd.
#[cfg(all(test, target_os = "linux", not(miri)))]
mod shared_tests;
#[cfg(test)]
mod tests;
