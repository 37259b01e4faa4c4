//! Writing a page home whose entry is in a server's memory.
//!
//! The place is marked first, so that only one node at a time writes a page. The mark is removed
//! when the write has ended, whether or not the page has changed meanwhile.

use super::super::Answer;
use super::super::step::{Event, FAILURES_MAX, Goal, NO_LATCH, Step, Word, storage};
use super::{gone, is_overtaken_often};
use crate::page_store::directory::Op;
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, LatchWord, Operation, Outcome, PageId, PageLocation, Status,
};

/// What the machine waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The entry.
    Reading,
    /// The mark is being set.
    Marking,
    /// The entry again: if it is still not indexed after the mark was set, the controller will see
    /// the mark before it takes the entry over.
    Marked,
    /// The mark is being withdrawn: the switch has the entry.
    Unmarking,
    /// The switch's write.
    Writing,
    /// The mark is being removed; this is the result of the write.
    Finishing(Answer),
    /// The entry again, because the place changed; this is the result of the write.
    Rereading(Answer),
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Evict {
    me: u16,
    page: PageId,
    frame: u32,
    keep: bool,
    /// A mark on a page that is in this buffer frame belongs to this operation: only this node sets
    /// it, and the node runs one operation at a time on a page.
    mine: bool,
    /// The mark was set, so it belongs to this operation wherever the page is now.
    sure: bool,
    /// Nothing is to be written: only the mark is to be removed.
    unmark: bool,
    state: State,
    latch: LatchWord,
    place: PageLocation,
    failures: u8,
    overtaken: u8,
}

impl Evict {
    /// The machine of node `me`. Its first step is to read the entry.
    pub fn new(me: u16, page: PageId, frame: u32, keep: bool) -> Self {
        Self {
            me,
            page,
            frame,
            keep,
            mine: false,
            sure: false,
            unmark: false,
            state: State::Reading,
            latch: NO_LATCH,
            place: PageLocation::HOME,
            failures: 0,
            overtaken: 0,
        }
    }

    /// The machine of a restarted operation that may have set its mark.
    pub fn again(me: u16, page: PageId, frame: u32, keep: bool, sure: bool) -> Self {
        Self {
            mine: true,
            sure,
            ..Self::new(me, page, frame, keep)
        }
    }

    /// The machine that removes the mark left by another operation. Its first step is to read the
    /// entry.
    pub fn unmark(me: u16, page: PageId, frame: u32, sure: bool) -> Self {
        Self {
            unmark: true,
            ..Self::again(me, page, frame, true, sure)
        }
    }

    /// What it has to do if it is restarted in the same directory.
    pub fn goal(&self) -> Goal {
        let &Self {
            page,
            frame,
            keep,
            sure,
            ..
        } = self;
        match self.unmark {
            true => Goal::Unmark { page, frame, sure },
            false if self.mine || self.state == State::Marking => Goal::Rewrite {
                page,
                frame,
                keep,
                sure,
            },
            false => Goal::Do(self.op()),
        }
    }

    /// What must be done in its place if it is abandoned.
    pub fn owes(&self) -> Goal {
        let (page, frame, sure) = (self.page, self.frame, self.sure);
        Goal::Unmark { page, frame, sure }
    }

    /// The next step after an event.
    pub fn next(&mut self, event: Event) -> Step {
        match (self.state, event) {
            (State::Reading, Event::Entry(latch, place)) => self.read(latch, place),
            (State::Reading, Event::Due { tired: true }) => gone(),
            (State::Reading, Event::Due { .. }) => Step::ReadEntry,
            (State::Marking, Event::Swapped(before)) => self.marked(before),
            (State::Marked, Event::Entry(latch, _)) => self.checked(latch),
            (State::Unmarking, Event::Swapped(_)) => Step::Switch(Goal::Do(self.op())),
            (State::Writing, Event::Answered(response)) => match response.status {
                Status::Busy => Step::Pause,
                Status::Lost => self.finish(Answer::Lost),
                _ => self.finish(Answer::Invalid),
            },
            (State::Writing, Event::Moved(_, completion)) => self.written(completion),
            (State::Writing, Event::Due { tired: true }) => self.finish(Answer::Gone),
            (State::Writing, Event::Due { .. }) => self.write(),
            (State::Finishing(answer), Event::Swapped(before)) => self.finished(answer, before),
            (State::Rereading(_), Event::Due { tired: false }) => Step::ReadEntry,
            (State::Rereading(answer), Event::Entry(latch, place)) => {
                if latch.is_indexed() {
                    return Step::Switch(Goal::Do(self.op()));
                }
                self.latch = latch.latch();
                self.place = place;
                self.finish(answer)
            }
            // If the switch is lost, the write may still be in flight: the mark stays.
            _ => gone(),
        }
    }

    fn op(&self) -> Op {
        Op::Evict {
            page: self.page,
            frame: self.frame,
            keep: self.keep,
        }
    }

    fn swap(&self, to: PageLocation) -> Step {
        Step::Swap {
            word: Word::PageLocation,
            compare: self.place.0,
            swap: to.0,
        }
    }

    fn read(&mut self, latch: FallbackLatch, place: PageLocation) -> Step {
        if latch.is_indexed() {
            return Step::Switch(Goal::Do(self.op()));
        }
        self.latch = latch.latch();
        self.place = place;
        let doubted = latch.doubter() == Some(self.me);
        if doubted && !self.unmark {
            return Step::End(Answer::Locked, latch.latch());
        }
        let here = place.is_at(self.me, self.frame) && place.is_dirty();
        let is_at_node = place.cached().is_some_and(|(at, _)| at == self.me);
        match (here, place.is_writing()) {
            (_, true) if self.unmark && (self.sure || is_at_node) => self.finish(Answer::Gone),
            _ if self.unmark => Step::End(Answer::Gone, self.latch),
            (true, true) if self.mine => self.write(),
            (false, true) if self.sure => self.finish(Answer::Superseded),
            // The node that holds the latch publishes the newest version, or it is lost with that
            // node.
            (false, _) if place.is_lost() && self.latch.is_locked() => {
                Step::End(Answer::Locked, self.latch)
            }
            (false, _) if place.is_lost() => Step::End(Answer::Lost, self.latch),
            (false, _) => Step::End(Answer::Superseded, self.latch),
            // An older version is being written home.
            (true, true) => Step::Pause,
            (true, false) => {
                self.state = State::Marking;
                self.swap(place.writing())
            }
        }
    }

    fn marked(&mut self, before: u64) -> Step {
        if before != self.place.0 {
            return self.overtaken(State::Reading);
        }
        self.place = self.place.writing();
        (self.mine, self.sure) = (true, true);
        self.state = State::Marked;
        Step::ReadEntry
    }

    fn checked(&mut self, latch: FallbackLatch) -> Step {
        if !latch.is_indexed() {
            return self.write();
        }
        self.state = State::Unmarking;
        let unmarked = self.place.written(self.me, self.frame, false, self.keep);
        self.swap(unmarked)
    }

    fn write(&mut self) -> Step {
        self.state = State::Writing;
        Step::Ask {
            operation: Operation::WriteHome,
            page: self.page,
            argument: 0,
            frame: self.frame,
        }
    }

    fn written(&mut self, completion: Completion) -> Step {
        match completion.outcome {
            Outcome::Done => self.finish(Answer::Done),
            Outcome::StorageError => self.finish(storage(completion.nvme_status)),
            Outcome::Lost => self.finish(Answer::Lost),
            Outcome::SourceGone
            | Outcome::StorageGone
            | Outcome::WrongHeader
            | Outcome::NotIndexed => {
                self.failures += 1;
                if self.failures > FAILURES_MAX {
                    self.finish(Answer::Gone)
                } else {
                    Step::Pause
                }
            }
        }
    }

    /// Removes the mark: the write has ended with this result.
    fn finish(&mut self, answer: Answer) -> Step {
        let succeeded = answer == Answer::Done;
        // A directory that is being rebuilt has no marks.
        let is_behind = self.place.is_at(self.me, self.frame) && self.place.is_dirty();
        if !(self.place.is_writing() || succeeded && is_behind) {
            return self.ended(answer);
        }
        self.state = State::Finishing(answer);
        let to = self
            .place
            .written(self.me, self.frame, succeeded, self.keep);
        self.swap(to)
    }

    fn finished(&mut self, answer: Answer, before: u64) -> Step {
        if before == self.place.0 {
            return self.ended(answer);
        }
        self.overtaken(State::Rereading(answer))
    }

    /// Another node has changed the place since it was read.
    fn overtaken(&mut self, state: State) -> Step {
        self.state = state;
        match is_overtaken_often(&mut self.overtaken) {
            true => Step::Pause,
            false => Step::ReadEntry,
        }
    }

    /// A write that was overtaken has written home a version that is no longer needed.
    fn ended(&self, answer: Answer) -> Step {
        let overtaken = !self.place.is_at(self.me, self.frame);
        match answer {
            Answer::Done if overtaken => Step::End(Answer::Superseded, self.latch),
            answer => Step::End(answer, self.latch),
        }
    }
}
