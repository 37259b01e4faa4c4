//! Pages in doubt: the directory was lost and made again, and this node may have had their newest
//! versions.
//!
//! The directory has given the node their latches. A change of this node may have been replaced by
//! another node's, which was written home and dropped there; so the home is read into the pool's
//! spare buffer frame, and tells. If it is as new, or damaged, so that nobody can tell, the page is
//! given up to it. Otherwise the node
//! says that the page is its own, and so publishes it anew under the next version number; a change
//! whose latch was on its way back has arrived by that.
//!
//! If the directory is lost once more meanwhile, the new one may know enough: then it takes the
//! doubt back, and what the node has is what it said.

use super::Worker;
use super::replies::Job;
use crate::page_store::directory::{Answer, Directory, Op};
use crate::page_store::pool::table::{DIRTY, PUBLISHED, SETTLED, TORN, UNFIXING};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::atomic::Ordering;

/// When to look again whether the engine's log has a change that is to be published.
const LOG_AGAIN: Duration = Duration::from_micros(10);

/// A page that a worker finds out about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    frame: u32,
    page: PageId,
    state: FrameState,
    /// The version of the directory's entry.
    version: u64,
    step: Step,
    pub not_before: Instant,
    attempts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Look,
    Disown,
    Own,
}

impl Doubt {
    pub fn frame(&self) -> u32 {
        self.frame
    }
}

impl<D: Directory> Worker<D> {
    /// Notices that the directory has begun anew, and goes on finding out.
    pub(super) fn poll_doubts(&mut self, verbs: &mut dyn Verbs) -> bool {
        let beginning = self.directory.beginnings();
        if beginning != self.beginning {
            self.beginning = beginning;
            if !planted(Canary::PagesNoDoubt) {
                self.pool.look_for_doubts();
            }
        }
        if self.doubt.is_none() && self.pool.doubts_pending() {
            self.take_doubt();
        }
        let Some(doubt) = self.doubt.filter(|doubt| doubt.not_before <= self.now) else {
            return false;
        };
        let Some(doubt) = self.renewed(doubt) else {
            self.doubt = None;
            self.pool.put_doubt(None);
            return true;
        };
        let Doubt { page, frame, .. } = doubt;
        let lsn = self.pool.table.meta(frame).lsn.load(Ordering::Acquire);
        // It is published with its entry. Who gives its latch back asks the log.
        if matches!(doubt.step, Step::Own) && !self.pool.may_leave(lsn) {
            let not_before = self.now + LOG_AGAIN;
            self.doubt = Some(Doubt {
                not_before,
                ..doubt
            });
            return false;
        }
        let op = match doubt.step {
            Step::Look => Op::ReadHome { page },
            Step::Disown => Op::Disown { page },
            Step::Own => Op::Own { page, frame },
        };
        match self.directory.begin(self.now, verbs, op) {
            Some(ticket) => {
                self.doubt = None;
                self.jobs.push((ticket, Job::Doubt(doubt)));
                true
            }
            None => false,
        }
    }

    fn take_doubt(&mut self) {
        let Some(frame) = self.pool.take_doubt() else {
            return;
        };
        self.doubt = self.begin_doubt(frame);
        if self.doubt.is_none() {
            self.pool.put_doubt(None);
        }
    }

    fn begin_doubt(&self, frame: u32) -> Option<Doubt> {
        let found = self.pool.doubt(frame)?;
        Some(Doubt {
            frame,
            page: found.page,
            state: found.state,
            version: found.version,
            step: Step::Look,
            not_before: Instant::ZERO,
            attempts: 0,
        })
    }

    /// What is left of a doubt if the directory has begun anew once more: the same, another one,
    /// or none.
    fn renewed(&self, doubt: Doubt) -> Option<Doubt> {
        let found = self.begin_doubt(doubt.frame)?;
        match found.version == doubt.version {
            true => Some(doubt),
            false => Some(found),
        }
    }

    /// Gives a page the number under which it is going to be published: others may read it as soon
    /// as the directory hears of it. If the directory is lost before, the node says that number.
    fn renumber(&self, doubt: &Doubt) -> FrameState {
        let state = self.pool.state(doubt.frame).renumbered(doubt.version);
        self.pool.renumber(doubt.frame, doubt.version + 1);
        self.pool.set_state(doubt.frame, state);
        state
    }

    /// Whether the buffer frame still has what the node had said. Of a change whose latch was on
    /// its way back, the node may have heard since that the directory of before had taken it.
    fn still_has(&self, doubt: &Doubt) -> bool {
        let state = self.pool.state(doubt.frame);
        self.pool.table.meta(doubt.frame).has(doubt.page)
            && (state.is_changed() || state.is_dirty())
            && state.content_version() == doubt.state.content_version()
    }

    /// The directory has answered about a page in doubt.
    pub(super) fn doubt_answered(&mut self, doubt: Doubt, answer: Answer) {
        let standing = self.pool.doubt(doubt.frame).map(|doubt| doubt.version);
        if standing != Some(doubt.version) {
            // The directory was made again since, and this may be the answer of the one before.
            self.doubt = Some(doubt);
            return;
        }
        let state = doubt.state;
        match (doubt.step, answer) {
            (Step::Look, Answer::Done) => {
                // What was written home meanwhile has left the buffer frame, or is not said to be
                // newer any more.
                let is_old =
                    self.pool.may_home_be_as_new(doubt.page, state) || !self.still_has(&doubt);
                let (step, state) = match is_old {
                    true => (Step::Disown, state),
                    false => (Step::Own, self.renumber(&doubt)),
                };
                self.doubt = Some(Doubt {
                    step,
                    state,
                    ..doubt
                });
            }
            (Step::Disown, Answer::Done | Answer::Superseded) => self.disowned(doubt),
            // It was done before, and the answer got lost.
            (Step::Own, Answer::Done | Answer::Superseded) => {
                let meta = self.pool.table.meta(doubt.frame);
                // Another worker may have heard of it before, and have fixed the page.
                let is_there = meta.has(doubt.page) && self.pool.state(doubt.frame) == state;
                match is_there {
                    true if state.is_changed() => meta.set(PUBLISHED),
                    true => meta.version.store(state.version(), Ordering::Release),
                    false => {}
                }
                self.found_out(doubt);
            }
            (_, Answer::Fenced | Answer::NotMember | Answer::Invalid) => {
                self.found_out(doubt);
            }
            _ => {
                self.statistics.gone += 1;
                let not_before = self.gone_until(doubt.attempts);
                self.doubt = Some(Doubt {
                    attempts: doubt.attempts + 1,
                    not_before,
                    ..doubt
                });
            }
        }
    }

    /// What the node has is not the newest version.
    fn disowned(&mut self, doubt: Doubt) {
        let meta = self.pool.table.meta(doubt.frame);
        if self.still_has(&doubt) {
            self.pool.set_state(doubt.frame, FrameState::NOTHING);
            if meta.is(UNFIXING) {
                meta.set(SETTLED);
            } else {
                meta.set(TORN);
                meta.clear(DIRTY);
            }
        }
        self.found_out(doubt);
    }

    fn found_out(&self, doubt: Doubt) {
        self.pool.end_doubt(doubt.frame, doubt.version);
        self.pool.put_doubt(None);
    }
}
