//! An operation in flight in a channel: its machine, what it waits for, and its time limits.

use super::fallback::FallbackWalk;
use super::step::{Event, Goal, NO_LATCH, Step};
use super::switch::SwitchWalk;
use super::{Answer, Op, Ticket};
use rackweave_base::{Duration, Instant, Qpn};
use rackweave_verbs::{PostError, Verbs, WorkRequest};
use rackweave_wire::fabric::page::Response;

/// The first pause before a retry: about the time that a page of a few KiB needs on a lane.
pub(super) const PAUSE_FIRST: Duration = Duration::from_micros(2);
/// The longest pause of a single operation: about the time that a few large pages take on a link.
/// If several operations of a channel pause, it is as many times as long. Otherwise the requests of
/// a deep queue, repeated in vain, would take the link from the pages that they wait for.
const PAUSE_LAST: Duration = Duration::from_micros(32);
/// How long an operation retries. This is far longer than any transfer, and longer than the
/// controller needs to detect a dead node, so beyond it the caller should get a result.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the entry may be looked up alternately in the switch and in the server's memory
/// without a pause: once there, and once back if it has just moved.
const HOPS_AT_ONCE: u8 = 2;

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// `None` if no caller waits for it any more.
    pub ticket: Option<Ticket>,
    pub goal: Goal,
    walk: Walk,
    /// It was requested before, with unknown outcome.
    pub again: bool,
    /// A request was posted for it.
    pub is_posted: bool,
    /// What remains to be done after it has ended.
    pub owed: Option<Goal>,
    /// The pool's spare buffer frame.
    spare: u32,
    pub waits: Waits,
    pause: Duration,
    patience_ends: Instant,
    hops: u8,
}

/// The machine that advances it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Walk {
    Switch(SwitchWalk),
    Fallback(FallbackWalk),
}

/// What it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    /// For the READ with this id.
    Response(u64),
    /// For the completion in the slot, until this time at most.
    Data(Response, Instant),
    /// For the required connection to be re-established.
    Renewal(Connection),
    /// For the work request with this id, which returns this.
    Server(u64, Fruit),
    /// For this time, then continues with this.
    Until(Instant, Then),
}

/// A connection of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Connection {
    Switch,
    Server,
}

/// What a work request to the server returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fruit {
    Entry,
    Swapped,
}

/// What comes after a pause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// The machine gets an event.
    Wake,
    /// This step is executed.
    Do(Step),
    /// The operation starts, if nothing is owed for its page any more.
    Begin,
}

impl Task {
    /// A task that starts with this operation in the switch, and its first step.
    pub fn new(now: Instant, ticket: Ticket, op: Op, spare: u32) -> (Self, Step) {
        let goal = Goal::Do(op);
        let (walk, step) = SwitchWalk::start(goal, spare);
        let task = Self {
            ticket: Some(ticket),
            goal,
            again: false,
            is_posted: false,
            owed: None,
            spare,
            walk: Walk::Switch(walk),
            waits: Waits::Until(now, Then::Wake),
            pause: PAUSE_FIRST,
            patience_ends: now + PATIENCE,
            hops: 0,
        };
        (task, step)
    }

    /// Restarts the operation after its connection was re-established; `is_new` if it leads to
    /// another directory. `None` if nothing remains to be done there.
    pub fn begin_again(&mut self, is_new: bool) -> Option<Step> {
        self.again = true;
        let goal = match &self.walk {
            Walk::Switch(walk) => walk.goal(),
            Walk::Fallback(walk) => walk.goal(),
        };
        self.goal = match is_new {
            true => goal.anew()?,
            false => goal,
        };
        Some(self.start())
    }

    /// The first step towards its goal.
    pub fn start(&mut self) -> Step {
        let (walk, step) = SwitchWalk::start(self.goal, self.spare);
        self.walk = Walk::Switch(walk);
        self.hops = 0;
        step
    }

    /// What remains to be done when no caller waits for it any more.
    pub fn owes(&self) -> Option<Goal> {
        let owes = match &self.walk {
            Walk::Switch(walk) => walk.owes(),
            Walk::Fallback(walk) => walk.owes(),
        };
        owes.filter(|_| self.is_posted)
    }

    /// Whether it has been tried for so long that it should end. Owed work is tried until it is
    /// done.
    pub fn is_tired(&self, now: Instant) -> bool {
        self.ticket.is_some() && now >= self.patience_ends
    }

    /// Passes an event to the machine.
    pub fn next(&mut self, event: Event) -> Step {
        match &mut self.walk {
            Walk::Switch(walk) => walk.next(event),
            Walk::Fallback(walk) => walk.next(event),
        }
    }

    /// Pauses, longer each time. `pausing` operations of the channel pause already.
    pub fn pause(&mut self, now: Instant, then: Then, pausing: u32) -> Waits {
        let until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_LAST * u64::from(pausing.max(1)));
        Waits::Until(until, then)
    }

    /// The entry is elsewhere: another machine continues, at once or after a pause.
    pub fn hop(
        &mut self,
        me: u16,
        now: Instant,
        step: Step,
        goal: Goal,
        pausing: u32,
    ) -> Result<Step, Waits> {
        if self.hops >= HOPS_AT_ONCE {
            if self.is_tired(now) {
                return Ok(Step::End(Answer::Gone, NO_LATCH));
            }
            self.hops = 0;
            return Err(self.pause(now, Then::Do(step), pausing));
        }
        self.hops += 1;
        self.goal = goal;
        let (walk, first) = match step {
            Step::Fallback(_) => match FallbackWalk::start(me, goal) {
                Some((walk, first)) => (Walk::Fallback(walk), first),
                None => return Ok(Step::End(Answer::Invalid, NO_LATCH)),
            },
            _ => {
                let (walk, first) = SwitchWalk::start(goal, self.spare);
                (Walk::Switch(walk), first)
            }
        };
        self.walk = walk;
        Ok(first)
    }

    /// When its pause, or its patience with a connection, ends.
    pub fn due(&self) -> Option<Instant> {
        match self.waits {
            Waits::Until(until, _) => Some(until),
            Waits::Renewal(_) if self.ticket.is_some() => Some(self.patience_ends),
            _ => None,
        }
    }
}

/// Why a step was not posted.
pub(super) enum Refused {
    /// The queue is full.
    Full,
    /// The queue pair has failed.
    Lost(Connection),
    /// There is no such entry.
    NoEntry,
    /// The store is not open to the node.
    NotMember,
}

/// Whether a queue pair accepted a work request.
pub(super) enum Submitted {
    /// It was accepted.
    Yes,
    /// The queue is full.
    Full,
    /// The queue pair accepts no more work requests.
    Never,
}

/// Posts a work request.
pub(super) fn submit(verbs: &mut dyn Verbs, qpn: Qpn, request: WorkRequest) -> Submitted {
    match verbs.post_send(qpn, request) {
        Ok(()) => Submitted::Yes,
        Err(PostError::Full(_)) => Submitted::Full,
        Err(_) => Submitted::Never,
    }
}
