//! A blocking worker: a thread that waits for a page drives the rack.
//!
//! [`PageStore`] is for one thread. [`superblock`] defines a store, [`layout`] the positions of its
//! maps, [`map`] the content of a map, and [`allocate`] how pages are handed out so that no crash
//! makes a page be handed out twice. The calls are implemented by machines that other code can poll
//! too: [`Allocator`], [`Freeing`], [`Formatting`], [`Opening`], [`Closing`].
//!
//! The release of dropped guards and the background work advance only while a thread waits in one
//! of these calls or in [`PageStore::settle`], which must be called before a thread idles or ends.
//!
//! Every call ends. A call that waits for a response ends with [`FixError::Gone`] after the
//! patience of the pool; one that waits for latches of others ends with [`FixError::TimedOut`]
//! after twice that. A flush continues as long as pages are being written.

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

/// A blocking worker.
pub struct PageStore<D: Directory> {
    worker: Worker<D>,
    access: Arc<dyn NodeAccess>,
    /// The allocator of the store that was opened or formatted last.
    allocator: Option<Allocator>,
}

impl<D: Directory> PageStore<D> {
    /// A worker that waits through `access`.
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

    /// The worker, for starting operations on it.
    pub fn worker_mut(&mut self) -> &mut Worker<D> {
        &mut self.worker
    }

    /// The node access through which it waits.
    pub fn access(&self) -> &Arc<dyn NodeAccess> {
        &self.access
    }

    /// The store that was opened or formatted last, in which pages are allocated.
    pub fn opened(&self) -> Option<u8> {
        self.layout().map(|layout| layout.store)
    }

    /// The layout of that store.
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
    /// If the page is not obtained within twice the patience of the pool.
    ///
    /// # Panics
    /// In debug builds if this worker has already fixed it in a conflicting mode.
    pub fn fix(&mut self, page: PageId, mode: Mode) -> Result<PageGuard, FixError> {
        let fix = self.worker.fix(page, mode);
        self.worker.set_limit(fix, self.pool().config().limit());
        self.wait(|worker| worker.take(fix))
    }

    /// Fixes a page in order to rewrite it completely: see [`Worker::restore`].
    ///
    /// # Errors
    /// If the page cannot be obtained; [`FixError::Conflict`] if this worker has already fixed it.
    pub fn restore(&mut self, page: PageId) -> Result<PageGuard, FixError> {
        let fix = self.worker.restore(page)?;
        self.worker.set_limit(fix, self.pool().config().limit());
        self.wait(|worker| worker.take(fix))
    }

    /// Releases a guard's latch, and waits until the directory has responded, within the time limit
    /// of calls.
    ///
    /// # Errors
    /// If the change was not accepted, or no response comes.
    pub fn commit(&mut self, guard: PageGuard) -> Result<(), CommitError> {
        let (commit, end) = (guard.commit(), self.end());
        self.wait(|worker| {
            let late = || (worker.now() >= end).then(|| Err(commit.late()));
            commit.outcome().or_else(late)
        })
    }

    /// Starts to fetch a page into the pool: see [`Worker::prefetch`].
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

    /// Writes home all changed pages of the node's pool: see [`Worker::flush`].
    ///
    /// # Errors
    /// If a page could not be written. The others were.
    pub fn flush(&mut self) -> Result<Flushed, FlushError> {
        let flush = self.worker.flush();
        self.wait(|worker| worker.take_flush(flush))
    }

    /// Waits until no operation is in flight and all latches of dropped guards have been released,
    /// for at most twice the patience of the pool.
    ///
    /// [`Worker::losses`] returns the changes that the directory did not accept.
    ///
    /// # Errors
    /// [`FixError::Gone`] if the directory does not respond, [`FixError::NotLogged`] if the
    /// engine's log makes no progress, [`FixError::TimedOut`] if a pending fix waits for a latch.
    /// Operations in flight continue when this or another worker of the node is polled. A latch
    /// stays with the node until it is released or the node has died.
    pub fn settle(&mut self) -> Result<(), FixError> {
        self.settle_until(self.end())
    }

    /// The same with an explicit deadline.
    ///
    /// # Errors
    /// As for [`PageStore::settle`].
    pub fn settle_until(&mut self, end: Instant) -> Result<(), FixError> {
        self.wait(|worker| worker.settled(end))
    }

    /// The deadline of a call that starts now.
    fn end(&self) -> Instant {
        self.access.now() + self.pool().config().limit()
    }

    /// Advances pending operations once.
    pub fn poll(&mut self) -> bool {
        let (worker, now) = (&mut self.worker, self.access.now());
        // Before, and not under the NIC's lock: it may take as long as a drive access.
        worker.poll_log(now);
        let mut happened = false;
        self.access
            .act(&mut |verbs| happened = worker.poll_rest(now, verbs));
        happened
    }

    /// Polls the worker and drives the rack until `ready` returns a value.
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
