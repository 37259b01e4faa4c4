//! What can go wrong with a store.

use super::superblock::FORMAT;
use crate::page_store::{FixError, FlushError};
use rackweave_wire::fabric::page::PageId;

/// Why a page could not be allocated or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllocateError {
    /// No page is free.
    #[error("all {capacity} pages of the store are in use")]
    StoreFull {
        /// Pages of the store, superblock and maps included.
        capacity: u64,
    },
    /// No page is free where the map can be had.
    #[error(
        "{faulty} of {groups} groups of pages cannot be used, the first because of its map, {map}: \
         {source}; all other pages are in use"
    )]
    Maps {
        /// Groups that cannot be used.
        faulty: u64,
        /// Groups of the store.
        groups: u64,
        /// The map of the first of them.
        map: PageId,
        /// Why it cannot be used.
        source: MapError,
    },
    /// The page is free already.
    #[error("{0} is free already")]
    NotInUse(PageId),
    /// No page of this store, the superblock, or a map.
    #[error("{0} is none of the store's {1} pages that can be in use")]
    NoSuchPage(PageId, u64),
    /// A map is damaged.
    #[error("{0} should be a map of pages in use, and is none; the store is damaged")]
    Damaged(PageId),
    /// No store was opened or formatted.
    #[error("no store is open")]
    NotOpen,
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
}

/// Why a map of pages in use cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// It, or a page of its group, could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// It could not be made durable.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// It is none.
    #[error("it is no map")]
    Damaged,
    /// Others have changed it at the same time, again and again.
    #[error("it was changed by others each time that it was to be written")]
    Contended,
}

/// Why a store could not be made or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing.
    #[error("store {0} is blank; format it first")]
    Blank(u8),
    /// There is something else.
    #[error("store {store} is none of ours: its page 0 begins with {found:#018x}")]
    NoStore {
        /// The store's number.
        store: u8,
        /// The first eight bytes.
        found: u64,
    },
    /// It has another format.
    #[error("store {store} has format {found}, this program has format {FORMAT}")]
    Format {
        /// The store's number.
        store: u8,
        /// As it says.
        found: u32,
    },
    /// It has pages of another size.
    #[error(
        "store {store} has pages of {found} bytes, the pool has {configured}; set page size {found}"
    )]
    PageSize {
        /// The store's number.
        store: u8,
        /// Of the store.
        found: u32,
        /// Of the pool.
        configured: u32,
    },
    /// It is another store than the configuration says.
    #[error("store {store} is {found:#018x}, the configuration names {configured:#018x}")]
    Identity {
        /// The store's number.
        store: u8,
        /// As it says.
        found: u64,
        /// As the pool was configured.
        configured: u64,
    },
    /// Its superblock is damaged.
    #[error("the superblock of store {0} is damaged")]
    Damaged(u8),
    /// The namespace ends before the store does.
    #[error(
        "store {store} has {capacity} pages, but its last cannot be read ({source}); was it cut \
         short?"
    )]
    Truncated {
        /// The store's number.
        store: u8,
        /// As its superblock says.
        capacity: u64,
        /// Why not.
        source: FixError,
    },
    /// A capacity that no store can have.
    #[error("a store of {0} pages; 3 to 2^40 are possible")]
    Capacity(u64),
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The superblock could not be written.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// Others have changed the superblock at the same time, again and again.
    #[error(
        "the superblock of store {0} was changed by others each time that it was to be written"
    )]
    Contended(u8),
}

/// Why a store was not closed in an orderly way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseError {
    /// Unused pages could not be given back.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// Changed pages could not be written.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// The superblock could not be changed.
    #[error(transparent)]
    Superblock(#[from] OpenError),
}
