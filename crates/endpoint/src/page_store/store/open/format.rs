//! Formatting a store: its superblock is written, and all pages are free.

use crate::page_store::directory::Directory;
use crate::page_store::store::OpenError;
use crate::page_store::store::layout::{StoreLayout, superblock_of};
use crate::page_store::store::persist::{Change, Persist};
use crate::page_store::store::superblock::Superblock;
use crate::page_store::{PageGuard, Worker};
use rackweave_wire::fabric::page::PageId;

/// The parameters of a new store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatOptions {
    /// The store's number, which is part of its pages' ids.
    pub store: u8,
    /// The number of pages that fit in its namespace.
    pub capacity: u64,
    /// A random number that distinguishes this store from others; zero counts as one.
    pub identity: u64,
}

/// Creates a store. See [`PageStore::format`](crate::page_store::PageStore::format).
#[derive(Debug)]
pub struct Formatting {
    pub(super) persist: Persist,
    format: Format,
}

#[derive(Debug)]
pub(super) struct Format {
    pub(super) superblock: Superblock,
    pub(super) store: u8,
    pub(super) is_made: bool,
}

impl Formatting {
    /// Starts.
    ///
    /// # Errors
    /// If the capacity is out of range.
    pub fn new(options: FormatOptions, page_size: u32) -> Result<Self, OpenError> {
        let FormatOptions {
            store,
            capacity,
            identity,
        } = options;
        let least = StoreLayout::CAPACITY_MIN;
        if capacity < least || PageId::new(store, capacity - 1).is_none() {
            return Err(OpenError::Capacity(capacity));
        }
        let superblock = Superblock {
            page_size,
            capacity,
            identity: identity.max(1),
            generation: 0,
            clean: false,
            // A worker that opens it before it is durable, or after that has failed, makes it
            // durable.
            marked: false,
        };
        Ok(Self {
            persist: Persist::unchecked(superblock_of(store)),
            format: Format {
                superblock,
                store,
                is_made: false,
            },
        })
    }

    /// Continues, until there is the new store's superblock or an error.
    ///
    /// # Errors
    /// If the superblock cannot be written. The device then has the old store or the new one.
    pub fn poll<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<Superblock, OpenError>> {
        let done = self.persist.poll(worker, &mut self.format)?;
        let store = self.format.store;
        Some(match done {
            Ok(_) => Ok(self.format.superblock),
            Err(failure) => Err(OpenError::of(store, failure)),
        })
    }
}

impl Change for Format {
    fn make(&mut self, guard: &mut PageGuard) -> bool {
        let before = Superblock::parse(&guard.data().to_vec()).ok();
        if let Some(before) = before.filter(|_| !self.is_made)
            && before.identity == self.superblock.identity
        {
            // Pages with the previous identity must not be taken for pages of the new store.
            let other = before.identity.rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15;
            self.superblock.identity = other.max(1);
        }
        self.is_made = true;
        // Pages carry it from here on; the guard writes it into this page's header when it is
        // dropped.
        guard
            .pool()
            .set_identity(self.store, self.superblock.identity);
        guard.clear();
        self.superblock.write(guard);
        true
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        // Other workers may have opened it already.
        let layout = |superblock: &Superblock| superblock.layout(self.store);
        Superblock::parse(bytes).is_ok_and(|found| layout(&found) == layout(&self.superblock))
    }
}
