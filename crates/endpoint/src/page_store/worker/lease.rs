//! Fixes by leases, without a request.

use super::fix::{Pending, State};
use super::{Fix, Worker};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::guard::PageGuard;
use crate::page_store::pool::table::TORN;
use rackweave_base::Instant;
use rackweave_wire::fabric::page::PageId;
use std::sync::atomic::Ordering;

impl<D: Directory> Worker<D> {
    /// Fixes a page for reading without asking the directory, if a lease shows that the version in
    /// the pool is the newest; otherwise `None`. `now` returns the time, by the clock whose times
    /// [`Self::poll`] gets. The worker need not be polled for this.
    pub fn fix_leased(&mut self, page: PageId, now: impl FnOnce() -> Instant) -> Option<PageGuard> {
        let pool = &self.pool;
        let frame = pool.table.find(page)?;
        let meta = pool.table.meta(frame);
        if meta.lease.load(Ordering::Relaxed) == 0
            || self.frames.is_wanted(frame)
            || self.local.conflicts(page, Mode::Shared)
        {
            return None;
        }
        let read = self.frames.try_read(frame)?;
        let version = meta.version.load(Ordering::Acquire);
        if !meta.has(page) || meta.is(TORN) || !pool.is_leased(meta, page, now) {
            pool.let_go(read);
            return None;
        }
        meta.touch();
        self.statistics.fixes += 1;
        self.statistics.local_hits += 1;
        self.statistics.leased_hits += 1;
        Some(PageGuard::shared(&self.local, page, version, read))
    }

    /// As [`Self::fix_in_turn`]; the result of a shared fix is there at once if
    /// [`Self::fix_leased`] has one.
    pub fn fix_at_once(&mut self, page: PageId, mode: Mode, now: impl FnOnce() -> Instant) -> Fix {
        let leased = (mode == Mode::Shared).then(|| self.fix_leased(page, now));
        let Some(guard) = leased.flatten() else {
            return self.fix_in_turn(page, mode);
        };
        let mut pending = Pending::new(page, mode);
        pending.state = State::Ready(Ok(guard));
        Fix(self.fixes.insert(pending))
    }
}
