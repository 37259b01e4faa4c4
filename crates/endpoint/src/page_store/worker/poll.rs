//! Advancing a worker's pending operations: its polls, when the next one is due, and how long a
//! failed attempt waits.

use super::Worker;
use super::fix::Pending;
use crate::page_store::FixError;
use crate::page_store::directory::Directory;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Verbs;

/// When to check again the progress of another worker of the node.
const LOOK_AGAIN: Duration = Duration::from_micros(1);

impl<D: Directory> Worker<D> {
    /// Whether nothing is in flight and no work is pending: the worker may rest.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
            && self.runnable.is_empty()
            && self.waiting_validations.is_empty()
            && self.unfixes.is_empty()
            && self.evictions.is_empty()
            && self.pool.unfixes_pending() == 0
            && self.doubt.is_none()
            && !self.pool.doubts_pending()
            && self.flushes.values().all(|flush| flush.result.is_some())
    }

    /// Ends a wait for [`Self::is_idle`] with deadline `end`. Latches that could not be released by
    /// then are left to the next worker of the node that is polled.
    pub(in crate::page_store) fn settled(&mut self, end: Instant) -> Option<Result<(), FixError>> {
        if self.is_idle() {
            return Some(Ok(()));
        }
        if self.now < end {
            return None;
        }
        let mut unfixes = self.unfixes.iter().map(|pending| &pending.unfix);
        let unlogged = unfixes.find(|unfix| !self.pool.may_leave(unfix.lsn));
        let latched = self.fixes.values().find(|pending| pending.is_latched_out());
        let error = match (unlogged, latched) {
            (Some(unfix), _) => FixError::NotLogged(unfix.page),
            (None, Some(fix)) => FixError::TimedOut(fix.page),
            (None, None) => FixError::Gone,
        };
        self.hand_over();
        Some(Err(error))
    }

    /// Advances all pending operations. True if anything happened.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.poll_log(now);
        self.poll_rest(now, verbs)
    }

    /// The same without the engine's log: see [`Self::poll_log`].
    pub(in crate::page_store) fn poll_rest(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.now = now;
        self.wake_at = self.wake_at.filter(|at| *at > now);
        let mut happened = false;
        while let Some(reply) = self.directory.poll(now, verbs) {
            happened = true;
            self.take_reply(reply);
        }
        happened |= self.poll_doubts(verbs);
        happened |= self.poll_background(verbs);
        if !self.runnable.is_empty() {
            happened |= self.poll_fixes(verbs);
        }
        if !self.waiting_validations.is_empty() {
            happened |= self.poll_validations(verbs);
        }
        if !self.flushes.is_empty() {
            happened |= self.poll_flushes(verbs);
        }
        happened
    }

    /// When to poll again even if no packet arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let soon = self.now + LOOK_AGAIN;
        let at = |when: Instant| when.max(soon);
        let fixes = self.runnable.iter().filter_map(|key| self.fixes.get(*key));
        let validations = self
            .waiting_validations
            .iter()
            .filter_map(|key| self.validations.get(*key));
        let waits = fixes
            .map(|fix| at(fix.not_before))
            .chain(validations.map(|validation| at(validation.not_before)))
            .chain(self.unfixes.iter().map(|unfix| {
                let leaves = self.may_leave_at(unfix.unfix.lsn);
                at(unfix.not_before.max(leaves))
            }))
            .chain(self.evictions.iter().map(|eviction| {
                let leaves = self.may_leave_at(eviction.lsn);
                at(eviction.not_before.max(leaves))
            }))
            .chain(self.fixes.values().filter_map(Pending::ends_at).map(at))
            .chain((self.pool.unfixes_pending() > 0).then_some(soon))
            .chain(self.doubt.map(|doubt| at(doubt.not_before)))
            .chain(self.pool.doubts_pending().then_some(soon))
            .chain(self.must_ask().then_some(at(self.ask_at)))
            .chain(
                self.flushes
                    .values()
                    .any(|f| f.result.is_none())
                    .then_some(soon),
            );
        let waits = waits.chain(self.wake_at.map(at));
        waits.chain(self.directory.poll_timeout()).min()
    }

    /// When to ask again for a page that is held elsewhere. The delay grows with the number of
    /// attempts. After 16 attempts it starts again from a short one, so that the oldest fixes ask
    /// more often than younger ones. A fix that has waited for milliseconds waits for storage or a
    /// node's death, not for another worker, and need not ask the switch 300,000 times a second.
    pub(super) fn retry_at(&mut self, attempts: u32) -> Instant {
        let micros = if attempts > 16 {
            4 << (attempts / 1024).min(8)
        } else {
            1 << attempts.min(5)
        };
        self.later(Duration::from_micros(micros))
    }

    /// The time of the last poll.
    pub(in crate::page_store) fn now(&self) -> Instant {
        self.now
    }

    /// Whether this time has come. If not, the worker is polled again when it has.
    pub(in crate::page_store) fn is_due(&mut self, at: Instant) -> bool {
        let is_due = at <= self.now;
        if !is_due {
            self.wake_at = Some(self.wake_at.map_or(at, |first| first.min(at)));
        }
        is_due
    }

    /// Until when to leave a page to other workers that want to write it home.
    pub(in crate::page_store) fn step_back_until(&mut self, attempts: u32) -> Instant {
        match attempts {
            0..=1 => self.now,
            more => self.later(Duration::from_micros(1 << more.min(9))),
        }
    }

    /// When to ask again after no response.
    pub(super) fn gone_until(&mut self, attempts: u32) -> Instant {
        self.later(Duration::from_micros(20 << attempts.min(8)))
    }

    /// A random time from half of `span` to all of it.
    pub(super) fn later(&mut self, span: Duration) -> Instant {
        let half = span.as_nanos() / 2;
        self.now + Duration::from_nanos(half + self.rng.below(half + 1))
    }
}
