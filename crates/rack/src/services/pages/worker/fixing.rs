//! Calls of a worker that fix or flush pages. A fix starts again after the loss of a page was
//! accepted.

use super::{Lent, PageWorker};
use crate::services::FOREVER;
use crate::services::call::Call;
use crate::services::pages::{PageError, ReadGuard};
use core::time::Duration;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Fix, FixError, Flush, Flushed, PageGuard, Worker};
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;

/// Reads by leases between two rounds of the node's work.
const DRIVEN_EVERY: u64 = 256;

impl PageWorker {
    /// Fixes a page for reading if a lease shows that the version in the node's memory is the
    /// newest.
    pub(super) fn leased(&self, page: PageId) -> Option<ReadGuard> {
        let node = &self.0.node;
        let (guard, hits) = self.with(|store| {
            let worker = store.worker_mut();
            // Deferred work is done by calls that wait.
            if !worker.is_idle() {
                return None;
            }
            let guard = worker.fix_leased(page, || node.now())?;
            Some((guard, worker.statistics().leased_hits))
        })?;
        if hits % DRIVEN_EVERY == 0 {
            // Revocations arrive at the node even if its only thread does nothing but read.
            node.drive();
        }
        Some(ReadGuard::new(guard, &self.0))
    }

    pub(super) fn fixing<B>(
        &self,
        limit: Duration,
        begin: B,
    ) -> Call<impl FnMut(bool) -> Option<Result<PageGuard, PageError>> + Send + Unpin + use<B>>
    where
        B: FnMut(&mut Worker<Channel>) -> Result<Fix, FixError> + Send + Unpin,
    {
        let mut fixing = Fixing::new(&self.0, limit, begin);
        Call::new(self.0.access(), limit, move |_| fixing.ask())
    }

    pub(super) fn flushing(
        &self,
    ) -> Call<impl FnMut(bool) -> Option<Result<Flushed, PageError>> + Send + Unpin + use<>> {
        let lent = Arc::clone(&self.0);
        let mut flush: Option<Flush> = None;
        Call::new(lent.access(), FOREVER, move |_| {
            lent.with(|store| {
                let flush = *flush.get_or_insert_with(|| store.worker_mut().flush());
                store.poll();
                let flushed = store.worker_mut().take_flush(flush)?;
                Some(flushed.map_err(PageError::from))
            })
        })
    }
}

/// A fix that a caller waits for. It is abandoned if it is dropped before it has ended.
pub(super) struct Fixing<B> {
    lent: Arc<Lent>,
    fix: Option<Fix>,
    limit: Duration,
    begin: B,
}

impl<B: FnMut(&mut Worker<Channel>) -> Result<Fix, FixError>> Fixing<B> {
    /// A fix that `begin` begins when it is asked for the first time.
    pub fn new(lent: &Arc<Lent>, limit: Duration, begin: B) -> Self {
        Self {
            lent: Arc::clone(lent),
            fix: None,
            limit,
            begin,
        }
    }

    /// The worker enforces the time limit.
    pub fn ask(&mut self) -> Option<Result<PageGuard, PageError>> {
        let Self {
            lent,
            fix: under_way,
            limit,
            begin,
        } = self;
        lent.with(|store| {
            let fix = match *under_way {
                Some(fix) => fix,
                None => match begin(store.worker_mut()) {
                    Ok(fix) => fix,
                    Err(error) => return Some(Err(error.into())),
                },
            };
            if under_way.replace(fix).is_none() {
                store.worker_mut().set_limit(fix, (*limit).into());
            }
            store.poll();
            let taken = store.worker_mut().take(fix)?;
            *under_way = None;
            Some(taken.map_err(|error| match error {
                FixError::TimedOut(page) => PageError::TimedOut {
                    page,
                    after: *limit,
                },
                error => error.into(),
            }))
        })
    }
}

impl<B> Drop for Fixing<B> {
    fn drop(&mut self) {
        if let Some(fix) = self.fix.take() {
            self.lent.with(|store| store.worker_mut().abandon(fix));
        }
    }
}
