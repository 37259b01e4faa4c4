//! A worker that waits: whoever waits for a page drives the rack.
//!
//! [`PageStore`] is for one thread. [`superblock`] and [`allocate`] say which pages are in use.
//!
//! What a guard's drop leaves to be done, and what goes on behind the fixes, goes on while somebody
//! waits here, or in [`PageStore::settle`], which is to be called before a thread rests or ends.

mod allocate;
mod open;
mod superblock;

pub use open::{FormatOptions, OpenError};
pub use superblock::Superblock;

use super::directory::{Directory, Mode};
use super::worker::{Flushed, Worker};
use super::{FixError, FlushError, PageGuard, Peek, Pool};
use allocate::Extent;
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;

pub use rackweave_verbs::NodeAccess;

/// Why a page could not be allocated or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllocateError {
    /// No page is free.
    #[error("all {capacity} pages of the store are in use")]
    StoreFull {
        /// Pages of the store.
        capacity: u64,
    },
    /// The page is free already.
    #[error("{0} is free already")]
    NotInUse(PageId),
    /// No page of this store, or the superblock.
    #[error("{0} cannot be freed: the store has pages 1 to {last}", last = .1 - 1)]
    NoSuchPage(PageId, u64),
    /// The superblock, or the list of free pages, is damaged.
    #[error("{0} is not what the list of free pages says; the store is damaged")]
    Damaged(PageId),
    /// No store was opened or formatted.
    #[error("no store is open")]
    NotOpen,
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
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
}

/// A worker that waits.
pub struct PageStore<D: Directory> {
    worker: Worker<D>,
    access: Arc<dyn NodeAccess>,
    opened: Option<Opened>,
}

/// A store that was opened or formatted.
#[derive(Debug)]
struct Opened {
    store: u8,
    identity: u64,
    capacity: u64,
    extent: Extent,
}

impl<D: Directory> PageStore<D> {
    /// A worker that waits by way of `access`.
    pub fn new(worker: Worker<D>, access: Arc<dyn NodeAccess>) -> Self {
        Self {
            worker,
            access,
            opened: None,
        }
    }

    /// The worker.
    pub fn worker(&self) -> &Worker<D> {
        &self.worker
    }

    /// The worker, to begin something on it.
    pub fn worker_mut(&mut self) -> &mut Worker<D> {
        &mut self.worker
    }

    /// The store that was opened or formatted last: where pages are allocated.
    pub fn opened(&self) -> Option<u8> {
        self.opened.as_ref().map(|opened| opened.store)
    }

    /// The node's buffer frames.
    pub fn pool(&self) -> &Arc<Pool> {
        self.worker.pool()
    }

    /// Fixes a page: see [`Worker::fix`].
    ///
    /// # Errors
    /// If the page cannot be had.
    ///
    /// # Panics
    /// In debug builds if this worker has fixed it already in a conflicting mode.
    pub fn fix(&mut self, page: PageId, mode: Mode) -> Result<PageGuard, FixError> {
        let fix = self.worker.fix(page, mode);
        self.wait(|worker| worker.take(fix))
    }

    fn fix_unchecked(&mut self, page: PageId, mode: Mode) -> Result<PageGuard, FixError> {
        let fix = self.worker.fix_unchecked(page, mode);
        self.wait(|worker| worker.take(fix))
    }

    /// Drops a guard and waits until its latch has been given back, or another worker of the node
    /// has taken that upon it.
    pub fn unfix(&mut self, guard: PageGuard) {
        drop(guard);
        self.settle();
    }

    /// Begins to bring a page into the pool: see [`Worker::prefetch`].
    pub fn prefetch(&mut self, page: PageId) {
        self.worker.prefetch(page);
        self.poll();
    }

    /// Whether the guard's version is still the newest: see [`Worker::validate`].
    ///
    /// # Errors
    /// If the directory cannot tell.
    pub fn validate(&mut self, guard: &PageGuard) -> Result<bool, FixError> {
        let validation = self.worker.validate(guard);
        self.wait(|worker| worker.take_validation(validation))
    }

    /// Reads a page without a latch, wherever it is: if it is not in the pool it is fixed first.
    /// See [`Worker::read_optimistic`].
    ///
    /// # Errors
    /// If the page cannot be had.
    pub fn read_optimistic<R>(
        &mut self,
        page: PageId,
        mut read: impl FnMut(&Peek<'_>) -> R,
    ) -> Result<(R, u64), FixError> {
        loop {
            if let Some(result) = self.worker.read_optimistic(page, &mut read) {
                return Ok(result);
            }
            let guard = self.fix(page, Mode::Shared)?;
            if let Some(result) = self.worker.read_optimistic(page, &mut read) {
                return Ok(result);
            }
            drop(guard);
        }
    }

    /// Writes home what is changed in the node's pool: see [`Worker::flush`].
    ///
    /// # Errors
    /// If a page could not be written. The others were.
    pub fn flush(&mut self) -> Result<Flushed, FlushError> {
        let flush = self.worker.flush();
        self.wait(|worker| worker.take_flush(flush))
    }

    /// Waits until nothing is under way and all latches of dropped guards have been given back.
    pub fn settle(&mut self) {
        self.wait(|worker| worker.is_idle().then_some(()));
    }

    /// Gets on with what is under way, once.
    pub fn poll(&mut self) -> bool {
        let (worker, now) = (&mut self.worker, self.access.now());
        let mut happened = false;
        self.access
            .act(&mut |verbs| happened = worker.poll(now, verbs));
        happened
    }

    /// Polls the worker and drives the rack until `ready` gives something.
    fn wait<T>(&mut self, mut ready: impl FnMut(&mut Worker<D>) -> Option<T>) -> T {
        let mut idle_rounds = 0;
        loop {
            let happened = self.poll();
            if let Some(value) = ready(&mut self.worker) {
                return value;
            }
            if self.access.drive() || happened {
                idle_rounds = 0;
            } else {
                self.access.relax(idle_rounds);
                idle_rounds = idle_rounds.saturating_add(1);
            }
        }
    }
}

impl<D: Directory> core::fmt::Debug for PageStore<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PageStore")
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}
