//! Reading and releasing a latch in a server's memory.
//!
//! A changed page is not moved away while it is being written home. The mark of that write does not
//! name its owner, so the place must do so in case the owner dies. A node that has changed the page
//! waits.

use super::super::step::{Event, Goal, Step, Word};
use super::super::{Answer, Op};
use super::{gone, is_overtaken_often, released};
use rackweave_wire::fabric::page::{FallbackLatch, LatchWord, PageLocation};

/// What the machine waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The entry.
    Reading,
    /// The place is being set to this node's.
    Placing,
    /// The latch is being released.
    Opening,
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Latch {
    me: u16,
    goal: Goal,
    state: State,
    latch: FallbackLatch,
    place: PageLocation,
    overtaken: u8,
}

impl Latch {
    /// The machine of node `me`. Its first step is to read the entry.
    pub fn new(me: u16, goal: Goal) -> Self {
        Self {
            me,
            goal,
            state: State::Reading,
            latch: FallbackLatch::default(),
            place: PageLocation::HOME,
            overtaken: 0,
        }
    }

    /// What it has to do.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// The next step after an event.
    pub fn next(&mut self, event: Event) -> Step {
        match (self.state, event) {
            (State::Reading, Event::Entry(latch, place)) => {
                self.latch = latch;
                self.place = place;
                self.read()
            }
            (State::Placing, Event::Swapped(before)) if before == self.place.0 => self.open(),
            (State::Reading, Event::Due { tired: false }) => Step::ReadEntry,
            // A write was started or ended, or the switch has the entry now.
            (State::Placing, Event::Swapped(_)) => self.again(),
            (State::Opening, Event::Swapped(before)) => self.opened(FallbackLatch(before)),
            _ => gone(),
        }
    }

    fn again(&mut self) -> Step {
        self.state = State::Reading;
        match is_overtaken_often(&mut self.overtaken) {
            true => Step::Pause,
            false => Step::ReadEntry,
        }
    }

    fn read(&mut self) -> Step {
        if self.latch.is_indexed() {
            return Step::Switch(self.goal);
        }
        if let Goal::Do(Op::Verify { .. }) = self.goal {
            // The node that holds the latch may have the newest version.
            return match self.place.is_lost() && !self.latch.latch().is_locked() {
                true => Step::End(Answer::Lost, self.latch.latch()),
                false => Step::End(Answer::Done, self.latch.latch()),
            };
        }
        if self.latch.doubter() == Some(self.me) {
            return match self.goal {
                Goal::Do(Op::Own { frame, .. }) => self.move_to(self.place.moved(self.me, frame)),
                Goal::Do(Op::Disown { .. }) => self.move_to(self.place.accepted()),
                // There is another latch now, which the node must resolve first.
                Goal::Undo { answer, latch, .. } => Step::End(answer, latch),
                _ => Step::End(Answer::Locked, self.latch.latch()),
            };
        }
        if self.goal.finds_out() || self.latch.holder() != Some(self.me) {
            return self.not_mine(self.latch.latch());
        }
        match self.goal {
            Goal::Do(Op::Unfix { .. }) if self.place.is_writing() => Step::Pause,
            Goal::Do(Op::Unfix { frame, .. }) => self.move_to(self.place.moved(self.me, frame)),
            _ => self.open(),
        }
    }

    fn move_to(&mut self, to: PageLocation) -> Step {
        self.state = State::Placing;
        Step::Swap {
            word: Word::PageLocation,
            compare: self.place.0,
            swap: to.0,
        }
    }

    /// The latch word after this operation.
    fn after(&self) -> FallbackLatch {
        match self.goal {
            Goal::Do(Op::Unfix { .. } | Op::Own { .. } | Op::Disown { .. }) => {
                FallbackLatch::new(self.latch.latch().changed(), None)
            }
            _ => released(self.latch),
        }
    }

    fn open(&mut self) -> Step {
        self.state = State::Opening;
        Step::Swap {
            word: Word::Latch,
            compare: self.latch.0,
            swap: self.after().0,
        }
    }

    fn opened(&mut self, before: FallbackLatch) -> Step {
        if before == self.latch {
            return match self.goal {
                Goal::Undo { answer, latch, .. } => Step::End(answer, latch),
                _ => Step::End(Answer::Done, self.after().latch()),
            };
        }
        if before.is_indexed() {
            return Step::Switch(self.goal);
        }
        self.not_mine(before.latch())
    }

    fn not_mine(&self, latch: LatchWord) -> Step {
        match self.goal {
            Goal::Undo { answer, latch, .. } => Step::End(answer, latch),
            _ => Step::End(Answer::Superseded, latch),
        }
    }
}
