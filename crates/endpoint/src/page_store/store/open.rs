//! Creating, opening and closing a store: machines, and the blocking calls.
//!
//! A worker that opens a closed store marks it open, and continues when the mark is durable:
//! nothing in the store is changed before. Another worker that opens it meanwhile finds the mark,
//! and also makes it durable as long as the mark does not say that it is. The last step of closing
//! removes the mark, when everything else is durable.

mod format;

pub use format::{FormatOptions, Formatting};

use super::layout::{StoreLayout, superblock_of};
use super::persist::{Change, Failure, Persist};
use super::superblock::{Superblock, Unfit};
use super::{CloseError, OpenError, PageStore};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, PageGuard, Worker};
use rackweave_wire::fabric::page::PageId;

/// Opens a store. See [`PageStore::open`].
#[derive(Debug)]
pub struct Opening {
    store: u8,
    found: Option<Superblock>,
    step: OpenStep,
}

#[derive(Debug)]
enum OpenStep {
    Begin,
    Look(Fix),
    /// The superblock is to state that the store is open, and then that this is durable.
    Mark(Persist, Mark),
    /// Checks whether the last page exists.
    Last(Fix),
}

impl OpenStep {
    fn mark(store: u8, mark: Mark) -> Self {
        Self::Mark(Persist::unchecked(superblock_of(store)), mark)
    }
}

impl Opening {
    /// Starts.
    pub fn new(store: u8) -> Self {
        Self {
            store,
            found: None,
            step: OpenStep::Begin,
        }
    }

    /// Continues, until there is the superblock as it was found, or an error.
    ///
    /// # Errors
    /// As for [`PageStore::open`].
    pub fn poll<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<Superblock, OpenError>> {
        loop {
            match self.step(worker)? {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn step<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<Option<Superblock>, OpenError>> {
        let (store, page) = (self.store, superblock_of(self.store));
        let next = match &mut self.step {
            OpenStep::Begin => {
                let fix = worker.try_fix_in_time(page, Mode::Shared, false);
                fix.map(OpenStep::Look).map_err(OpenError::from)
            }
            OpenStep::Look(fix) => {
                let guard = match worker.take(*fix)? {
                    Ok(guard) => guard,
                    Err(error) => return Some(Err(error.into())),
                };
                match look(store, &guard) {
                    Ok(found) => {
                        self.found = Some(found);
                        worker.pool().set_identity(store, found.identity);
                        match found.marked {
                            true => self.last(worker),
                            false => Ok(OpenStep::mark(store, Mark::Open)),
                        }
                    }
                    Err(error) => Err(error),
                }
            }
            OpenStep::Mark(persist, mark) => match (persist.poll(worker, mark)?, *mark) {
                (Ok(true), Mark::Open) => Ok(OpenStep::mark(store, Mark::Durable)),
                (Ok(true), _) => self.last(worker),
                // Another worker has marked it, or it was lost and is now the version at home.
                (Ok(false), _) => Ok(OpenStep::Begin),
                (Err(failure), _) => Err(OpenError::of(store, failure)),
            },
            OpenStep::Last(fix) => {
                let last = worker.take(*fix)?.map(|_| ());
                return Some(self.opened(last).map(Some));
            }
        };
        Some(next.map(|step| {
            self.step = step;
            None
        }))
    }

    fn last<D: Directory>(&self, worker: &mut Worker<D>) -> Result<OpenStep, OpenError> {
        let capacity = self.found.map_or(0, |found| found.capacity);
        let last = PageId::new(self.store, capacity.saturating_sub(1));
        let last = last.filter(|_| capacity >= StoreLayout::CAPACITY_MIN);
        let last = last.ok_or(OpenError::Capacity(capacity))?;
        let fix = worker.try_fix_in_time(last, Mode::Shared, true)?;
        Ok(OpenStep::Last(fix))
    }

    fn opened(&self, last: Result<(), FixError>) -> Result<Superblock, OpenError> {
        let found = self.found.ok_or(OpenError::Damaged(self.store))?;
        match last {
            // It exists, even if its content is wrong.
            Ok(()) | Err(FixError::Corrupt { .. } | FixError::WrongPage { .. }) => Ok(found),
            Err(FixError::Lost(_)) => Ok(found),
            Err(source @ (FixError::NoSuchPage(_) | FixError::Storage { .. })) => {
                Err(OpenError::Truncated {
                    store: self.store,
                    capacity: found.capacity,
                    source,
                })
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// The superblock, if it is that of a store that fits the pool.
fn look(store: u8, guard: &PageGuard) -> Result<Superblock, OpenError> {
    let config = guard.pool().config();
    let superblock = Superblock::parse(&guard.data().to_vec()).map_err(|unfit| match unfit {
        Unfit::Blank if guard.is_blank() => OpenError::Blank(store),
        Unfit::Magic(found) => OpenError::NoStore { store, found },
        Unfit::Format(found) => OpenError::Format { store, found },
        Unfit::Blank | Unfit::Damaged => OpenError::Damaged(store),
    })?;
    let configured = guard.pool().page_size(store);
    if superblock.page_size != configured {
        return Err(OpenError::PageSize {
            store,
            found: superblock.page_size,
            configured,
        });
    }
    if config.store_id != 0 && config.store_id != superblock.identity {
        return Err(OpenError::Identity {
            store,
            found: superblock.identity,
            configured: config.store_id,
        });
    }
    Ok(superblock)
}

/// The state to be written into a superblock.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// The store is open.
    Open,
    /// That is durable. Writing it home keeps a crash of this node from losing page 0.
    Durable,
    /// The store is closed.
    Closed,
}

impl Change for Mark {
    fn make(&mut self, guard: &mut PageGuard) -> bool {
        let Ok(mut superblock) = Superblock::parse(&guard.data().to_vec()) else {
            return false;
        };
        let Superblock { clean, marked, .. } = superblock;
        let makes_sense = match self {
            Self::Open => clean || !marked,
            Self::Durable => !clean,
            Self::Closed => true,
        };
        if makes_sense {
            superblock.clean = matches!(self, Self::Closed);
            superblock.marked = matches!(self, Self::Durable);
            superblock.generation += u64::from(superblock.clean && !clean);
            superblock.write(guard);
        }
        makes_sense
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        Superblock::parse(bytes).is_ok_and(|superblock| match self {
            Self::Open => !superblock.clean,
            Self::Durable => superblock.marked,
            Self::Closed => superblock.clean,
        })
    }
}

/// Marks a store as closed: the last operation on it. See [`PageStore::close`].
#[derive(Debug)]
pub struct Closing {
    persist: Persist,
    store: u8,
}

impl Closing {
    /// Starts. Everything else must be durable.
    pub fn new(store: u8) -> Self {
        Self {
            persist: Persist::unchecked(superblock_of(store)),
            store,
        }
    }

    /// Continues, until the store is closed or there is an error.
    ///
    /// # Errors
    /// If the superblock cannot be written.
    pub fn poll<D: Directory>(&mut self, worker: &mut Worker<D>) -> Option<Result<(), OpenError>> {
        let done = self.persist.poll(worker, &mut Mark::Closed)?;
        Some(match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpenError::Damaged(self.store)),
            Err(failure) => Err(OpenError::of(self.store, failure)),
        })
    }
}

impl OpenError {
    fn of(store: u8, failure: Failure) -> Self {
        match failure {
            Failure::Fix(error) => error.into(),
            Failure::Flush(error) => error.into(),
            Failure::Contended => Self::Contended(store),
        }
    }
}

impl<D: Directory> PageStore<D> {
    /// Creates a store, whatever the device contained before, and opens it. All pages but
    /// superblock and maps are free, and pages of a previous store read as zeroes; no pool may
    /// contain any of them.
    ///
    /// One page is written. After a crash during the call the device has the old store or the new
    /// one.
    ///
    /// # Errors
    /// If the capacity is out of range, or the superblock cannot be written.
    pub fn format(&mut self, options: FormatOptions) -> Result<(), OpenError> {
        let mut formatting = Formatting::new(options, self.pool().page_size(options.store))?;
        self.leave();
        let superblock = self.wait(|worker| formatting.poll(worker))?;
        self.enter(superblock.layout(options.store), true);
        Ok(())
    }

    /// Opens a store, and returns its superblock as it was found: [`Superblock::clean`] tells
    /// whether it was closed. If the pool was configured with an identity, it must be this store's.
    ///
    /// Pages that this worker has reserved in another store are returned.
    ///
    /// # Errors
    /// If there is no store, or not the expected one, or it is damaged.
    pub fn open(&mut self, store: u8) -> Result<Superblock, OpenError> {
        self.leave();
        let mut opening = Opening::new(store);
        let found = self.wait(|worker| opening.poll(worker))?;
        self.enter(found.layout(store), false);
        Ok(found)
    }

    /// Returns unused pages, writes everything home, and marks the store as closed when all that is
    /// durable. Call this on one worker of the rack when all others have [`PageStore::retire`]d and
    /// all other pools have been flushed; to continue, open the store again.
    ///
    /// # Errors
    /// If not everything could be written. The store is then not marked as closed.
    pub fn close(&mut self) -> Result<(), CloseError> {
        self.retire()?;
        self.flush()?;
        if let Some(store) = self.opened() {
            let mut closing = Closing::new(store);
            self.wait(|worker| closing.poll(worker))?;
            self.leave();
        }
        // It is closed, whatever else is in flight.
        let _settled = self.settle();
        Ok(())
    }
}
