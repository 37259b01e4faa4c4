//! Making a store, opening it, closing it: machines, and the calls that wait for them.
//!
//! Whoever opens a store that was closed marks it open, and goes on when that is durable: nothing
//! of it is changed before. Others who open it meanwhile find the mark, and see to it as well as
//! long as it does not say that it is durable. The mark is taken away as the last thing that
//! closing does, when everything else is durable.

use super::layout::{StoreLayout, superblock_of};
use super::persist::{Change, Failure, Persist};
use super::superblock::{Superblock, Unfit};
use super::{CloseError, OpenError, PageStore};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, PageGuard, Worker};
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

/// Makes a store. See [`PageStore::format`].
#[derive(Debug)]
pub struct Formatting {
    persist: Persist,
    format: Format,
}

#[derive(Debug)]
struct Format {
    superblock: Superblock,
    store: u8,
    is_made: bool,
}

impl Formatting {
    /// Begins.
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
            // Whoever opens it before it is durable, or when it could not be made so, sees to that.
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

    /// Goes on, until there is the new store's superblock or an error.
    ///
    /// # Errors
    /// If the superblock cannot be written. The store is then what it was, or the new one.
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
            // What bears the identity of before must not be taken for pages of the new store.
            let other = before.identity.rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15;
            self.superblock.identity = other.max(1);
        }
        self.is_made = true;
        // Pages bear it from here on; the guard writes it into this page's header when it goes.
        guard
            .pool()
            .set_identity(self.store, self.superblock.identity);
        guard.clear();
        self.superblock.write(guard);
        true
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        // Others may have opened it already.
        let layout = |superblock: &Superblock| superblock.layout(self.store);
        Superblock::parse(bytes).is_ok_and(|found| layout(&found) == layout(&self.superblock))
    }
}

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
    /// The superblock is to say that the store is open, and then that this is durable.
    Mark(Persist, Mark),
    /// Is the last page there?
    Last(Fix),
}

impl OpenStep {
    fn mark(store: u8, mark: Mark) -> Self {
        Self::Mark(Persist::unchecked(superblock_of(store)), mark)
    }
}

impl Opening {
    /// Begins.
    pub fn new(store: u8) -> Self {
        Self {
            store,
            found: None,
            step: OpenStep::Begin,
        }
    }

    /// Goes on, until there is the superblock as it was found, or an error.
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
                // Others have marked it, or it was lost and is what it was at home.
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
            // Whatever is wrong with it, it is there.
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

/// The superblock, if it is of a store that fits the pool.
fn look(store: u8, guard: &PageGuard) -> Result<Superblock, OpenError> {
    let config = guard.pool().config();
    let superblock = Superblock::parse(&guard.data().to_vec()).map_err(|unfit| match unfit {
        Unfit::Blank if guard.is_blank() => OpenError::Blank(store),
        Unfit::Magic(found) => OpenError::NoStore { store, found },
        Unfit::Format(found) => OpenError::Format { store, found },
        Unfit::Blank | Unfit::Damaged => OpenError::Damaged(store),
    })?;
    if superblock.page_size != config.page_size {
        return Err(OpenError::PageSize {
            store,
            found: superblock.page_size,
            configured: config.page_size,
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

/// What a superblock is to say.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// The store is open.
    Open,
    /// That is durable. That it is written home keeps a crash of this node from taking page 0 with
    /// it.
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

/// Marks a store as closed: the last thing that is done with it. See [`PageStore::close`].
#[derive(Debug)]
pub struct Closing {
    persist: Persist,
    store: u8,
}

impl Closing {
    /// Begins. Everything else has to be durable.
    pub fn new(store: u8) -> Self {
        Self {
            persist: Persist::unchecked(superblock_of(store)),
            store,
        }
    }

    /// Goes on, until the store is closed or there is an error.
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
    /// Makes a store, whatever was there before, and opens it. All pages but superblock and maps
    /// are free, and pages of a store that was there before read as zeroes; no pool may have any
    /// of them.
    ///
    /// One page is written. After a crash in the middle the store is what it was, or the new one.
    ///
    /// # Errors
    /// If the capacity is out of range, or the superblock cannot be written.
    pub fn format(&mut self, options: FormatOptions) -> Result<(), OpenError> {
        let mut formatting = Formatting::new(options, self.pool().config().page_size)?;
        self.leave();
        let superblock = self.wait(|worker| formatting.poll(worker))?;
        self.enter(superblock.layout(options.store), true);
        Ok(())
    }

    /// Opens a store, and returns its superblock as it was found: [`Superblock::clean`] says
    /// whether it was closed. If the pool was configured with an identity, it has to be this
    /// store's.
    ///
    /// What another store has set aside for this worker is given back.
    ///
    /// # Errors
    /// If there is no store, or another than expected, or it is damaged.
    pub fn open(&mut self, store: u8) -> Result<Superblock, OpenError> {
        self.leave();
        let mut opening = Opening::new(store);
        let found = self.wait(|worker| opening.poll(worker))?;
        self.enter(found.layout(store), false);
        Ok(found)
    }

    /// Gives back what was not used, writes everything home, and when all that is durable marks
    /// the store as closed. To be called on one worker of the rack when all others have
    /// [`PageStore::retire`]d and all other pools have been flushed; whoever goes on opens the
    /// store again.
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
        // It is closed, whatever else is under way.
        let _settled = self.settle();
        Ok(())
    }
}
