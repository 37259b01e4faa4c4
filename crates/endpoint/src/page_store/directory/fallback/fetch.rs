//! Fetching a page whose entry is in a server's memory.
//!
//! A shared fetch notes the latch word before the data moves and compares it afterwards. If the
//! data came from home, the node publishes its buffer frame as the page's place. It holds the latch
//! while it does so: a compare-and-swap of the place alone could succeed although the page was
//! changed and written home in between, and the place would then be that of an old version.

use super::super::step::{Event, FAILURES_MAX, Goal, NO_LATCH, Step, Word, storage};
use super::super::{Answer, Mode, Op, Served};
use super::{gone, is_overtaken_often, released, taken};
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, LatchWord, Operation, Outcome, PageId, PageLocation, PageSource,
    Request, Response, Status,
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

    /// Gets the page from the source that the entry names.
    fn data(&mut self) -> Step {
        if self.place.is_lost() {
            return self.fail(Answer::Lost, self.latch.latch());
        }
        if self.have == Some(self.latch.latch().version()) {
            return Step::End(Answer::Unchanged, self.latch.latch());
        }
        match self.place.cached() {
            Some(at) if at == (self.me, self.frame) => {
                if self.place.is_dirty() {
                    return match self.have {
                        // It has been republished under another version number.
                        Some(_) => Step::End(Answer::Unchanged, self.latch.latch()),
                        // The node that wrote the entry broke the protocol.
                        None => self.fail(Answer::Gone, self.latch.latch()),
                    };
                }
                // Another node may be about to read it, and must not find the same place again.
                self.enlist = false;
                self.drop_place()
            }
            Some((node, frame)) => {
                let aim = Request::aim(node, frame);
                self.ask(State::Aiming, Operation::Aim, aim)
            }
            None => self.ask(State::FromHome, Operation::ReadHome, self.page),
        }
    }

    fn without_place(&self) -> PageLocation {
        match self.place.cached() {
            Some((node, frame)) => self.place.dropped(node, frame),
            None => self.place,
        }
    }

    fn drop_place(&mut self) -> Step {
        let to = self.without_place();
        self.swap_place(State::Dropping, to)
    }

    fn dropped(&mut self, before: u64) -> Step {
        if before != self.place.0 {
            return self.overtaken();
        }
        self.place = self.without_place();
        self.ask(State::FromHome, Operation::ReadHome, self.page)
    }

    /// The switch refuses the transfer. `passing` is the status that a retry may clear.
    fn refused(&mut self, response: Response, passing: Status) -> Step {
        match response.status {
            Status::Busy => Step::Pause,
            Status::Lost => self.fail(Answer::Lost, self.latch.latch()),
            status if status == passing => self.retry(),
            _ => self.fail(Answer::Invalid, self.latch.latch()),
        }
    }

    fn retry(&mut self) -> Step {
        self.failures += 1;
        if self.failures > FAILURES_MAX {
            return self.fail(Answer::Gone, self.latch.latch());
        }
        Step::Pause
    }

    fn moved(&mut self, completion: Completion) -> Step {
        match completion.outcome {
            Outcome::Done => self.arrived(completion.source),
            // Dirty: it has just been written home, and the place has changed.
            Outcome::WrongHeader if self.state == State::FromFrame && !self.place.is_dirty() => {
                self.drop_place()
            }
            Outcome::WrongHeader
            | Outcome::SourceGone
            | Outcome::StorageGone
            | Outcome::NotIndexed => self.retry(),
            Outcome::StorageError => self.fail(storage(completion.nvme_status), self.latch.latch()),
            Outcome::Lost => self.fail(Answer::Lost, self.latch.latch()),
        }
    }

    fn arrived(&mut self, source: PageSource) -> Step {
        if self.mode == Mode::Exclusive && self.state == State::FromHome {
            return self.fetched(source);
        }
        if self.state == State::FromHome && self.enlist {
            let taken = taken(self.latch, self.me);
            return self.swap_latch(State::EnlistLatch, taken);
        }
        self.state = State::Checking(source);
        Step::ReadEntry
    }

    fn fetched(&self, source: PageSource) -> Step {
        Step::End(self.answer(source), self.latch.latch())
    }

    fn answer(&self, source: PageSource) -> Answer {
        Answer::Fetched(Served {
            source,
            indexed: false,
        })
    }

    fn checked(&mut self, source: PageSource, latch: FallbackLatch, place: PageLocation) -> Step {
        if latch.is_indexed() {
            return Step::Switch(self.goal());
        }
        if latch != self.latch {
            return Step::End(Answer::Locked, latch.latch());
        }
        // A buffer frame that was reassigned may have been refilled while it was read.
        if source == PageSource::Memory && place.moves() != self.place.moves() {
            return self.retry();
        }
        self.fetched(source)
    }

    fn enlisting(&mut self, before: u64) -> Step {
        let expected = self.latch;
        match self.state {
            State::EnlistLatch if before == expected.0 => {
                self.latch = taken(expected, self.me);
                let to = self.place.read(self.me, self.frame);
                self.swap_place(State::EnlistPlace, to)
            }
            // Whether or not it succeeded: another place serves as well.
            State::EnlistPlace => {
                let open = released(expected);
                self.swap_latch(State::EnlistOpen, open)
            }
            State::EnlistOpen if before == expected.0 => {
                self.latch = released(expected);
                self.fetched(PageSource::Storage)
            }
            State::EnlistOpen if FallbackLatch(before).is_indexed() => Step::Switch(Goal::Undo {
                page: self.page,
                answer: self.answer(PageSource::Storage),
                latch: released(expected).latch(),
            }),
            _ if FallbackLatch(before).is_indexed() => Step::Switch(self.goal()),
            _ => Step::End(Answer::Locked, FallbackLatch(before).latch()),
        }
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
