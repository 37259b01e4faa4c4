//! A client's window: which requests are in flight, and since when.
//!
//! A slot is reused only when its reply has arrived, however late. So a reply is mistaken for that
//! of another request only if the server sends unsolicited replies, as many as a generation has
//! values.

use rackweave_base::{Duration, Instant};
use rackweave_wire::fabric::rpc::CallId;
use std::collections::VecDeque;

/// A request in flight. Its slot is below the window size, and no other request in flight has the
/// same slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub(super) slot: u16,
    pub(super) generation: u16,
}

impl Ticket {
    /// The slot of the window: an index into a table of the client's owner.
    pub fn slot(self) -> usize {
        self.slot.into()
    }

    pub(super) fn id(self) -> CallId {
        CallId {
            slot: self.slot,
            generation: self.generation,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// In flight.
    Waiting,
    /// The result is known, and the owner has not taken it yet.
    Ended,
    /// The owner got a timeout; the reply may still arrive.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u16,
    state: State,
}

/// The classification of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It belongs to a request in flight.
    Expected(Ticket),
    /// It belongs to a request that was given up.
    Late,
    /// It belongs to no request.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Window {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Requests in the order in which they began, with their deadlines. A request whose result is
    /// known is removed when it reaches the front.
    deadlines: VecDeque<(Ticket, Instant)>,
    /// Number of requests at the back that have no deadline yet.
    fresh: usize,
    timeout: Duration,
}

impl Window {
    pub fn new(size: u16, timeout: Duration) -> Self {
        let slot = Slot {
            generation: 0,
            state: State::Free,
        };
        Self {
            slots: vec![slot; size.into()],
            free: (0..size).rev().collect(),
            deadlines: VecDeque::with_capacity(size.into()),
            fresh: 0,
            timeout,
        }
    }

    pub fn size(&self) -> u16 {
        self.slots.len() as u16
    }

    /// Number of requests that can begin.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Begins a request.
    #[inline]
    pub fn begin(&mut self) -> Option<Ticket> {
        let slot = self.free.pop()?;
        let entry = &mut self.slots[usize::from(slot)];
        entry.state = State::Waiting;
        let generation = entry.generation;
        let ticket = Ticket { slot, generation };
        if self.timeout > Duration::ZERO {
            if self.deadlines.len() >= self.deadlines_max() {
                self.forget_ended();
            }
            self.deadlines.push_back((ticket, Instant::FAR_FUTURE));
            self.fresh += 1;
        }
        Some(ticket)
    }

    fn deadlines_max(&self) -> usize {
        4 * self.slots.len()
    }

    /// Removes the deadlines of requests whose result is known: there are many if replies arrive
    /// out of order. Fresh requests have no result yet.
    fn forget_ended(&mut self) {
        let mut deadlines = core::mem::take(&mut self.deadlines);
        deadlines.retain(|(ticket, _)| self.is_waiting(*ticket));
        self.deadlines = deadlines;
    }

    /// Classifies the reply with this id. An expected reply ends its request.
    #[inline]
    pub fn answer(&mut self, id: CallId) -> Answer {
        let Some(entry) = self.slots.get_mut(usize::from(id.slot)) else {
            return Answer::Unknown;
        };
        if entry.generation != id.generation {
            return Answer::Unknown;
        }
        match entry.state {
            State::Waiting => {
                entry.state = State::Ended;
                Answer::Expected(Ticket {
                    slot: id.slot,
                    generation: id.generation,
                })
            }
            State::GivenUp => {
                self.release(id.slot);
                Answer::Late
            }
            State::Free | State::Ended => Answer::Unknown,
        }
    }

    /// The owner has taken the result of a request: its slot is free, unless its reply may still
    /// arrive.
    #[inline]
    pub fn taken(&mut self, ticket: Ticket) {
        let entry = self.slots[ticket.slot()];
        if entry.generation == ticket.generation && entry.state == State::Ended {
            self.release(ticket.slot);
        }
    }

    fn release(&mut self, slot: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
    }

    fn is_waiting(&self, ticket: Ticket) -> bool {
        let entry = self.slots[ticket.slot()];
        entry.generation == ticket.generation && entry.state == State::Waiting
    }

    /// Starts the timeout of the requests begun since the last call.
    pub fn start(&mut self, now: Instant) {
        let at = now + self.timeout;
        let len = self.deadlines.len();
        for (_, deadline) in self.deadlines.range_mut(len - self.fresh..) {
            *deadline = at;
        }
        self.fresh = 0;
        while let Some((ticket, _)) = self.deadlines.front()
            && !self.is_waiting(*ticket)
        {
            self.deadlines.pop_front();
        }
    }

    /// Gives up and returns a request whose deadline has passed.
    pub fn expired(&mut self, now: Instant) -> Option<Ticket> {
        while let Some(&(ticket, deadline)) = self.deadlines.front() {
            if self.is_waiting(ticket) {
                if deadline > now {
                    return None;
                }
                self.deadlines.pop_front();
                self.slots[ticket.slot()].state = State::GivenUp;
                return Some(ticket);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Instant> {
        let started = self.deadlines.len() - self.fresh;
        let mut deadlines = self.deadlines.range(..started);
        let waiting = deadlines.find(|(ticket, _)| self.is_waiting(*ticket));
        waiting.map(|(_, deadline)| *deadline)
    }

    /// Ends all requests in flight, and stops waiting for late replies. Returns the former.
    pub fn end_all(&mut self) -> Vec<Ticket> {
        self.deadlines.clear();
        self.fresh = 0;
        let mut ended = Vec::new();
        for slot in 0..self.size() {
            let entry = &mut self.slots[usize::from(slot)];
            match entry.state {
                State::Waiting => {
                    entry.state = State::Ended;
                    let generation = entry.generation;
                    ended.push(Ticket { slot, generation });
                }
                State::GivenUp => self.release(slot),
                State::Free | State::Ended => {}
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_nanos(100);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn an_answer_counts_once_and_for_its_own_generation() {
        let mut window = Window::new(2, TIMEOUT);
        let first = window.begin().unwrap();
        assert_eq!(window.answer(first.id()), Answer::Expected(first));
        assert_eq!(window.answer(first.id()), Answer::Unknown, "a second time");
        assert_eq!(window.free(), 1, "its end was not taken");
        window.taken(first);
        window.taken(first);
        assert_eq!(window.free(), 2);
        assert_eq!(window.answer(first.id()), Answer::Unknown);
        let second = window.begin().unwrap();
        assert_eq!((second.slot, second.generation), (first.slot, 1));
        assert_eq!(window.answer(first.id()), Answer::Unknown);
        assert_eq!(window.answer(second.id()), Answer::Expected(second));
    }

    #[test]
    fn a_slot_that_was_given_up_waits_for_its_answer() {
        let mut window = Window::new(1, TIMEOUT);
        let ticket = window.begin().unwrap();
        assert_eq!(window.deadline(), None, "its time does not run yet");
        window.start(at(5));
        assert_eq!(window.deadline(), Some(at(105)));
        assert_eq!(window.expired(at(104)), None);
        assert_eq!(window.expired(at(105)), Some(ticket));
        assert_eq!(window.expired(at(105)), None);
        window.taken(ticket);
        assert_eq!((window.free(), window.begin()), (0, None));
        assert_eq!(window.answer(ticket.id()), Answer::Late);
        assert_eq!(window.free(), 1);
    }

    #[test]
    fn deadlines_stay_bounded_when_answers_come_out_of_order() {
        let mut window = Window::new(8, TIMEOUT);
        let stuck = window.begin().unwrap();
        window.start(at(0));
        for now in 0..90 {
            let ticket = window.begin().unwrap();
            window.start(at(now));
            assert_eq!(window.answer(ticket.id()), Answer::Expected(ticket));
            window.taken(ticket);
            assert!(window.deadlines.len() <= window.deadlines_max());
            assert_eq!(window.deadline(), Some(at(100)));
        }
        assert_eq!(window.expired(at(100)), Some(stuck));
        assert_eq!(window.deadline(), None);
    }

    #[test]
    fn the_end_ends_all_but_what_has_ended() {
        let mut window = Window::new(4, TIMEOUT);
        let tickets: Vec<_> = (0..3).map(|_| window.begin().unwrap()).collect();
        window.start(at(0));
        window.answer(tickets[0].id());
        assert_eq!(window.expired(at(100)), Some(tickets[1]));
        assert_eq!(window.end_all(), [tickets[2]]);
        assert_eq!(window.free(), 2, "one was free, one was given up");
        for ticket in tickets {
            window.taken(ticket);
        }
        assert_eq!((window.free(), window.deadline()), (4, None));
    }
}
