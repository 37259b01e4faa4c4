//! Guards of pages: one to read, one to change.

use super::worker::Lent;
use super::{CommitError, PageError};
use crate::services::call::Call;
use core::ops::{Deref, Range};
use core::time::Duration;
use rackweave_base::memory::{SharedBytes, SharedBytesMut};
use rackweave_endpoint::page_store::PageGuard;
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;

/// A page that is fixed to be read: a whole version, which stays as it is however the page goes on.
///
/// It keeps its worker: the worker goes back to its service after the last guard. Dropped, it lets
/// the buffer frame go.
#[derive(Debug)]
pub struct ReadGuard {
    // It is dropped before the worker, which gives its latch back.
    guard: PageGuard,
    lent: Arc<Lent>,
}

/// A page that is fixed to be changed: its newest version, which nobody else in the rack can change
/// or see change. As a [`ReadGuard`] it shows what is there.
///
/// [`WriteGuard::commit`] publishes what was changed, opens the latch, and says whether that was
/// done. A drop does the same and tells nobody: the latch is given back while this or another
/// worker of the node waits or polls, and a change that is not taken is then one of
/// [`PageWorker::losses`](super::PageWorker::losses). A drop is no undo: the bytes are changed
/// where they lie.
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

    /// The page's bytes behind the header: a view, since the memory is registered with a NIC and
    /// the latch keeps only those away who keep the protocol.
    #[inline]
    pub fn data(&self) -> SharedBytes<'_> {
        self.guard.data()
    }

    /// The log sequence number of the page's last change that was given one, whoever made it, or
    /// zero. After a crash it says what a page has of the log: records up to this one are in it.
    #[inline]
    pub fn lsn(&self) -> u64 {
        self.guard.lsn()
    }

    /// Whether its version is still the newest, and nobody is about to change it. Of several guards
    /// that were asked after the last was fixed, all from then are of one moment.
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

    /// The page's bytes, to be written. They are no slice, because the NIC may read them meanwhile
    /// for a node that asked too late and throws away what it gets.
    pub fn data_mut(&mut self) -> SharedBytesMut<'_> {
        self.0.guard.data_mut()
    }

    /// Changes some of the page's bytes in a copy, which is then written: the shorter the range,
    /// the less is copied.
    ///
    /// # Panics
    /// If the page has not that many bytes.
    pub fn update<R>(&mut self, range: Range<usize>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.0.guard.update(range, change)
    }

    /// Says which record of the engine's log has this change; the page counts as changed. It leaves
    /// this node when the log is durable up to there
    /// ([`RedoLog`](rackweave_endpoint::page_store::RedoLog)), so the record has to be appended
    /// before the guard goes.
    ///
    /// # Panics
    /// In debug builds if the page has a higher LSN already.
    pub fn set_lsn(&mut self, lsn: u64) {
        self.0.guard.set_lsn(lsn);
    }

    /// Publishes the change and opens the latch, within the time limit of the service. When this
    /// returns `Ok` nobody sees an older version any more.
    ///
    /// # Errors
    /// If the change was not taken, or it is not known whether it was: then it is in this node's
    /// memory, the page stays latched, and the worker goes on asking when it is polled.
    pub fn commit(self) -> Result<(), CommitError> {
        let limit = self.0.lent.time_limit();
        self.commit_within(limit)
    }

    /// The same within another time limit.
    ///
    /// # Errors
    /// As for [`WriteGuard::commit`].
    pub fn commit_within(self, limit: Duration) -> Result<(), CommitError> {
        self.committing(limit).wait()
    }

    /// [`WriteGuard::commit`] for a task that awaits it. If the future is dropped the change is
    /// published as if the guard had been.
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
