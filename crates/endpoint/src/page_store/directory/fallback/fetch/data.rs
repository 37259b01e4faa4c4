//! The data of a fetch: it comes from another node's buffer frame or from home, and the node may
//! publish its own buffer frame as the page's place.

use super::{Fetch, State};
use crate::page_store::directory::fallback::{released, taken};
use crate::page_store::directory::step::{FAILURES_MAX, Goal, Step, storage};
use crate::page_store::directory::{Answer, Mode, Served};
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, Operation, Outcome, PageLocation, PageSource, Request, Response,
    Status,
};

impl Fetch {
    /// Gets the page from the source that the entry names.
    pub(super) fn data(&mut self) -> Step {
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

    pub(super) fn dropped(&mut self, before: u64) -> Step {
        if before != self.place.0 {
            return self.overtaken();
        }
        self.place = self.without_place();
        self.ask(State::FromHome, Operation::ReadHome, self.page)
    }

    /// The switch refuses the transfer. `passing` is the status that a retry may clear.
    pub(super) fn refused(&mut self, response: Response, passing: Status) -> Step {
        match response.status {
            Status::Busy => Step::Pause,
            Status::Lost => self.fail(Answer::Lost, self.latch.latch()),
            status if status == passing => self.retry(),
            _ => self.fail(Answer::Invalid, self.latch.latch()),
        }
    }

    pub(super) fn retry(&mut self) -> Step {
        self.failures += 1;
        if self.failures > FAILURES_MAX {
            return self.fail(Answer::Gone, self.latch.latch());
        }
        Step::Pause
    }

    pub(super) fn moved(&mut self, completion: Completion) -> Step {
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

    pub(super) fn checked(
        &mut self,
        source: PageSource,
        latch: FallbackLatch,
        place: PageLocation,
    ) -> Step {
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

    pub(super) fn enlisting(&mut self, before: u64) -> Step {
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
}
