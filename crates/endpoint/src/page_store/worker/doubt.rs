//! Pages in doubt: the directory was lost and rebuilt, and this node may have had their newest
//! versions.
//!
//! The directory has granted the node their latches. A change of this node may have been replaced
//! by another node's, which was then written home and dropped there. The home is therefore read
//! into the pool's spare buffer frame and compared. If it is as new, or is damaged and cannot be
//! compared, the home's version is accepted as the newest. Otherwise the node claims the page,
//! which republishes it under the next version number; this also completes a change whose latch was
//! being released.
//!
//! If the directory is lost once more meanwhile, the new one may know enough: it then withdraws the
//! doubt, and the node's last report is valid.

use super::Worker;
use super::replies::Job;
use crate::page_store::directory::{Answer, Directory, Op};
use crate::page_store::pool::table::{DIRTY, PUBLISHED, SETTLED, TORN, UNFIXING};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::atomic::Ordering;

/// When to check again whether the engine's log contains a change that is to be published.
const LOG_AGAIN: Duration = Duration::from_micros(10);

/// A page in doubt that a worker resolves.
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
    /// Detects that the directory was rebuilt, and continues to resolve doubts.
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
        // The page is published with its entry. The worker that releases its latch asks the log.
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

    /// What remains of a doubt if the directory was rebuilt once more: the same, another one, or
    /// none.
    fn renewed(&self, doubt: Doubt) -> Option<Doubt> {
        let found = self.begin_doubt(doubt.frame)?;
        match found.version == doubt.version {
            true => Some(doubt),
            false => Some(found),
        }
    }

    /// Gives a page the version number under which it will be published, since other nodes may read
    /// it as soon as the directory receives the claim. If the directory is lost before that, the
    /// node reports this number.
    fn renumber(&self, doubt: &Doubt) -> FrameState {
        let state = self.pool.state(doubt.frame).renumbered(doubt.version);
        self.pool.renumber(doubt.frame, doubt.version + 1);
        self.pool.set_state(doubt.frame, state);
        state
    }

    /// Whether the buffer frame still has what the node had reported. For a change whose latch was
    /// being released, the node may have learned since that the previous directory had accepted it.
    fn still_has(&self, doubt: &Doubt) -> bool {
        let state = self.pool.state(doubt.frame);
        self.pool.table.meta(doubt.frame).has(doubt.page)
            && (state.is_changed() || state.is_dirty())
            && state.content_version() == doubt.state.content_version()
    }

    /// Handles the directory's answer about a page in doubt.
    pub(super) fn doubt_answered(&mut self, doubt: Doubt, answer: Answer) {
        let standing = self.pool.doubt(doubt.frame).map(|doubt| doubt.version);
        if standing != Some(doubt.version) {
            // The directory was rebuilt since, and this may be the answer of the previous one.
            self.doubt = Some(doubt);
            return;
        }
        let state = doubt.state;
        match (doubt.step, answer) {
            (Step::Look, Answer::Done) => {
                // A page written home meanwhile has left the buffer frame, or is no longer reported
                // as newer.
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
            // It was done before, and the answer was lost.
            (Step::Own, Answer::Done | Answer::Superseded) => {
                let meta = self.pool.table.meta(doubt.frame);
                // Another worker may have learned of it first, and have fixed the page.
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

    /// The node does not have the newest version.
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
