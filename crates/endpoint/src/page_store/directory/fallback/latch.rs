//! Looking at a latch in a server's memory, and giving it back.
//!
//! A changed page is not moved away from under a write to its home: the mark of that write does not
//! say whose it is, and so the place must, if its node dies. Who has changed the page waits.

use super::super::step::{Event, Goal, Step, Word};
use super::super::{Answer, Op};
use super::{gone, is_overtaken_often, released};
use rackweave_wire::fabric::page::{FallbackLatch, LatchWord, Place};

/// What it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The entry.
    Reading,
    /// The place is being made this node's.
    Placing,
    /// The latch is being opened.
    Opening,
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Latch {
    me: u16,
    goal: Goal,
    state: State,
    latch: FallbackLatch,
    place: Place,
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
            place: Place::HOME,
            overtaken: 0,
        }
    }

    /// What it is to do.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// What to do now.
    pub fn next(&mut self, event: Event) -> Step {
        match (self.state, event) {
            (State::Reading, Event::Entry(latch, place)) => {
                self.latch = latch;
                self.place = place;
                self.read()
            }
            (State::Placing, Event::Swapped(before)) if before == self.place.0 => self.open(),
            (State::Reading, Event::Due { tired: false }) => Step::ReadEntry,
            // Somebody began or ended a write, or the switch has the entry now.
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
            // Who has the latch may have the newest version.
            return match self.place.is_lost() && !self.latch.latch().is_locked() {
                true => Step::End(Answer::Lost, self.latch.latch()),
                false => Step::End(Answer::Done, self.latch.latch()),
            };
        }
        if self.latch.doubter() == Some(self.me) {
            return match self.goal {
                Goal::Do(Op::Own { frame, .. }) => self.move_to(self.place.moved(self.me, frame)),
                Goal::Do(Op::Disown { .. }) => self.move_to(self.place.accepted()),
                // There is another latch now, with which the node has to find out first.
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

    fn move_to(&mut self, to: Place) -> Step {
        self.state = State::Placing;
        Step::Swap {
            word: Word::Place,
            compare: self.place.0,
            swap: to.0,
        }
    }

    /// The word when this is done.
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
