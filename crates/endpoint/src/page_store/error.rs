//! What can go wrong, one enumeration for each kind of call.

use rackweave_wire::fabric::page::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, PageId};

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PoolError {
    /// No page can have this size.
    #[error("pages of {0} bytes; a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX} is needed")]
    PageSize(u32),
    /// Too few or too many buffer frames.
    #[error("a pool of {0} buffer frames; 4 to 2^24 are possible")]
    Frames(u32),
    /// The block is too small.
    #[error("the pool needs {needs} bytes, its block has {has}")]
    TooSmall {
        /// Bytes needed.
        needs: u64,
        /// Bytes there are.
        has: u64,
    },
}

/// Why a page could not be fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FixError {
    /// The store has no such page.
    #[error("{0} is beyond the end of its store")]
    NoSuchPage(PageId),
    /// The newest version went down with the node that had it. The home's is older.
    #[error("the newest version of {0} was lost with the node that had it")]
    Lost(PageId),
    /// What came from storage does not bear its checksum.
    #[error(
        "{page} is damaged on storage: its checksum is {found:#x}, its bytes give {expected:#x}"
    )]
    Corrupt {
        /// The page.
        page: PageId,
        /// In its header.
        found: u64,
        /// Of its bytes.
        expected: u64,
    },
    /// What came is another page, or of another store.
    #[error("in place of {page} came page number {found:#x} of store {store:#x}")]
    WrongPage {
        /// The page.
        page: PageId,
        /// The number in the header.
        found: u64,
        /// The identity in the header.
        store: u64,
    },
    /// A buffer frame was needed, and changed pages could not be written: the device is full.
    #[error("the pool is full of changed pages, and storage has no room for them")]
    StorageFull,
    /// Storage refused or failed.
    #[error("storage failed with NVMe status {status:#06x}")]
    Storage {
        /// As the target gave it.
        status: u16,
    },
    /// Whoever had to answer has not done so for too long.
    #[error("the page directory or the storage behind it does not answer")]
    Gone,
    /// All buffer frames are in use.
    #[error("all {frames} buffer frames of the pool are fixed; drop guards or enlarge the pool")]
    PoolTooSmall {
        /// How many there are.
        frames: u32,
    },
    /// This worker has fixed the page already, and would wait for itself.
    #[error("this worker has fixed {0} already in a conflicting mode")]
    Conflict(PageId),
}

/// Why not all changed pages were written. The rest were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{failed} of {pages} changed pages were not written, the first of them {page}: {source}")]
pub struct FlushError {
    /// Pages that were to be written.
    pub pages: u64,
    /// Those that were not.
    pub failed: u64,
    /// The first of them.
    pub page: PageId,
    /// Why.
    pub source: FixError,
}
