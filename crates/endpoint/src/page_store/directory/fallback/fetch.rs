//! Fetching a page whose entry is in a server's memory.
//!
//! A shared fetch notes the latch word before the data moves and compares it afterwards. If the
//! data came from home, the node publishes its buffer frame as the page's place. It holds the latch
//! while it does so: a compare-and-swap of the place alone could succeed although the page was
//! changed and written home in between, and the place would then be that of an old version.

mod data;

use super::super::step::{Event, Goal, NO_LATCH, Step, Word};
use super::super::{Answer, Mode, Op};
use super::{gone, is_overtaken_often, released, taken};
use rackweave_wire::fabric::page::{
    FallbackLatch, LatchWord, Operation, PageId, PageLocation, PageSource, Status,
};

/// What the machine waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The entry.
    Reading,
    /// The latch is being taken.
    Latching,
    /// The entry again: the latch is taken; from now on only a write home changes the place.
    Latched,
    /// A place that does not hold the page is being removed.
    Dropping,
    /// The switch is being given the buffer frame.
    Aiming,
    /// The data from the buffer frame.
    FromFrame,
    /// The data from home.
    FromHome,
    /// The entry again, after a shared fetch of data.
    Checking(PageSource),
    /// The latch is being taken in order to publish the place.
    EnlistLatch,
    /// The place is being published.
    EnlistPlace,
    /// The latch is being released.
    EnlistOpen,
    /// The latch is being released; this is the answer.
    Releasing(Answer, LatchWord),
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Fetch {
    me: u16,
    page: PageId,
    mode: Mode,
    frame: u32,
    have: Option<u64>,
    state: State,
    /// The expected value of the first word.
    latch: FallbackLatch,
    /// The last known value of the second word.
    place: PageLocation,
    /// Whether to publish this node's buffer frame.
    enlist: bool,
    failures: u8,
    overtaken: u8,
}

impl Fetch {
    /// The machine of node `me`. Its first step is to read the entry.
    pub fn new(me: u16, page: PageId, mode: Mode, frame: u32, have: Option<u64>) -> Self {
        Self {
            me,
            page,
            mode,
            frame,
            have,
            state: State::Reading,
            latch: FallbackLatch::default(),
            place: PageLocation::HOME,
            enlist: mode == Mode::Shared,
            failures: 0,
            overtaken: 0,
        }
    }

    /// The next step after an event.
    pub fn next(&mut self, event: Event) -> Step {
        match (self.state, event) {
            (_, Event::ServerLost) => gone(),
            (_, Event::Lost | Event::Due { tired: true }) => self.fail(Answer::Gone, NO_LATCH),
            (_, Event::Due { tired: false }) => self.reread(),
            (State::Reading, Event::Entry(latch, place)) => self.read(latch, place),
            (State::Latching, Event::Swapped(before)) => self.latching(before),
            (State::Latched, Event::Entry(latch, place)) => self.latched(latch, place),
            (State::Dropping, Event::Swapped(before)) => self.dropped(before),
            (State::Aiming, Event::Answered(response)) => match response.status {
                Status::Current => self.ask(State::FromFrame, Operation::ReadFrame, self.page),
                // The node is no longer known; the place will soon change.
                _ => self.refused(response, Status::Invalid),
            },
            // The place does not name a buffer frame of that node: the node that wrote it broke the
            // protocol.
            (State::FromFrame, Event::Answered(response)) if response.status == Status::Invalid => {
                self.retry()
            }
            (State::FromFrame | State::FromHome, Event::Answered(response)) => {
                self.refused(response, Status::NotIndexed)
            }
            (State::FromFrame | State::FromHome, Event::Moved(_, completion)) => {
                self.moved(completion)
            }
            (State::Checking(source), Event::Entry(latch, place)) => {
                self.checked(source, latch, place)
            }
            (
                State::EnlistLatch | State::EnlistPlace | State::EnlistOpen,
                Event::Swapped(before),
            ) => self.enlisting(before),
            (State::Releasing(answer, latch), Event::Swapped(before)) => {
                self.left(before, answer, latch)
            }
            _ => self.fail(Answer::Invalid, NO_LATCH),
        }
    }

    /// The latch that it holds, or may hold, only temporarily: to be released.
    pub fn owes(&self) -> Option<Goal> {
        let undo = |answer, latch| Goal::Undo {
            page: self.page,
            answer,
            latch,
        };
        match self.state {
            State::EnlistLatch | State::EnlistPlace | State::EnlistOpen => {
                Some(undo(Answer::Gone, NO_LATCH))
            }
            State::Releasing(answer, latch) => Some(undo(answer, latch)),
            _ => None,
        }
    }

    /// The latch that it may hold for its caller.
    pub fn may_hold(&self) -> Option<Goal> {
        (self.mode == Mode::Exclusive).then_some(Goal::Undo {
            page: self.page,
            answer: Answer::Gone,
            latch: NO_LATCH,
        })
    }

    /// What it has to do.
    pub fn goal(&self) -> Goal {
        Goal::Do(Op::Fetch {
            page: self.page,
            mode: self.mode,
            frame: self.frame,
            have: self.have,
        })
    }

    fn holds(&self) -> bool {
        self.latch.holder() == Some(self.me)
    }

    fn swap_latch(&mut self, state: State, to: FallbackLatch) -> Step {
        self.state = state;
        Step::Swap {
            word: Word::Latch,
            compare: self.latch.0,
            swap: to.0,
        }
    }

    fn swap_place(&mut self, state: State, to: PageLocation) -> Step {
        self.state = state;
        Step::Swap {
            word: Word::PageLocation,
            compare: self.place.0,
            swap: to.0,
        }
    }

    fn ask(&mut self, state: State, operation: Operation, page: PageId) -> Step {
        self.state = state;
        Step::Ask {
            operation,
            page,
            argument: 0,
            frame: self.frame,
        }
    }

    fn reread(&mut self) -> Step {
        self.state = match self.mode {
            Mode::Exclusive if self.holds() => State::Latched,
            _ => State::Reading,
        };
        Step::ReadEntry
    }

    fn read(&mut self, latch: FallbackLatch, place: PageLocation) -> Step {
        if latch.is_indexed() {
            return Step::Switch(self.goal());
        }
        self.latch = latch;
        self.place = place;
        match self.mode {
            Mode::Exclusive if latch.holder() == Some(self.me) => self.data(),
            _ if latch.latch().is_locked() => {
                // It belongs to another operation: do not release it.
                Step::End(Answer::Locked, latch.latch())
            }
            Mode::Shared => self.data(),
            Mode::Exclusive if place.is_lost() => Step::End(Answer::Lost, latch.latch()),
            Mode::Exclusive => self.swap_latch(State::Latching, taken(latch, self.me)),
        }
    }

    fn latching(&mut self, before: u64) -> Step {
        if before != self.latch.0 {
            return self.overtaken();
        }
        self.latch = taken(self.latch, self.me);
        self.reread()
    }

    /// Another node has changed the entry since it was read.
    fn overtaken(&mut self) -> Step {
        match is_overtaken_often(&mut self.overtaken) {
            true => Step::Pause,
            false => self.reread(),
        }
    }

    fn latched(&mut self, latch: FallbackLatch, place: PageLocation) -> Step {
        if latch.is_indexed() {
            return Step::Switch(self.goal());
        }
        if latch != self.latch {
            // This node was declared dead.
            return Step::End(Answer::Locked, latch.latch());
        }
        self.place = place;
        self.data()
    }

    /// Ends in failure, after the latch has been released.
    fn fail(&mut self, answer: Answer, latch: LatchWord) -> Step {
        let releasing = matches!(self.state, State::Releasing(..));
        if !self.holds() || releasing {
            return Step::End(answer, latch);
        }
        let open = released(self.latch);
        let latch = latch.released();
        self.swap_latch(State::Releasing(answer, latch), open)
    }

    fn left(&mut self, before: u64, answer: Answer, latch: LatchWord) -> Step {
        if before != self.latch.0 && FallbackLatch(before).is_indexed() {
            return Step::Switch(Goal::Undo {
                page: self.page,
                answer,
                latch,
            });
        }
        Step::End(answer, latch)
    }
}
