//! A worker that waits: whoever waits for a page drives the rack.
//!
//! [`PageStore`] is for one thread. [`superblock`] says what a store is, [`layout`] where its maps
//! are, [`map`] what a map is, [`allocate`] how pages are handed out so that no crash has one
//! handed out twice. What the calls do is done by machines that others can poll: [`Allocator`],
//! [`Freeing`], [`Formatting`], [`Opening`], [`Closing`].
//!
//! What a guard's drop leaves to be done, and what goes on behind the fixes, goes on while somebody
//! waits here, or in [`PageStore::settle`], which is to be called before a thread rests or ends.
//!
//! Every call ends. What waits for an answer ends with [`FixError::Gone`] after the patience of the
//! pool, what waits for others' latches with [`FixError::TimedOut`] after twice that. A flush goes
//! on as long as pages are written.

mod allocate;
mod error;
mod free;
mod layout;
mod map;
mod open;
mod persist;
mod reserve;
mod superblock;
mod usage;

pub use allocate::Allocator;
pub use error::{AllocateError, CloseError, MapError, OpenError};
pub use free::Freeing;
pub use layout::StoreLayout;
pub use map::PageState;
pub use open::{Closing, FormatOptions, Formatting, Opening};
pub use superblock::{Superblock, Unfit};
pub use usage::Usage;

use super::directory::{Directory, Mode};
use super::worker::{Flushed, Worker};
use super::{CommitError, FixError, FlushError, PageGuard, Pool};
use rackweave_base::Instant;
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;

pub use rackweave_verbs::NodeAccess;

/// A worker that waits.
pub struct PageStore<D: Directory> {
    worker: Worker<D>,
    access: Arc<dyn NodeAccess>,
    /// Of the store that was opened or formatted last.
    allocator: Option<Allocator>,
}

impl<D: Directory> PageStore<D> {
    /// A worker that waits by way of `access`.
    pub fn new(worker: Worker<D>, access: Arc<dyn NodeAccess>) -> Self {
        Self {
            worker,
            access,
            allocator: None,
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

    /// How it waits.
    pub fn access(&self) -> &Arc<dyn NodeAccess> {
        &self.access
    }

    /// The store that was opened or formatted last: where pages are allocated.
    pub fn opened(&self) -> Option<u8> {
        self.layout().map(|layout| layout.store)
    }

    /// What that store is.
    pub fn layout(&self) -> Option<&StoreLayout> {
        self.allocator.as_ref().map(Allocator::layout)
    }

    /// The node's buffer frames.
    pub fn pool(&self) -> &Arc<Pool> {
        self.worker.pool()
    }

    /// Fixes a page: see [`Worker::fix`].
    ///
    /// # Errors
    /// If the page cannot be had, within twice the patience of the pool.
    ///
    /// # Panics
    /// In debug builds if this worker has fixed it already in a conflicting mode.
    pub fn fix(&mut self, page: PageId, mode: Mode) -> Result<PageGuard, FixError> {
        let fix = self.worker.fix(page, mode);
        self.worker.set_limit(fix, self.pool().config().limit());
        self.wait(|worker| worker.take(fix))
    }

    /// Fixes a page to be written anew as a whole: see [`Worker::restore`].
    ///
    /// # Errors
    /// If the page cannot be had; [`FixError::Conflict`] if this worker has fixed it already.
    pub fn restore(&mut self, page: PageId) -> Result<PageGuard, FixError> {
        let fix = self.worker.restore(page)?;
        self.worker.set_limit(fix, self.pool().config().limit());
        self.wait(|worker| worker.take(fix))
    }

    /// Gives a guard's latch back, and waits until the directory has answered, within the time
    /// limit of calls.
    ///
    /// # Errors
    /// If the change was not taken, or nobody answers.
    pub fn commit(&mut self, guard: PageGuard) -> Result<(), CommitError> {
        let (commit, end) = (guard.commit(), self.end());
        self.wait(|worker| {
            let late = || (worker.now() >= end).then(|| Err(commit.late()));
            commit.outcome().or_else(late)
        })
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

    /// Writes home what is changed in the node's pool: see [`Worker::flush`].
    ///
    /// # Errors
    /// If a page could not be written. The others were.
    pub fn flush(&mut self) -> Result<Flushed, FlushError> {
        let flush = self.worker.flush();
        self.wait(|worker| worker.take_flush(flush))
    }

    /// Waits until nothing is under way and all latches of dropped guards have been given back:
    /// twice the patience of the pool at most.
    ///
    /// What the directory did not take of changes, [`Worker::losses`] has.
    ///
    /// # Errors
    /// [`FixError::Gone`] if the directory does not answer, [`FixError::NotLogged`] if the engine's
    /// log stands still, [`FixError::TimedOut`] if a fix that was begun waits for somebody's latch.
    /// Whatever is under way goes on when this or another worker of the node is polled. A latch
    /// stays with the node until it was given back, or the node has died.
    pub fn settle(&mut self) -> Result<(), FixError> {
        self.settle_until(self.end())
    }

    /// The same until another time.
    ///
    /// # Errors
    /// As for [`PageStore::settle`].
    pub fn settle_until(&mut self, end: Instant) -> Result<(), FixError> {
        self.wait(|worker| worker.settled(end))
    }

    /// When a call that begins now has to end.
    fn end(&self) -> Instant {
        self.access.now() + self.pool().config().limit()
    }

    /// Gets on with what is under way, once.
    pub fn poll(&mut self) -> bool {
        let (worker, now) = (&mut self.worker, self.access.now());
        // Before, not under the NIC's lock: it may take as long as a drive does.
        worker.poll_log(now);
        let mut happened = false;
        self.access
            .act(&mut |verbs| happened = worker.poll_rest(now, verbs));
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
            .field("opened", &self.opened())
            .finish_non_exhaustive()
    }
}
