//! Errors of a store.

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
    /// No page is free in groups whose maps are available.
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
    /// The page is already free.
    #[error("{0} is free already")]
    NotInUse(PageId),
    /// Not a page of this store, or the superblock, or a map.
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
    /// The map, or a page of its group, could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The map could not be made durable.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// The page is not a map.
    #[error("it is no map")]
    Damaged,
    /// Other workers changed it concurrently, again and again.
    #[error("it was changed by others each time that it was to be written")]
    Contended,
}

/// Why a store could not be created or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The device is blank.
    #[error("store {0} is blank; format it first")]
    Blank(u8),
    /// Something other than a store was found.
    #[error("store {store} is none of ours: its page 0 begins with {found:#018x}")]
    NoStore {
        /// The store's number.
        store: u8,
        /// The first eight bytes.
        found: u64,
    },
    /// The store has another format.
    #[error("store {store} has format {found}, this program has format {FORMAT}")]
    Format {
        /// The store's number.
        store: u8,
        /// The format in the superblock.
        found: u32,
    },
    /// The store has pages of another size.
    #[error(
        "store {store} has pages of {found} bytes, the pool has {configured}; set page size {found}"
    )]
    PageSize {
        /// The store's number.
        store: u8,
        /// The page size of the store.
        found: u32,
        /// The page size of the pool.
        configured: u32,
    },
    /// It is not the store that the configuration names.
    #[error("store {store} is {found:#018x}, the configuration names {configured:#018x}")]
    Identity {
        /// The store's number.
        store: u8,
        /// The identity in the superblock.
        found: u64,
        /// The identity in the configuration of the pool.
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
        /// The capacity in the superblock.
        capacity: u64,
        /// Why the last page cannot be read.
        source: FixError,
    },
    /// The capacity is out of range for a store.
    #[error("a store of {0} pages; 3 to 2^40 are possible")]
    Capacity(u64),
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The superblock could not be written.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// Other workers changed the superblock concurrently, again and again.
    #[error(
        "the superblock of store {0} was changed by others each time that it was to be written"
    )]
    Contended(u8),
}

/// Why a store was not closed cleanly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseError {
    /// Unused pages could not be returned.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// Changed pages could not be written.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// The superblock could not be changed.
    #[error(transparent)]
    Superblock(#[from] OpenError),
}
