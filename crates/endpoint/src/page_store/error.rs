//! Errors of the page store, one enumeration for each kind of call.

use rackweave_wire::fabric::page::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, PageId};

/// Why a pool could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PoolError {
    /// The page size is not supported.
    #[error("pages of {0} bytes; a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX} is needed")]
    PageSize(u32),
    /// Too few or too many buffer frames of a size.
    #[error("a pool of {frames} buffer frames of {page_size} bytes; 4 to 2^24 are possible")]
    Frames {
        /// Number of buffer frames.
        frames: u32,
        /// Bytes of a page.
        page_size: u32,
    },
    /// The block is too small.
    #[error("the pool needs {needs} bytes, its block has {has}")]
    TooSmall {
        /// Bytes needed.
        needs: u64,
        /// Bytes available.
        has: u64,
    },
}

/// Why a page could not be fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FixError {
    /// The store has no such page.
    #[error("{0} is beyond the end of its store")]
    NoSuchPage(PageId),
    /// The newest version was lost with the node that had it. The version at home is older.
    #[error("the newest version of {0} was lost with the node that had it")]
    Lost(PageId),
    /// The page read from storage does not match its checksum.
    #[error(
        "{page} is damaged on storage: its checksum is {found:#x}, its bytes give {expected:#x}"
    )]
    Corrupt {
        /// The page.
        page: PageId,
        /// The checksum in its header.
        found: u64,
        /// The checksum of its bytes.
        expected: u64,
    },
    /// The page read is another page, or belongs to another store.
    #[error("in place of {page} came page number {found:#x} of store {store:#x}")]
    WrongPage {
        /// The page.
        page: PageId,
        /// The number in the header.
        found: u64,
        /// The identity in the header.
        store: u64,
    },
    /// A buffer frame was needed, and changed pages could not be written because the device is
    /// full.
    #[error("the pool is full of changed pages, and storage has no room for them")]
    StorageFull,
    /// Storage refused the command or failed.
    #[error("storage failed with NVMe status {status:#06x}")]
    Storage {
        /// The NVMe status, as the target reported it.
        status: u16,
    },
    /// No response within the patience of the pool. A latch that was to be released is released
    /// later.
    #[error("the page directory or the storage behind it does not answer")]
    Gone,
    /// This node was declared dead: other nodes have its latches, and data that only it had is
    /// lost. It needs a new pool. The change of a released guard was not accepted.
    #[error(
        "this node was declared dead, and its buffer frames are void: take another worker, with a new pool"
    )]
    Fenced,
    /// The page's store is not open to this node.
    #[error("the store of {0} is not open to this node")]
    NotMember(PageId),
    /// The page was not obtained within the time limit, although the directory responds: another
    /// worker or node holds its latch or its buffer frame, or is still writing it home.
    #[error("{0} was not had in time; somebody holds its latch")]
    TimedOut(PageId),
    /// All buffer frames are in use.
    #[error("all {frames} buffer frames of the pool are fixed; drop guards or enlarge the pool")]
    PoolTooSmall {
        /// The number of buffer frames.
        frames: u32,
    },
    /// This worker has already fixed the page, and would wait for itself.
    #[error("this worker has fixed {0} already in a conflicting mode")]
    Conflict(PageId),
    /// The engine's log was not durable up to the page's LSN in time. The page stays changed and
    /// latched until it is.
    #[error("{0} cannot leave its node: the engine's log is not durable up to its LSN")]
    NotLogged(PageId),
}

impl FixError {
    /// Whether storage returned other data than was written, for instance after a torn write. Such
    /// a page can be rewritten ([`PageStore::restore`](super::PageStore::restore)).
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::WrongPage { .. })
    }
}

/// Why a change may not be the page's newest version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommitError {
    /// The change was not accepted: the latch had been revoked from this node, which was declared
    /// dead. Another node may have changed the page since. Fix it again to change the current
    /// version.
    #[error("the change of {0} was not accepted: its latch had been revoked from this node")]
    Superseded(PageId),
    /// The change was not accepted: this node was declared dead, and needs a new pool.
    #[error("the change of {0} was not accepted: this node was declared dead")]
    Fenced(PageId),
    /// The change was not accepted: the page's store was closed to this node.
    #[error("the change of {0} was not accepted: its store is not open to this node")]
    NotMember(PageId),
    /// No response in time. The page stays changed and latched, and the request is repeated when a
    /// worker of the node is polled.
    #[error(
        "whether the change of {0} was accepted is unknown: the page directory does not answer"
    )]
    TimedOut(PageId),
    /// The engine's log was not durable up to the page's LSN in time. The page stays changed and
    /// latched until it is.
    #[error("{0} cannot leave its node: the engine's log is not durable up to its LSN")]
    NotLogged(PageId),
}

/// Why a flush did not make everything durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlushError {
    /// Not all changed pages were written. The others were, and are durable.
    #[error(
        "{failed} of {pages} changed pages were not written, the first of them {page}: {source}"
    )]
    Pages {
        /// Pages that were to be written.
        pages: u64,
        /// Pages that were not written.
        failed: u64,
        /// The first page that was not written.
        page: PageId,
        /// Why it was not written.
        source: FixError,
    },
    /// All changed pages were written, but the device did not confirm that they survive a power
    /// failure.
    #[error("store {store} has not confirmed that what was written is durable: {source}")]
    Store {
        /// The store's number.
        store: u8,
        /// Why the device did not confirm.
        source: FixError,
    },
}

impl FlushError {
    /// The first cause.
    pub const fn cause(&self) -> FixError {
        match *self {
            Self::Pages { source, .. } | Self::Store { source, .. } => source,
        }
    }
}
