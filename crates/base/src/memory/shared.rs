//! An arena in a segment that other processes map read-only.
//!
//! The segment begins with a header (magic, version, sizes) and the slot table, by which other
//! processes resolve references; the blocks follow. The table is a copy of the arena's own slots.
//! The arena itself never reads it, so a corrupted table cannot mislead the arena.
//!
//! ```text
//! 0     magic 8, version 4, slots 4, length 8
//! 4096  slots: offset 8, capacity 8, generation 4, zero 4 each
//! 2 MiB blocks
//! ```

use super::arena::HUGE_PAGE;
use super::mapping::{self, Access, Mapping};
use super::{BLOCKS_MAX, BlockRef};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The first eight bytes of an arena's segment.
const MAGIC: u64 = u64::from_le_bytes(*b"RWarena\n");

/// The version of the layout in the module documentation.
const VERSION: u32 = 1;

/// Offset of the slot table.
const TABLE_AT: usize = 4096;

/// Offset of the first block: a multiple of the huge page, after the whole table.
pub(super) const DATA_AT: usize = HUGE_PAGE;
const _: () = assert!(TABLE_AT + BLOCKS_MAX * size_of::<TableSlot>() <= DATA_AT);

/// The properties that an arena and the processes that map it must agree on.
#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    slots: u32,
    len: u64,
}

#[repr(C)]
struct TableSlot {
    offset: AtomicU64,
    capacity: AtomicU64,
    generation: AtomicU32,
    zero: AtomicU32,
}

/// The segment of this process's own arena.
pub(super) struct Segment {
    mapping: Mapping,
    fd: OwnedFd,
}

/// Why another process's arena was not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The name is reserved: zero is this process itself, and the largest number stands for no
    /// arena.
    #[error("arena name {} is reserved; give processes the names 1 to 65534", .0.0)]
    Reserved(super::Origin),
    /// The descriptor could not be mapped.
    #[error("stale or foreign shared-memory segment: {0}; restart the process that offered it")]
    Open(mapping::OpenError),
    /// The descriptor refers to something else.
    #[error(
        "stale or foreign shared-memory segment: it is no arena of Rackweave; \
         restart the process that offered it"
    )]
    NoArena,
    /// The arena has another version.
    #[error(
        "stale or foreign shared-memory segment: it has layout version {found}, this is \
         {VERSION}; run the same version of Rackweave in every process"
    )]
    Version {
        /// The version in the header.
        found: u32,
    },
    /// The segment does not match its header.
    #[error(
        "stale or foreign shared-memory segment: its header says {said} bytes and {slots} slots, \
         but it has {found} bytes; restart the process that offered it"
    )]
    Sizes {
        /// Its length according to the header.
        said: u64,
        /// Its slots according to the header.
        slots: u32,
        /// Its actual length.
        found: usize,
    },
}

impl Segment {
    /// A segment with space for blocks of `limit` bytes in total.
    pub(super) fn create(limit: usize) -> Result<Self, Errno> {
        // A block that must begin at a huge page leaves less than its own size unused before it.
        let len = limit
            .checked_mul(2)
            .and_then(|twice| twice.checked_add(DATA_AT))
            .and_then(|len| len.checked_next_multiple_of(HUGE_PAGE))
            .ok_or(Errno::FBIG)?;
        let (fd, mapping) = mapping::create("rackweave-arena", len, Access::Read)?;
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            slots: BLOCKS_MAX as u32,
            len: len as u64,
        };
        // SAFETY: the mapping is longer than the header, aligned to a page, and is not known to any
        // other code yet.
        unsafe { mapping.pointer().cast::<Header>().write(header) };
        Ok(Self { mapping, fd })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The address of the block at `offset`.
    pub(super) fn block(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.mapping.len());
        // SAFETY: within the mapping: `create` left space for every block under the limit.
        unsafe { self.mapping.pointer().add(offset) }
    }

    /// Publishes the location of the blocks in `slot` to other processes.
    pub(super) fn place(&self, slot: u32, offset: usize, capacity: usize) {
        let entry = self.entry(slot);
        entry.offset.store(offset as u64, Ordering::Relaxed);
        entry.capacity.store(capacity as u64, Ordering::Relaxed);
    }

    /// Publishes the generation of `slot` to other processes, after the location.
    pub(super) fn set_generation(&self, slot: u32, generation: u32) {
        self.entry(slot)
            .generation
            .store(generation, Ordering::Release);
    }

    fn entry(&self, slot: u32) -> &TableSlot {
        assert!((slot as usize) < BLOCKS_MAX);
        // SAFETY: the table has BLOCKS_MAX entries within the mapping, aligned, and all access to
        // them is atomic.
        unsafe { &*table(&self.mapping).add(slot as usize) }
    }
}

/// The even number that generations start from, different for every arena: a reference that
/// outlives its process must not match the arena of a process that replaces it.
pub(super) fn first_generation() -> u32 {
    (RandomState::new().hash_one(()) as u32) & !1
}

/// Maps the arena behind `fd` read-only, if it is an arena.
pub(super) fn open(fd: &OwnedFd) -> Result<Mapping, ImportError> {
    let mapping = mapping::open(fd, Access::Read).map_err(ImportError::Open)?;
    if mapping.len() < DATA_AT {
        return Err(ImportError::NoArena);
    }
    // SAFETY: within the mapping, aligned to a page; any bytes are a valid header. Volatile,
    // because its owner may write meanwhile.
    let header = unsafe { mapping.pointer().cast::<Header>().read_volatile() };
    if header.magic != MAGIC {
        return Err(ImportError::NoArena);
    }
    if header.version != VERSION {
        return Err(ImportError::Version {
            found: header.version,
        });
    }
    if header.len != mapping.len() as u64 || header.slots as usize != BLOCKS_MAX {
        return Err(ImportError::Sizes {
            said: header.len,
            slots: header.slots,
            found: mapping.len(),
        });
    }
    // SAFETY: the whole mapping. The bytes between blocks are never accessed, so they cost nothing.
    unsafe { mapping::advise_huge(mapping.pointer(), mapping.len()) };
    Ok(mapping)
}

/// The referenced bytes in the arena of another process. Its table may have any contents.
pub(super) fn resolve(mapping: &Mapping, reference: BlockRef) -> Option<*const u8> {
    let slot = reference.slot as usize;
    if slot >= BLOCKS_MAX || reference.generation.is_multiple_of(2) {
        return None;
    }
    // SAFETY: `open` checked that the table is within the mapping. The loads are volatile, not
    // atomic by type, because the mapping is read-only and its writer is another process.
    let (generation, offset, capacity) = unsafe {
        let entry = table(mapping).add(slot);
        let generation = (&raw const (*entry).generation)
            .cast::<u32>()
            .read_volatile();
        fence(Ordering::Acquire);
        let offset = (&raw const (*entry).offset).cast::<u64>().read_volatile();
        let capacity = (&raw const (*entry).capacity).cast::<u64>().read_volatile();
        (generation, offset, capacity)
    };
    let end = reference.offset.checked_add(u64::from(reference.len))?;
    let start = offset.checked_add(reference.offset)?;
    let in_mapping = offset.checked_add(end)? <= mapping.len() as u64 && start >= DATA_AT as u64;
    if generation != reference.generation || end > capacity || !in_mapping {
        return None;
    }
    // SAFETY: start and end are within the mapping, checked just above.
    Some(unsafe { mapping.pointer().add(start as usize) })
}

fn table(mapping: &Mapping) -> *const TableSlot {
    debug_assert!(mapping.len() >= DATA_AT);
    // SAFETY: every mapping of an arena is longer than its table.
    unsafe { mapping.pointer().add(TABLE_AT).cast() }
}
