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
    /// Whoever had to answer has not done so for too long. A latch that was to be given back is
    /// given back later.
    #[error("the page directory or the storage behind it does not answer")]
    Gone,
    /// This node was taken for dead: others have its latches, and what only it had is lost. It
    /// needs a new pool. The change of a guard that was given back was not taken.
    #[error("this node was taken for dead; its buffer frames count for nothing, open a new pool")]
    Fenced,
    /// The page's store is not open to this node.
    #[error("the store of {0} is not open to this node")]
    NotMember(PageId),
    /// The page was not had within the time limit, although the directory answers: another worker
    /// or node holds its latch or its buffer frame, or still writes it home.
    #[error("{0} was not had in time; somebody holds its latch")]
    TimedOut(PageId),
    /// All buffer frames are in use.
    #[error("all {frames} buffer frames of the pool are fixed; drop guards or enlarge the pool")]
    PoolTooSmall {
        /// How many there are.
        frames: u32,
    },
    /// This worker has fixed the page already, and would wait for itself.
    #[error("this worker has fixed {0} already in a conflicting mode")]
    Conflict(PageId),
    /// The engine's log was not durable up to the page's LSN in time. The page stays changed and
    /// latched until it is.
    #[error("{0} cannot leave its node: the engine's log is not durable up to its LSN")]
    NotLogged(PageId),
}

impl FixError {
    /// Whether storage gave back something else than was written: a torn write, for instance. Such
    /// a page can be written anew ([`PageStore::restore`](super::PageStore::restore)).
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::WrongPage { .. })
    }
}

/// Why a change is not known to be the page's newest version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommitError {
    /// It was not taken: the latch had been taken away from this node, which was taken for dead.
    /// Another node may have changed the page since. Fix it again to change what is there now.
    #[error("the change of {0} was not taken: its latch had been taken away from this node")]
    Superseded(PageId),
    /// It was not taken: this node was taken for dead, and needs a new pool.
    #[error("the change of {0} was not taken: this node was taken for dead")]
    Fenced(PageId),
    /// It was not taken: the page's store was closed to this node.
    #[error("the change of {0} was not taken: its store is not open to this node")]
    NotMember(PageId),
    /// Nobody has answered in time. The page stays changed and latched, and the directory is asked
    /// on when a worker of the node is polled.
    #[error("whether the change of {0} was taken is not known: the page directory does not answer")]
    TimedOut(PageId),
    /// The engine's log was not durable up to the page's LSN in time. The page stays changed and
    /// latched until it is.
    #[error("{0} cannot leave its node: the engine's log is not durable up to its LSN")]
    NotLogged(PageId),
}

/// Why a flush has not made everything durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlushError {
    /// Not all changed pages were written. The others were, and are durable.
    #[error(
        "{failed} of {pages} changed pages were not written, the first of them {page}: {source}"
    )]
    Pages {
        /// Pages that were to be written.
        pages: u64,
        /// Those that were not.
        failed: u64,
        /// The first of them.
        page: PageId,
        /// Why.
        source: FixError,
    },
    /// All changed pages were written, but the device did not confirm that they will outlive a
    /// power cut.
    #[error("store {store} has not confirmed that what was written is durable: {source}")]
    Store {
        /// The store's number.
        store: u8,
        /// Why.
        source: FixError,
    },
}

impl FlushError {
    /// What went wrong first.
    pub const fn cause(&self) -> FixError {
        match *self {
            Self::Pages { source, .. } | Self::Store { source, .. } => source,
        }
    }
}
