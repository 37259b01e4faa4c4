//! One operation on a page whose entry is in the switch: one request, and the meaning of its
//! response and completion.
//!
//! An exclusive fetch may fail after the latch was granted. The latch is then released before the
//! operation ends, so that only [`Answer::Fetched`] and [`Answer::Unchanged`] leave a latch. If
//! other nodes have leases on the page, these are revoked last, before the operation ends.

use super::step::{Event, FAILURES_MAX, Goal, NO_LATCH, Step, storage};
use super::{Answer, Mode, Op, Served};
use rackweave_wire::fabric::page::{
    Completion, LatchWord, Operation, Outcome, PageId, Request, Response, Status,
};

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchWalk {
    goal: Goal,
    /// The latch was granted to this very operation.
    held: bool,
    /// The local version is not usable: move the whole page.
    whole: bool,
    failures: u8,
    /// Other nodes may have leases on the page.
    is_leased: bool,
    /// The result of the operation, once the leases of others are revoked.
    revoking: Option<(Answer, LatchWord)>,
    /// The pool's spare buffer frame.
    spare: u32,
}

impl SwitchWalk {
    /// The machine of a node with this spare buffer frame, and its first step.
    pub fn start(goal: Goal, spare: u32) -> (Self, Step) {
        let walk = Self {
            spare,
            goal,
            held: false,
            whole: false,
            failures: 0,
            is_leased: false,
            revoking: None,
        };
        (walk, walk.ask())
    }

    /// What it has to do if it is restarted.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// What must be done in its place if it is abandoned: a latch may have been granted.
    pub fn owes(&self) -> Option<Goal> {
        match self.goal {
            Goal::Undo { .. } | Goal::Unmark { .. } => Some(self.goal),
            Goal::Rewrite {
                page, frame, sure, ..
            } => Some(Goal::Unmark { page, frame, sure }),
            Goal::Do(Op::Fetch {
                page,
                mode: Mode::Exclusive,
                ..
            }) => Some(Goal::Undo {
                page,
                answer: Answer::Gone,
                latch: NO_LATCH,
            }),
            _ => None,
        }
    }

    /// The next step after an event.
    pub fn next(&mut self, event: Event) -> Step {
        match event {
            Event::Answered(response) => self.answered(response),
            Event::Moved(response, completion) => self.moved(response, completion),
            Event::Due { tired: false } => self.ask(),
            Event::Due { tired: true } => self.fail(Answer::Gone, NO_LATCH),
            // There is no peer to which a latch could be released.
            Event::Lost | Event::ServerLost | Event::Entry(..) | Event::Swapped(_) => {
                Step::End(Answer::Gone, NO_LATCH)
            }
        }
    }

    fn ask(&self) -> Step {
        let nowhere = PageId::default();
        if self.revoking.is_some() {
            return Step::Ask {
                operation: Operation::Revoke,
                page: self.goal.page().unwrap_or_default(),
                argument: 0,
                frame: 0,
            };
        }
        let (operation, page, argument, frame) = match self.goal {
            Goal::Do(Op::Fetch {
                page,
                mode,
                frame,
                have,
            }) => {
                let (operation, argument) = self.fetching(mode, have);
                (operation, page, argument, frame)
            }
            Goal::Do(Op::Verify {
                page,
                lease: Some(version),
            }) => {
                let have = Request::have(LatchWord::open(version));
                (Operation::Verify, page, have, Request::WANTS_LEASE)
            }
            Goal::Do(Op::Verify { page, lease: None }) | Goal::Unmark { page, .. } => {
                (Operation::Verify, page, 0, 0)
            }
            Goal::Do(Op::Own { page, frame }) => (Operation::Own, page, 0, frame),
            Goal::Do(Op::Disown { page }) => (Operation::Disown, page, 0, 0),
            Goal::Do(Op::ReadHome { page }) => (Operation::ReadHome, page, 0, self.spare),
            Goal::Do(Op::Unfix { page, frame }) => (Operation::Unfix, page, 0, frame),
            Goal::Do(Op::Release { page }) | Goal::Undo { page, .. } => {
                (Operation::Release, page, 0, 0)
            }
            Goal::Do(Op::Evict { page, frame, keep })
            | Goal::Rewrite {
                page, frame, keep, ..
            } => (Operation::Evict, page, u8::from(keep), frame),
            Goal::Do(Op::Quiesce) => (Operation::Quiesce, nowhere, 0, 0),
            Goal::Do(Op::Flush { store }) => {
                let first = PageId::new(store, 0).unwrap_or_default();
                (Operation::Flush, first, 0, 0)
            }
        };
        Step::Ask {
            operation,
            page,
            argument,
            frame,
        }
    }

    fn fetching(&self, mode: Mode, have: Option<u64>) -> (Operation, u8) {
        match (mode, have) {
            (Mode::Shared, Some(version)) if !self.whole => (
                Operation::RefreshShared,
                Request::have(LatchWord::open(version)),
            ),
            (Mode::Exclusive, Some(version)) if !self.whole => (
                Operation::RefreshExclusive,
                Request::have(LatchWord::open(version)),
            ),
            (Mode::Shared, _) => (Operation::FixShared, 0),
            (Mode::Exclusive, _) => (Operation::FixExclusive, 0),
        }
    }

    fn is_exclusive(&self) -> bool {
        matches!(
            self.goal,
            Goal::Do(Op::Fetch {
                mode: Mode::Exclusive,
                ..
            })
        )
    }

    fn answered(&mut self, response: Response) -> Step {
        let latch = response.latch;
        if let Some((answer, latch)) = self.revoking {
            return self.revoked(response.status, answer, latch);
        }
        if let Goal::Undo { answer, latch, .. } = self.goal {
            return match response.status {
                Status::Busy => Step::Pause,
                Status::NotIndexed => Step::Fallback(self.goal),
                _ => Step::End(answer, latch),
            };
        }
        self.held = response.granted && self.is_exclusive();
        self.is_leased |= response.leased;
        match response.status {
            Status::Current => self.current(latch),
            Status::Busy if self.goal == Goal::Do(Op::Quiesce) => {
                Step::End(Answer::Pending, NO_LATCH)
            }
            Status::Busy => Step::Pause,
            Status::NotIndexed => Step::Fallback(self.goal),
            Status::Locked => self.fail(Answer::Locked, latch),
            Status::Lost => self.fail(Answer::Lost, latch),
            Status::NotHolder | Status::Superseded => match self.goal {
                Goal::Do(
                    Op::Fetch { .. }
                    | Op::Verify { .. }
                    | Op::ReadHome { .. }
                    | Op::Quiesce
                    | Op::Flush { .. },
                ) => self.fail(Answer::Invalid, latch),
                _ => Step::End(Answer::Superseded, latch),
            },
            Status::NotMember => self.fail(Answer::NotMember, latch),
            Status::Invalid | Status::Moving => self.fail(Answer::Invalid, latch),
        }
    }

    fn current(&mut self, latch: LatchWord) -> Step {
        match self.goal {
            Goal::Do(Op::Fetch { have, .. }) => match have {
                Some(version) if !self.whole && version == latch.version() => {
                    self.granted(Answer::Unchanged, latch)
                }
                // Only the low eight bits are equal.
                Some(_) if !self.whole => {
                    self.whole = true;
                    self.ask()
                }
                // The buffer frame is already the page's place.
                Some(_) => self.granted(Answer::Unchanged, latch),
                None => self.fail(Answer::Invalid, latch),
            },
            Goal::Do(Op::Quiesce) => Step::End(Answer::Done, NO_LATCH),
            Goal::Do(Op::Verify { lease: Some(_), .. }) if self.is_leased => {
                Step::End(Answer::Leased, latch)
            }
            _ => Step::End(Answer::Done, latch),
        }
    }

    /// The page is there, and the latch is granted if the operation takes it.
    fn granted(&mut self, answer: Answer, latch: LatchWord) -> Step {
        if !self.is_leased || !self.is_exclusive() {
            return Step::End(answer, latch);
        }
        self.revoking = Some((answer, latch));
        self.failures = 0;
        self.ask()
    }

    /// Handles an answer while leases are being revoked.
    fn revoked(&mut self, status: Status, answer: Answer, latch: LatchWord) -> Step {
        match status {
            // An entry that leaves the switch takes no leases along, but the latch.
            Status::Current | Status::NotIndexed => Step::End(answer, latch),
            Status::Busy => Step::Pause,
            // The latch was taken away.
            _ => {
                self.held = false;
                self.fail(Answer::Locked, latch)
            }
        }
    }

    fn moved(&mut self, response: Response, completion: Completion) -> Step {
        if let Some((answer, latch)) = self.revoking {
            return match completion.outcome {
                Outcome::Done | Outcome::NotIndexed => Step::End(answer, latch),
                // A node with a lease does not respond, until the controller declares it dead.
                _ => Step::Pause,
            };
        }
        self.held = response.granted && self.is_exclusive();
        self.is_leased |= response.leased;
        let latch = completion.latch;
        match completion.outcome {
            Outcome::Done => self.done(response.latch, completion),
            Outcome::SourceGone | Outcome::StorageGone | Outcome::WrongHeader => {
                self.failures += 1;
                if self.failures > FAILURES_MAX {
                    self.fail(Answer::Gone, latch)
                } else {
                    Step::Pause
                }
            }
            Outcome::StorageError => self.fail(storage(completion.nvme_status), latch),
            Outcome::Lost => self.fail(Answer::Lost, latch),
            // A granted latch moved with the entry, and so did the mark of a write.
            Outcome::NotIndexed => Step::Fallback(match self.goal {
                Goal::Do(Op::Evict { page, frame, keep }) => Goal::Rewrite {
                    page,
                    frame,
                    keep,
                    sure: true,
                },
                goal => goal,
            }),
        }
    }

    fn done(&mut self, asked: LatchWord, completion: Completion) -> Step {
        let latch = completion.latch;
        let Goal::Do(Op::Fetch { mode, .. }) = self.goal else {
            return Step::End(Answer::Done, latch);
        };
        let locked = mode == Mode::Exclusive;
        if latch.version() != asked.version() || latch.is_locked() != locked {
            return self.fail(Answer::Locked, latch);
        }
        let served = Served {
            source: completion.source,
            indexed: true,
        };
        self.granted(Answer::Fetched(served), latch)
    }

    /// Ends in failure, after the latch has been released.
    fn fail(&mut self, answer: Answer, latch: LatchWord) -> Step {
        self.revoking = None;
        match self.goal {
            Goal::Undo { answer, latch, .. } => Step::End(answer, latch),
            Goal::Do(Op::Fetch { page, .. }) if self.held => {
                self.held = false;
                let latch = latch.released();
                self.goal = Goal::Undo {
                    page,
                    answer,
                    latch,
                };
                self.ask()
            }
            _ => Step::End(answer, latch),
        }
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
