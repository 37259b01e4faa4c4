//! A worker that is lent to a thread, or to the tasks of an executor.

mod fixing;
mod scan;

pub use scan::Scan;

use super::guard::{ReadGuard, WriteGuard};
use super::{PageError, PageService};
use crate::Node;
use crate::services::wait_within;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{
    AllocateError, FixError, Flushed, FormatOptions, Loss, Mode, NodeAccess, OpenError, PageState,
    PageStore, Peek, Pool, Statistics, Superblock, Usage,
};
use rackweave_wire::fabric::page::PageId;
use std::sync::{Arc, Mutex, PoisonError};

/// Access to pages at one node: for one thread, or for the tasks of one executor thread. Threads
/// that share it wait for each other's calls.
///
/// Every call that waits has a time limit, by default that of the service. The limit of an `async`
/// call counts from the first poll.
///
/// Deferred work of guards, such as giving back the latches of dropped ones, is done while this or
/// another worker of the node waits or polls: a thread that pauses calls [`PageWorker::settle`]
/// first, or drops its worker. A dropped worker ends pending work and goes back to its service
/// after its last guard, within the time limit of the service; latches that could not be given back
/// by then are given back when a worker of the node is polled again.
#[derive(Debug)]
pub struct PageWorker(Arc<Lent>);

/// A worker, shared by its user and its guards.
pub(super) struct Lent {
    /// `Some` until it is dropped.
    store: Mutex<Option<PageStore<Channel>>>,
    service: PageService,
    node: Node,
    access: Arc<dyn NodeAccess>,
}

impl PageWorker {
    pub(super) fn new(service: PageService, node: Node, store: PageStore<Channel>) -> Self {
        Self(Arc::new(Lent {
            access: Arc::clone(store.access()),
            store: Mutex::new(Some(store)),
            service,
            node,
        }))
    }

    /// Its node.
    pub fn node(&self) -> NodeId {
        self.0.node.id()
    }

    /// The service that owns it.
    pub fn service(&self) -> &PageService {
        &self.0.service
    }

    /// Fixes a page for reading: a version that was the newest at some moment of the call.
    ///
    /// # Errors
    /// If the page cannot be fixed; [`FixError::Conflict`] if a guard of this worker holds it for
    /// changing.
    pub fn read(&self, page: PageId) -> Result<ReadGuard, PageError> {
        self.read_within(page, self.0.time_limit())
    }

    /// The same with another time limit.
    ///
    /// # Errors
    /// As for [`PageWorker::read`].
    pub fn read_within(&self, page: PageId, limit: Duration) -> Result<ReadGuard, PageError> {
        if let Some(leased) = self.leased(page) {
            return Ok(leased);
        }
        let fixed = self.fixing(limit, move |worker| worker.try_fix(page, Mode::Shared));
        Ok(ReadGuard::new(fixed.wait()?, &self.0))
    }

    /// [`PageWorker::read`] for a task that awaits it. It waits for guards of other tasks of this
    /// worker as for any others.
    pub fn read_async(
        &self,
        page: PageId,
    ) -> impl Future<Output = Result<ReadGuard, PageError>> + Send + use<> {
        let leased = self.leased(page);
        let fixing = self.fixing(self.0.time_limit(), move |worker| {
            Ok(worker.fix_in_turn(page, Mode::Shared))
        });
        let lent = Arc::clone(&self.0);
        async move {
            match leased {
                Some(leased) => Ok(leased),
                None => Ok(ReadGuard::new(fixing.await?, &lent)),
            }
        }
    }

    /// Fixes a page for changing: its newest version, which no other worker in the rack changes
    /// before the guard is dropped.
    ///
    /// # Errors
    /// If the page cannot be fixed; [`FixError::Conflict`] if a guard of this worker holds it
    /// already.
    pub fn write(&self, page: PageId) -> Result<WriteGuard, PageError> {
        self.write_within(page, self.0.time_limit())
    }

    /// The same with another time limit.
    ///
    /// # Errors
    /// As for [`PageWorker::write`].
    pub fn write_within(&self, page: PageId, limit: Duration) -> Result<WriteGuard, PageError> {
        let fixed = self.fixing(limit, move |worker| worker.try_fix(page, Mode::Exclusive));
        Ok(WriteGuard::new(fixed.wait()?, &self.0))
    }

    /// [`PageWorker::write`] for a task that awaits it. It waits for guards of other tasks of this
    /// worker as for any others.
    pub fn write_async(
        &self,
        page: PageId,
    ) -> impl Future<Output = Result<WriteGuard, PageError>> + Send + use<> {
        let fixing = self.fixing(self.0.time_limit(), move |worker| {
            Ok(worker.fix_in_turn(page, Mode::Exclusive))
        });
        let lent = Arc::clone(&self.0);
        async move { Ok(WriteGuard::new(fixing.await?, &lent)) }
    }

    /// Fixes a page to be rewritten as a whole, whatever its contents: what storage returns may be
    /// damaged. The guard shows zeroes, has no LSN, and counts as changed.
    ///
    /// # Errors
    /// As for [`PageWorker::write`].
    pub fn restore(&self, page: PageId) -> Result<WriteGuard, PageError> {
        let fixed = self.fixing(self.0.time_limit(), move |worker| worker.restore(page));
        Ok(WriteGuard::new(fixed.wait()?, &self.0))
    }

    /// Changes a page and commits the change: `change` gets a copy of the bytes after the header,
    /// which is then written back. The time limit covers both steps.
    ///
    /// # Errors
    /// If the page cannot be fixed, or the change was rejected.
    pub fn change<R>(
        &self,
        page: PageId,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, PageError> {
        let (began, limit) = (self.0.node.now(), self.0.time_limit());
        let mut guard = self.write_within(page, limit)?;
        let result = guard.update(0..guard.data().len(), change);
        let took = self.0.node.now().since(began);
        guard.commit_within(limit.saturating_sub(took.into()))?;
        Ok(result)
    }

    /// Reads a page without a latch: see
    /// [`Worker::read_optimistic`](rackweave_endpoint::page_store::Worker::read_optimistic). `None`
    /// if the page is not in this node's memory, or is being changed there.
    pub fn read_optimistic<R>(
        &self,
        page: PageId,
        read: impl FnMut(&Peek<'_>) -> R,
    ) -> Option<(R, u64)> {
        self.with(|store| store.worker().read_optimistic(page, read))
    }

    /// Begins to fetch a page into the node's memory, if there is a free frame.
    pub fn prefetch(&self, page: PageId) {
        self.with(|store| store.prefetch(page));
    }

    /// Writes changed pages in the node's memory to storage, and makes them durable. It continues
    /// as long as pages are written.
    ///
    /// # Errors
    /// If a page could not be written. The others were.
    pub fn flush(&self) -> Result<Flushed, PageError> {
        self.flushing().wait()
    }

    /// [`PageWorker::flush`] for a task that awaits it.
    pub fn flush_async(
        &self,
    ) -> impl Future<Output = Result<Flushed, PageError>> + Send + Unpin + use<> {
        self.flushing()
    }

    /// Allocates a page of the store that this worker has open; its bytes are zero. The allocation
    /// is durable.
    ///
    /// Maps of pages in use, and free pages, that were lost with a node are reverted to their
    /// versions in storage: no allocation is lost by that. If no other page is free, the call waits
    /// while that is not possible yet, within the time limit of the service.
    ///
    /// # Errors
    /// As for [`PageStore::allocate`].
    pub fn allocate(&self) -> Result<PageId, PageError> {
        loop {
            let (result, lost) = self.with(|store| (store.allocate(), store.take_lost()));
            if lost.is_empty() {
                return Ok(result?);
            }
            let limit = match result {
                Ok(_) => Duration::ZERO,
                Err(_) => self.0.time_limit(),
            };
            // If a page was allocated, the next call reports again what is still lost.
            if !self.accept(lost, limit) || result.is_ok() {
                return Ok(result?);
            }
        }
    }

    /// Frees a page: see [`PageStore::free`]. A map that was lost with a node is reverted to its
    /// version in storage, within the time limit.
    ///
    /// # Errors
    /// As for [`PageStore::free`].
    pub fn free(&self, page: PageId) -> Result<(), PageError> {
        let free = || self.with(|store| store.free(page));
        match free() {
            Err(AllocateError::Fix(FixError::Lost(map)))
                if map != page && self.accept(vec![map], self.0.time_limit()) =>
            {
                Ok(free()?)
            }
            freed => Ok(freed?),
        }
    }

    /// Opens a store for the allocations of this worker: see [`PageStore::open`]. A superblock that
    /// was lost with a node is reverted to its version in storage, within the time limit.
    ///
    /// # Errors
    /// As for [`PageStore::open`].
    pub fn open(&self, store: u8) -> Result<Superblock, PageError> {
        let open = || self.with(|pages| pages.open(store));
        match open() {
            Err(OpenError::Fix(FixError::Lost(page)))
                if page.index() == 0 && self.accept(vec![page], self.0.time_limit()) =>
            {
                Ok(open()?)
            }
            opened => Ok(opened?),
        }
    }

    /// Formats a store: see [`PageStore::format`].
    ///
    /// # Errors
    /// As for [`PageStore::format`].
    pub fn format(&self, options: FormatOptions) -> Result<(), PageError> {
        Ok(self.with(|store| store.format(options))?)
    }

    /// Closes the open store: see [`PageStore::close`]. [`PageService::close`] closes all.
    ///
    /// # Errors
    /// As for [`PageStore::close`].
    pub fn close(&self) -> Result<(), PageError> {
        Ok(self.with(PageStore::close)?)
    }

    /// The store that was opened or formatted last, where pages are allocated.
    pub fn opened(&self) -> Option<u8> {
        self.with(|store| store.opened())
    }

    /// Counts the pages of the open store.
    ///
    /// # Errors
    /// As for [`PageStore::usage`].
    pub fn usage(&self) -> Result<Usage, PageError> {
        Ok(self.with(PageStore::usage)?)
    }

    /// The state of a page in the map of pages in use.
    ///
    /// # Errors
    /// As for [`PageStore::page_state`].
    pub fn page_state(&self, page: PageId) -> Result<PageState, PageError> {
        Ok(self.with(|store| store.page_state(page))?)
    }

    /// Waits until nothing is pending and the latches of all dropped guards have been given back.
    ///
    /// # Errors
    /// As for [`PageStore::settle`]. Pending work continues when this or another worker of the node
    /// is polled.
    pub fn settle(&self) -> Result<(), PageError> {
        let end = self.0.node.now() + self.0.time_limit().into();
        Ok(self.with(|store| store.settle_until(end))?)
    }

    /// Advances pending work once. Returns true if anything happened.
    pub fn poll(&self) -> bool {
        self.with(PageStore::poll)
    }

    /// Whether no work is pending: the worker may pause.
    pub fn is_idle(&self) -> bool {
        self.with(|store| store.worker().is_idle())
    }

    /// Whether its node was declared dead: this worker's calls fail, and [`PageService::worker`]
    /// brings the node back and returns another one.
    pub fn is_fenced(&self) -> bool {
        self.with(|store| store.worker().directory().parts().is_fenced())
    }

    /// The node's buffer frames.
    pub fn pool(&self) -> Arc<Pool> {
        self.with(|store| Arc::clone(store.pool()))
    }

    /// Rejected changes of the node whose guards were dropped, since the last call.
    pub fn losses(&self) -> Vec<Loss> {
        self.pool().losses()
    }

    /// The statistics of its calls.
    pub fn statistics(&self) -> Statistics {
        self.with(|store| *store.worker().statistics())
    }

    fn with<R>(&self, act: impl FnOnce(&mut PageStore<Channel>) -> R) -> R {
        self.0.with(act)
    }

    /// Accepts that pages are lost. Returns false if one could not be accepted within the limit.
    fn accept(&self, mut lost: Vec<PageId>, limit: Duration) -> bool {
        let rack = self.service().rack();
        let accepted = wait_within(&self.0.node, limit, || {
            lost.retain(|page| {
                let is_lost = rack
                    .lost_pages()
                    .map_or(true, |known| known.iter().any(|known| known.page == *page));
                is_lost && !rack.accept_loss(*page)
            });
            lost.is_empty().then_some(())
        });
        accepted.is_some()
    }
}

impl Lent {
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut PageStore<Channel>) -> R) -> R {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        act(store.as_mut().expect("it is there until this is dropped"))
    }

    pub(super) fn access(&self) -> Arc<dyn NodeAccess> {
        Arc::clone(&self.access)
    }

    pub(super) fn time_limit(&self) -> Duration {
        self.service.time_limit()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let store = self.store.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(mut store) = store.take() else {
            return;
        };
        store.worker_mut().abandon_all();
        // Pages that were allocated but not handed out are given back if possible, and so are its
        // latches.
        let end = self.node.now() + self.service.time_limit().into();
        let _kept = store.retire_until(end);
        self.service.take_back(self.node.id(), store);
    }
}

impl core::fmt::Debug for Lent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PageWorker")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
