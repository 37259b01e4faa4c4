//! Guards of pages: one for reading, one for changing.

use super::worker::Lent;
use super::{CommitError, PageError};
use crate::services::call::Call;
use core::ops::{Deref, Range};
use core::time::Duration;
use rackweave_base::memory::{SharedBytes, SharedBytesMut};
use rackweave_endpoint::page_store::PageGuard;
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;

/// A page that is fixed for reading: a complete version, which does not change even if the page
/// does.
///
/// It holds its worker, which goes back to its service after the last guard. Dropping it unfixes
/// the buffer frame.
#[derive(Debug)]
pub struct ReadGuard {
    // It is dropped before the worker, which gives back its latch.
    guard: PageGuard,
    lent: Arc<Lent>,
}

/// A page that is fixed for changing: its newest version, which no other worker in the rack can
/// change or see changing. It can be read like a [`ReadGuard`].
///
/// [`WriteGuard::commit`] publishes the changes, releases the latch, and returns whether that
/// succeeded. A drop does the same without returning a result: the latch is given back while this
/// or another worker of the node waits or polls, and a rejected change is then reported by
/// [`PageWorker::losses`](super::PageWorker::losses). A drop is no undo: the bytes are changed in
/// place.
#[derive(Debug)]
#[must_use = "dropped, its change is published without a word of what became of it"]
pub struct WriteGuard(ReadGuard);

impl ReadGuard {
    pub(super) fn new(guard: PageGuard, lent: &Arc<Lent>) -> Self {
        let lent = Arc::clone(lent);
        Self { guard, lent }
    }

    /// The page.
    pub fn page(&self) -> PageId {
        self.guard.page()
    }

    /// The version that was fixed.
    pub fn version(&self) -> u64 {
        self.guard.version()
    }

    /// The page's bytes after the header: a view, since the memory is registered with a NIC and the
    /// latch excludes only those who follow the protocol.
    #[inline]
    pub fn data(&self) -> SharedBytes<'_> {
        self.guard.data()
    }

    /// The log sequence number of the page's last change that was given one, on any node, or zero.
    /// After a crash it shows how much of the log the page contains: records up to this one.
    #[inline]
    pub fn lsn(&self) -> u64 {
        self.guard.lsn()
    }

    /// Whether its version is still the newest, and no change has begun. If several guards are
    /// asked after the last was fixed and all return true, their versions are from one moment.
    ///
    /// # Errors
    /// If the directory cannot tell.
    pub fn is_newest(&self) -> Result<bool, PageError> {
        Ok(self.lent.with(|store| store.validate(&self.guard))?)
    }
}

impl WriteGuard {
    pub(super) fn new(guard: PageGuard, lent: &Arc<Lent>) -> Self {
        Self(ReadGuard::new(guard, lent))
    }

    /// Whether [`Self::data_mut`] or [`Self::set_lsn`] was called: the page will get a new version.
    pub fn is_changed(&self) -> bool {
        self.0.guard.is_changed()
    }

    /// The page's bytes, for writing. They are no slice, because the NIC may read them meanwhile
    /// for a node whose request came too late and which discards the result.
    pub fn data_mut(&mut self) -> SharedBytesMut<'_> {
        self.0.guard.data_mut()
    }

    /// Changes some of the page's bytes in a copy, which is then written back: the shorter the
    /// range, the less is copied.
    ///
    /// # Panics
    /// If the range is beyond the end of the page.
    pub fn update<R>(&mut self, range: Range<usize>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.0.guard.update(range, change)
    }

    /// Sets the record of the engine's log that contains this change; the page counts as changed.
    /// It leaves this node when the log is durable up to there
    /// ([`RedoLog`](rackweave_endpoint::page_store::RedoLog)), so the record has to be appended
    /// before the guard is dropped.
    ///
    /// # Panics
    /// In debug builds if the page has a higher LSN already.
    pub fn set_lsn(&mut self, lsn: u64) {
        self.0.guard.set_lsn(lsn);
    }

    /// Publishes the change and releases the latch, within the time limit of the service. After it
    /// has returned `Ok`, no node sees an older version.
    ///
    /// # Errors
    /// If the change was rejected, or its outcome is unknown: then it is in this node's memory, the
    /// page stays latched, and the worker keeps asking when it is polled.
    pub fn commit(self) -> Result<(), CommitError> {
        let limit = self.0.lent.time_limit();
        self.commit_within(limit)
    }

    /// The same with another time limit.
    ///
    /// # Errors
    /// As for [`WriteGuard::commit`].
    pub fn commit_within(self, limit: Duration) -> Result<(), CommitError> {
        self.committing(limit).wait()
    }

    /// [`WriteGuard::commit`] for a task that awaits it. If the future is dropped, the change is
    /// published as if the guard had been dropped.
    pub fn commit_async(
        self,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + Unpin + 'static {
        let limit = self.0.lent.time_limit();
        self.committing(limit)
    }

    fn committing(
        self,
        limit: Duration,
    ) -> Call<impl FnMut(bool) -> Option<Result<(), CommitError>> + Send + Unpin + 'static> {
        let ReadGuard { guard, lent } = self.0;
        let (access, commit) = (lent.access(), guard.commit());
        Call::new(access, limit, move |is_late| {
            lent.with(|store| store.poll());
            let late = || is_late.then(|| Err(commit.late()));
            commit.outcome().or_else(late)
        })
    }
}

impl Deref for WriteGuard {
    type Target = ReadGuard;

    fn deref(&self) -> &ReadGuard {
        &self.0
    }
}
