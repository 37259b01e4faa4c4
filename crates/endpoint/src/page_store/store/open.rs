//! Making a store, opening it, closing it.

use super::allocate::Extent;
use super::superblock::{FORMAT, Superblock, Unfit};
use super::{CloseError, Opened, PageStore};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{FixError, FlushError};
use rackweave_wire::fabric::page::PageId;

/// What a new store is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatOptions {
    /// The store's number, by which pages name it.
    pub store: u8,
    /// Pages that its namespace has room for.
    pub capacity: u64,
    /// A random number, by which this store is told from others; zero counts as one.
    pub identity: u64,
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
    #[error("a store of {0} pages; 2 to 2^40 are possible")]
    Capacity(u64),
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The superblock could not be written.
    #[error(transparent)]
    Flush(#[from] FlushError),
}

impl<D: Directory> PageStore<D> {
    /// Makes a store, whatever was there before. All pages but the superblock are free, and pages
    /// of a store that was there before read as zeroes; no pool may have any of them.
    ///
    /// # Errors
    /// If the capacity is out of range, or the superblock cannot be written.
    pub fn format(&mut self, options: FormatOptions) -> Result<(), OpenError> {
        let FormatOptions {
            store,
            capacity,
            identity,
        } = options;
        let identity = identity.max(1);
        if capacity < 2 || PageId::new(store, capacity - 1).is_none() {
            return Err(OpenError::Capacity(capacity));
        }
        let superblock = Superblock {
            page_size: self.pool().config().page_size,
            capacity,
            identity,
            generation: 0,
            next_unused: 1,
            free_first: 0,
            free_count: 0,
        };
        let mut guard = self.fix_unchecked(superblock_of(store), Mode::Exclusive)?;
        // From here on pages bear it; the guard writes it into this page's header when it goes.
        self.pool().set_identity(store, identity);
        let bytes = guard.data_mut();
        bytes.fill(0);
        superblock.emit(bytes);
        drop(guard);
        self.settle();
        self.flush()?;
        self.opened = Some(Opened {
            store,
            identity,
            capacity,
            extent: Extent::default(),
        });
        Ok(())
    }

    /// Opens a store. If the pool was configured with an identity, it has to be this store's.
    ///
    /// # Errors
    /// If there is no store, or another than expected, or it is damaged.
    pub fn open(&mut self, store: u8) -> Result<Superblock, OpenError> {
        let configured = self.pool().config().store_id;
        let guard = self.fix_unchecked(superblock_of(store), Mode::Shared)?;
        let parsed = Superblock::parse(guard.data());
        drop(guard);
        let superblock = parsed.map_err(|unfit| match unfit {
            Unfit::Blank => OpenError::Blank(store),
            Unfit::Magic(found) => OpenError::NoStore { store, found },
            Unfit::Format(found) => OpenError::Format { store, found },
            Unfit::Damaged => OpenError::Damaged(store),
        })?;
        let Superblock {
            page_size: found,
            capacity,
            identity,
            ..
        } = superblock;
        let page_size = self.pool().config().page_size;
        if found != page_size {
            return Err(OpenError::PageSize {
                store,
                found,
                configured: page_size,
            });
        }
        if configured != 0 && configured != identity {
            return Err(OpenError::Identity {
                store,
                found: identity,
                configured,
            });
        }
        self.pool().set_identity(store, identity);
        self.opened = Some(Opened {
            store,
            identity,
            capacity,
            extent: Extent::default(),
        });
        let last = PageId::new(store, capacity.saturating_sub(1));
        let last = last
            .filter(|last| last.index() > 0)
            .ok_or(OpenError::Capacity(capacity))?;
        match self.fix(last, Mode::Shared) {
            // Whatever is wrong with it, it is there.
            Ok(_) | Err(FixError::Corrupt { .. } | FixError::WrongPage { .. }) => {}
            Err(FixError::Lost(_)) => {}
            Err(source @ (FixError::NoSuchPage(_) | FixError::Storage { .. })) => {
                return Err(OpenError::Truncated {
                    store,
                    capacity,
                    source,
                });
            }
            Err(other) => return Err(other.into()),
        }
        Ok(superblock)
    }

    /// Gives back what was not used and writes everything home. The worker can go on; it is to be
    /// called on one worker of the rack when all others have [`PageStore::retire`]d.
    ///
    /// # Errors
    /// If not everything could be written.
    pub fn close(&mut self) -> Result<(), CloseError> {
        self.retire()?;
        self.flush()?;
        if let Some(store) = self.opened.as_ref().map(|opened| opened.store) {
            self.change_superblock(store, |superblock| superblock.generation += 1)?;
            self.settle();
            self.flush()?;
        }
        Ok(())
    }
}

/// Where the superblock of a store is.
pub(super) fn superblock_of(store: u8) -> PageId {
    PageId::new(store, 0).unwrap_or_default()
}
