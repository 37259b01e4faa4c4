//! The background work: releasing latches, evicting pages ([`eviction`]), freeing buffer frames.

mod eviction;

pub(super) use eviction::Eviction;

use super::Worker;
use super::replies::{Job, Latch};
use crate::page_store::CommitError;
use crate::page_store::directory::{Answer, Directory, Op};
use crate::page_store::guard::Unfix;
use crate::page_store::pool::table::{DIRTY, PUBLISHED, SETTLED, TORN, UNFIXING};
use crate::page_store::pool::{Loss, SizeClass};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::FrameState;
use std::sync::atomic::Ordering;

/// A latch that this worker releases.
#[derive(Debug)]
pub(super) struct PendingUnfix {
    pub unfix: Unfix,
    pub not_before: Instant,
    attempts: u32,
}

impl<D: Directory> Worker<D> {
    /// Advances all operations without a ticket.
    pub(super) fn poll_background(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        self.collect_unfixes();
        if !self.unfixes.is_empty() {
            happened |= self.send_unfixes(verbs);
        }
        if self.pool.sizes.iter().any(SizeClass::is_short) {
            happened |= self.choose_victims();
        }
        if !self.evictions.is_empty() {
            happened |= self.send_evictions(verbs);
        }
        if self.must_ask() && self.now >= self.ask_at {
            happened |= self.ask(verbs);
        }
        happened
    }

    /// Takes over the latches that dropped guards of the node have left.
    pub(super) fn collect_unfixes(&mut self) {
        while let Some(unfix) = self.pool.pop_unfix() {
            self.pool.moving.fetch_add(1, Ordering::Relaxed);
            self.unfixes.push(PendingUnfix {
                unfix,
                not_before: Instant::ZERO,
                attempts: 0,
            });
        }
    }

    fn send_unfixes(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        let mut at = 0;
        while at < self.unfixes.len() {
            let pending = &self.unfixes[at];
            let (page, frame) = (pending.unfix.page, pending.unfix.write.frame());
            let op = if pending.unfix.changed {
                Op::Unfix { page, frame }
            } else {
                Op::Release { page }
            };
            // The switch tells other nodes where the page is as soon as it receives this.
            let may_leave = self.pool.may_leave(pending.unfix.lsn);
            let is_due = may_leave && pending.not_before <= self.now;
            match is_due
                .then(|| self.directory.begin(self.now, verbs, op))
                .flatten()
            {
                Some(ticket) => {
                    let pending = self.unfixes.swap_remove(at);
                    self.jobs.push((ticket, Job::Unfix(pending)));
                    happened = true;
                }
                None => at += 1,
            }
        }
        happened
    }

    pub(super) fn unfixed(&mut self, mut pending: PendingUnfix, answer: Answer, latch: Latch) {
        let Some((outcome, is_good)) = self.unfix_outcome(&pending.unfix, answer, latch) else {
            // The latch must be released, however long it takes.
            self.statistics.gone += 1;
            pending.not_before = self.gone_until(pending.attempts);
            pending.attempts += 1;
            pending.unfix.again = true;
            return self.unfixes.push(pending);
        };
        let unfix = pending.unfix;
        if !unfix.tell(outcome) && outcome.is_err() && unfix.changed {
            self.pool.lose(Loss {
                page: unfix.page,
                version: unfix.version + 1,
            });
        }
        self.pool.moving.fetch_sub(1, Ordering::Relaxed);
        if unfix.discard || !is_good {
            self.pool.drop_page(unfix.page, unfix.write);
        }
    }

    /// The outcome of releasing a latch, and whether the buffer frame has a version of the page;
    /// `None` if the release must be repeated.
    fn unfix_outcome(
        &mut self,
        unfix: &Unfix,
        answer: Answer,
        latch: Latch,
    ) -> Option<(Result<(), CommitError>, bool)> {
        let (frame, page, changed) = (unfix.write.frame(), unfix.page, unfix.changed);
        let meta = self.pool.table.meta(frame);
        let is_in_doubt = || self.pool.doubt(frame).is_some();
        let answer = match answer {
            Answer::Superseded if meta.is(PUBLISHED) => Answer::Done,
            // The worker that resolves the doubt may have published it already without having
            // received the answer.
            Answer::Superseded if changed && is_in_doubt() => Answer::Pending,
            // It was accepted by an earlier request.
            Answer::Superseded if unfix.again && !meta.is(SETTLED) => {
                match latch.version() > unfix.version {
                    true => Answer::Done,
                    false => answer,
                }
            }
            answer => answer,
        };
        Some(match answer {
            Answer::Done if changed => {
                // The directory's version is higher if the release was executed and the page was
                // changed again before this answer came. It is lower if a node that breaks the
                // protocol has reset an entry in the memory server; the next fix takes the entry's
                // version over. The new version is the next one, or a higher one if the page was in
                // doubt meanwhile.
                let version = self.pool.header_version(frame);
                meta.version.store(version, Ordering::Release);
                meta.clear(UNFIXING | TORN | PUBLISHED);
                meta.set(DIRTY);
                self.pool.set_state(frame, FrameState::dirty(version));
                self.statistics.unfixed += 1;
                (Ok(()), true)
            }
            Answer::Done => {
                self.statistics.released += 1;
                (Ok(()), true)
            }
            // It was accepted before the directory was lost, and home is newer by now.
            Answer::Superseded if meta.is(SETTLED) => (Ok(()), false),
            // The bytes belong to a version that never existed.
            Answer::Superseded if changed => (Err(CommitError::Superseded(page)), false),
            Answer::Superseded => (Ok(()), true),
            Answer::Fenced => (Err(CommitError::Fenced(page)), false),
            Answer::Lost | Answer::Invalid => (Err(CommitError::Superseded(page)), !changed),
            Answer::NotMember => (Err(CommitError::NotMember(page)), !changed),
            _ => return None,
        })
    }

    /// Whether to ask the directory about buffer frames in quarantine.
    pub(super) fn must_ask(&self) -> bool {
        !self.asking
            && self.pool.sizes.iter().any(|class| {
                let isolated = class.isolated.load(Ordering::Relaxed);
                isolated > 0 && (isolated >= class.evict_batch || class.is_short())
            })
    }

    fn ask(&mut self, verbs: &mut dyn Verbs) -> bool {
        if self.directory.capacity() == 0 {
            return false;
        }
        let Some(question) = self.pool.ask(self.now) else {
            return false;
        };
        match self.directory.begin(self.now, verbs, Op::Quiesce) {
            Some(ticket) => {
                self.asking = true;
                self.jobs.push((ticket, Job::Quiesce(question)));
                true
            }
            None => {
                self.pool.heard(question, false);
                false
            }
        }
    }

    pub(super) fn quiesced(&mut self, question: u64, answer: Answer) {
        self.asking = false;
        let ended = answer == Answer::Done;
        self.pool.heard(question, ended);
        if ended {
            self.statistics.quiesce_rounds += 1;
            self.ask_at = self.now;
        } else if answer == Answer::Fenced {
            self.ask_at = self.now + self.pool.config.patience;
        } else {
            self.ask_at = self.retry_at(2);
        }
    }
}
