//! A worker that a thread has for some time.

use super::{PageError, PageService};
use crate::Node;
use crate::services::wait_within;
use core::ops::{Deref, DerefMut};
use rackweave_base::memory::SharedBytes;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{
    AllocateError, FixError, Mode, OpenError, PageGuard, PageStore, Superblock,
};
use rackweave_wire::fabric::page::PageId;

/// One thread's way to pages, at one node. It is `Send`: a thread may hand it to another.
///
/// It is a [`PageStore`], so that has the other calls: `unfix`, `prefetch`, `validate`,
/// `read_optimistic`, `flush`, `settle`, `poll`, and by
/// [`PageStore::worker_mut`] those that begin something and do not wait.
///
/// Guards outlive it. What is to be done behind guards, such as giving latches back, is done while
/// this or another worker of the node waits or polls: a thread that rests says
/// [`settle`](PageStore::settle) before, or drops its worker. Dropped, a worker ends what is under
/// way and goes back to its service. If nobody answers, that takes some ten seconds; latches that
/// could not be given back by then are given back when a worker of the node is polled again.
pub struct PageWorker {
    /// Always there, until it is dropped.
    store: Option<PageStore<Channel>>,
    service: PageService,
    node: Node,
}

impl PageWorker {
    pub(super) fn new(service: PageService, node: Node, store: PageStore<Channel>) -> Self {
        Self {
            store: Some(store),
            service,
            node,
        }
    }

    /// Its node.
    pub fn node(&self) -> NodeId {
        self.node.id()
    }

    /// Whose it is.
    pub fn service(&self) -> &PageService {
        &self.service
    }

    /// Fixes a page, within the time limit of the service.
    ///
    /// A [`Mode::Shared`] guard shows a version that was the newest at some moment of the call. A
    /// [`Mode::Exclusive`] one has the newest, and nobody in the rack changes the page before it is
    /// dropped.
    ///
    /// # Errors
    /// If the page cannot be had; [`FixError::Conflict`] if a guard of this worker has it already
    /// in a conflicting mode.
    ///
    /// [`FixError::Conflict`]: rackweave_endpoint::page_store::FixError::Conflict
    pub fn fix(&mut self, page: PageId, mode: Mode) -> Result<PageGuard, PageError> {
        let limit = self.service.time_limit();
        self.fix_within(page, mode, limit)
    }

    /// The same within another time limit; [`FOREVER`](crate::services::FOREVER) is none.
    ///
    /// # Errors
    /// As for [`PageWorker::fix`].
    pub fn fix_within(
        &mut self,
        page: PageId,
        mode: Mode,
        limit: Duration,
    ) -> Result<PageGuard, PageError> {
        match self.deref_mut().fix_within(page, mode, limit) {
            Err(FixError::TimedOut(page)) => Err(PageError::TimedOut { page, after: limit }),
            fixed => Ok(fixed?),
        }
    }

    /// A page of the store that this worker has open, for the caller alone; its bytes are zero.
    /// That it is in use is durable.
    ///
    /// Maps of pages in use, and free pages, that went down with a node are brought back as they
    /// are at home: no allocation is lost by that. It waits for as long as that is not possible
    /// yet, within the time limit of the service, if no other page is free.
    ///
    /// # Errors
    /// As for [`PageStore::allocate`].
    pub fn allocate(&mut self) -> Result<PageId, AllocateError> {
        loop {
            let result = self.deref_mut().allocate();
            let lost = self.deref_mut().take_lost();
            if lost.is_empty() {
                return result;
            }
            let limit = match result {
                Ok(_) => Duration::ZERO,
                Err(_) => self.service.time_limit(),
            };
            // Of what is still lost when there is a page, the next call will hear again.
            if !self.accept(lost, limit) || result.is_ok() {
                return result;
            }
        }
    }

    /// Gives a page back: see [`PageStore::free`]. A map that went down with a node is brought back
    /// as it is at home, within the time limit.
    ///
    /// # Errors
    /// As for [`PageStore::free`].
    pub fn free(&mut self, page: PageId) -> Result<(), AllocateError> {
        let freed = self.deref_mut().free(page);
        match freed {
            Err(AllocateError::Fix(FixError::Lost(map))) if map != page => {
                let limit = self.service.time_limit();
                match self.accept(vec![map], limit) {
                    true => self.deref_mut().free(page),
                    false => freed,
                }
            }
            other => other,
        }
    }

    /// Opens a store for the allocations of this worker: see [`PageStore::open`]. A superblock that
    /// went down with a node is brought back as it is at home, within the time limit.
    ///
    /// # Errors
    /// As for [`PageStore::open`].
    pub fn open(&mut self, store: u8) -> Result<Superblock, OpenError> {
        let opened = self.deref_mut().open(store);
        match opened {
            Err(OpenError::Fix(FixError::Lost(page))) if page.index() == 0 => {
                let limit = self.service.time_limit();
                match self.accept(vec![page], limit) {
                    true => self.deref_mut().open(store),
                    false => opened,
                }
            }
            other => other,
        }
    }

    /// Accepts that pages are lost. False if one still is when the time is over.
    fn accept(&mut self, mut lost: Vec<PageId>, limit: Duration) -> bool {
        let rack = self.service.rack();
        let accepted = wait_within(&self.node, limit, || {
            lost.retain(|page| {
                let is_lost = rack.lost_pages().iter().any(|known| known.page == *page);
                is_lost && !rack.accept_loss(*page)
            });
            lost.is_empty().then_some(())
        });
        accepted.is_some()
    }

    /// Reads from a page of this store without a copy and without a guard to be kept: `read` gets
    /// the bytes behind the header.
    ///
    /// # Errors
    /// As for [`PageWorker::fix`].
    pub fn read<R>(
        &mut self,
        page: PageId,
        read: impl FnOnce(SharedBytes<'_>) -> R,
    ) -> Result<R, PageError> {
        Ok(read(self.fix(page, Mode::Shared)?.data()))
    }

    /// Changes a page: `change` gets a copy of the bytes behind the header, which is then written.
    /// When this returns nobody sees an older version any more.
    ///
    /// # Errors
    /// As for [`PageWorker::fix`], and as for [`PageStore::unfix`]: then the page is changed in
    /// this node's memory, and stays latched until that can be published.
    pub fn change<R>(
        &mut self,
        page: PageId,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, PageError> {
        let mut guard = self.fix(page, Mode::Exclusive)?;
        let result = guard.update(0..guard.data().len(), change);
        self.unfix(guard)?;
        Ok(result)
    }
}

const THERE: &str = "a worker has its store until it is dropped";

impl Deref for PageWorker {
    type Target = PageStore<Channel>;

    fn deref(&self) -> &PageStore<Channel> {
        self.store.as_ref().expect(THERE)
    }
}

impl DerefMut for PageWorker {
    fn deref_mut(&mut self) -> &mut PageStore<Channel> {
        self.store.as_mut().expect(THERE)
    }
}

impl Drop for PageWorker {
    fn drop(&mut self) {
        let Some(mut store) = self.store.take() else {
            return;
        };
        store.worker_mut().abandon_all();
        // What it had allocated and not handed out goes back, if it can, and so do its latches.
        let _kept = store.retire();
        self.service.take_back(self.node.id(), store);
    }
}

impl core::fmt::Debug for PageWorker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PageWorker")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
