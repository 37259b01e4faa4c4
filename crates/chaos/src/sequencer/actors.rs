//! Clients that request numbers and report everything to the checker, and the server that some of
//! them use.

use super::plan::{Client, Habits};
use crate::campaign::{Findings, count as count_one, wait};
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::rpc;
use rackweave_endpoint::sequencer::{BeginError, Sequencer, SequencerError, Ticket};
use rackweave_rack::services::{AttachedSequencer, CounterServer};
use rackweave_sim::checkers::SequenceHistory;
use rackweave_sim::checkers::sequence::CallId;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::CompletionStatus;
use std::collections::VecDeque;
use std::rc::Rc;

/// Polling interval of a server, and of a client that waits for a connection.
const LOOK: Duration = Duration::from_micros(5);

/// The state that all clients share.
pub(super) struct Shared {
    pub seed: u64,
    pub habits: Habits,
    pub history: RefCell<SequenceHistory>,
    /// Violations that the history does not show.
    pub wrong: Findings,
    /// Calls that ended in an error.
    pub failed: Cell<u64>,
    /// Whether connections may break: only if the plan has a fault that breaks them.
    pub may_break: bool,
    /// Whether packets are lost or damaged, so that all tries of a request may be lost by chance.
    pub loses: bool,
}

/// The slot of a client: the harness puts its connection here.
pub(super) struct Session {
    pub client: Client,
    /// Its number for the checker, a new one after each crash of its node.
    pub number: u32,
    pub link: RefCell<Option<AttachedSequencer>>,
    /// The sequencer at the other end of the connection.
    pub sequencer: Cell<u32>,
    /// Whether it waits for a connection.
    pub waits: Cell<bool>,
    /// Calls that returned numbers.
    pub ranges: Cell<u64>,
}

impl Session {
    pub fn new(client: Client, number: u32) -> Rc<Self> {
        Rc::new(Self {
            client,
            number,
            link: RefCell::new(None),
            sequencer: Cell::new(0),
            waits: Cell::new(true),
            ranges: Cell::new(0),
        })
    }
}

/// Makes calls, one after another and many at a time.
pub(super) struct Asker {
    shared: Rc<Shared>,
    session: Rc<Session>,
    rng: Rng,
    left: u32,
    /// Remaining number of failed calls that it repeats.
    again: u32,
    open: VecDeque<(Ticket, CallId, u64)>,
    next_at: Instant,
}

impl Asker {
    /// Makes `calls` calls over the connection of a session, and repeats up to `again` of those
    /// that failed.
    pub fn new(shared: Rc<Shared>, session: Rc<Session>, calls: u32, again: u32) -> Self {
        let mut rng = Rng::new(shared.seed ^ u64::from(session.number) << 32);
        Self {
            rng: rng.fork("asker"),
            shared,
            session,
            left: calls,
            again,
            open: VecDeque::new(),
            next_at: Instant::ZERO,
        }
    }

    /// Takes the results of calls.
    fn take(&mut self, sequencer: &mut dyn Sequencer, context: &mut Context<'_>) {
        let now = context.now();
        while let Some(done) = sequencer.poll(now, context.nic()) {
            let who = self.session.number;
            let Some((ticket, call, count)) = self.open.pop_front() else {
                let what = format!("client {who} at {now:?}: {done:?}, unasked");
                return self.shared.wrong.push(what);
            };
            if ticket != done.ticket {
                let what = format!("client {who} at {now:?}: {done:?} before {ticket:?}");
                self.shared.wrong.push(what);
            }
            match done.result {
                Ok(range) => {
                    count_one(&self.session.ranges);
                    self.shared.history.borrow_mut().end(call, range);
                }
                Err(error) => {
                    count_one(&self.shared.failed);
                    if self.again > 0 {
                        self.again -= 1;
                        self.left += 1;
                    }
                    let by_chance = self.shared.loses && took_too_long(error);
                    if !self.shared.may_break && !by_chance {
                        let what = format!("client {who} at {now:?}, {count} numbers: {error}");
                        self.shared.wrong.push(what);
                    }
                }
            }
        }
    }

    /// Begins calls that are due.
    fn begin(&mut self, sequencer: &mut dyn Sequencer, now: Instant) -> bool {
        let habits = self.shared.habits;
        let mut begun = false;
        while self.left > 0 && now >= self.next_at && self.open.len() < self.session.client.at_once
        {
            let count = self.rng.between(1, habits.count_max);
            match sequencer.begin(count) {
                Ok(ticket) => {
                    let (name, who) = (self.session.sequencer.get(), self.session.number);
                    let call = self.shared.history.borrow_mut().begin(name, who, count);
                    self.open.push_back((ticket, call, count));
                }
                Err(BeginError::Broken(_)) => return begun,
                Err(error) => {
                    let what = format!("client {} at {now:?}: {error}", self.session.number);
                    self.shared.wrong.push(what);
                    self.left = 0;
                    return begun;
                }
            }
            begun = true;
            self.left -= 1;
            // Some calls are made at the same time.
            if self.rng.chance(0.6) {
                let pause = 1 + self.rng.below(habits.pause_max.as_nanos());
                self.next_at = now + Duration::from_nanos(pause);
            }
        }
        begun
    }
}

/// Whether a call was given up. A few consecutive losses suffice: NICs double their timeouts, and a
/// NIC that has sent a request eight times in vain breaks the connection. Where one try in five is
/// lost, that happens to one request in some hundred thousand.
fn took_too_long(error: SequencerError) -> bool {
    use rpc::{Cause, RpcError};
    matches!(
        error,
        SequencerError::Rpc(RpcError::TimedOut(_) | RpcError::Disconnected(Cause::NoAnswer))
            | SequencerError::Broken(CompletionStatus::RetriesExceeded)
    )
}

impl Actor for Asker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let session = self.session.clone();
        let mut link = session.link.borrow_mut();
        let Some(link) = link.as_mut().filter(|_| !session.waits.get()) else {
            if self.left == 0 {
                return Step::Done;
            }
            return Step::WaitUntil(now + LOOK);
        };
        let sequencer: &mut dyn Sequencer = link;
        loop {
            self.take(sequencer, context);
            if !self.begin(sequencer, now) {
                break;
            }
        }
        if self.open.is_empty() {
            if self.left == 0 {
                return Step::Done;
            }
            if sequencer.broken().is_some() {
                session.waits.set(true);
                return Step::WaitUntil(now + LOOK);
            }
        }
        let next = (self.left > 0 && self.next_at > now).then_some(self.next_at);
        let due = next.into_iter().chain(sequencer.poll_timeout()).min();
        wait(now, due)
    }
}

/// A server on a core of its node.
pub(super) struct Counting(pub CounterServer);

impl Actor for Counting {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        while self.0.poll(now, context.nic()) {}
        Step::WaitUntil(now + LOOK)
    }
}
