//! The end of a worker.
//!
//! An idle worker leaves nothing behind. Operations of a worker that is not idle may still change
//! or read a buffer frame: such a buffer frame is never used again. The rest returns to the pool.

use super::Worker;
use super::fix::State;
use super::replies::Job;
use crate::page_store::directory::Directory;
use crate::page_store::pool::table::TORN;
use std::sync::atomic::Ordering;

impl<D: Directory> Worker<D> {
    /// Leaves the latches whose release has not been requested yet to the other workers of the
    /// node, or to this worker when it is polled again.
    pub(super) fn hand_over(&mut self) {
        for pending in core::mem::take(&mut self.unfixes) {
            self.pool.moving.fetch_sub(1, Ordering::Relaxed);
            self.pool.push_unfix(pending.unfix);
        }
    }
}

impl<D: Directory> Drop for Worker<D> {
    fn drop(&mut self) {
        let keys: Vec<_> = self.fixes.keys().collect();
        for key in keys {
            let Some(pending) = self.fixes.remove(key) else {
                continue;
            };
            if pending.moves {
                self.pool.moving.fetch_sub(1, Ordering::Relaxed);
            }
            match pending.state {
                State::Fetch { write, .. } if pending.asked => {
                    self.pool.table.lock(pending.page).remove(write.frame());
                    write.abandon();
                }
                State::Fetch { write, have: None } => self.pool.drop_page(pending.page, write),
                State::Fetch { write, .. } => self.pool.table.meta(write.frame()).set(TORN),
                State::Verify { read, .. } => self.pool.let_go(read),
                State::Seek | State::Replace { .. } | State::Ready(_) => {}
            }
        }
        self.hand_over();
        if let Some(doubt) = self.doubt.take() {
            self.pool.put_doubt(Some(doubt.frame()));
        }
        for eviction in core::mem::take(&mut self.evictions) {
            self.give_up_eviction(eviction);
        }
        for (_, job) in core::mem::take(&mut self.jobs) {
            match job {
                Job::Unfix(pending) => {
                    self.pool.moving.fetch_sub(1, Ordering::Relaxed);
                    pending.unfix.write.abandon();
                }
                Job::Evict(eviction) => self.abandon_eviction(eviction),
                Job::Quiesce(question) => self.pool.heard(question, false),
                Job::Doubt(doubt) => self.pool.put_doubt(Some(doubt.frame())),
                Job::Fix(_) | Job::Validate(_) | Job::Sync(..) => {}
            }
        }
    }
}
