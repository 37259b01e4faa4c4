//! An operation under way in a channel: its machine, what it waits for, and for how long.

use super::fallback::FallbackWalk;
use super::step::{Event, Goal, NO_LATCH, Step};
use super::switch::SwitchWalk;
use super::{Answer, Op, Ticket};
use rackweave_base::{Duration, Instant, Qpn};
use rackweave_verbs::{PostError, Verbs, WorkRequest};
use rackweave_wire::fabric::page::Response;

/// The first pause before something is asked again: about what a page of some KiB needs on a lane.
pub(super) const PAUSE_FIRST: Duration = Duration::from_micros(2);
/// The longest pause: about what an SSD needs for a write, the longest that anybody is busy.
const PAUSE_LAST: Duration = Duration::from_micros(128);
/// How long an operation asks again. Far longer than any transfer, and than the controller needs
/// to find out that a node is dead; so whoever asks for longer had better be told.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the entry may be looked for in the switch and in the server's memory by turns without
/// a pause: once there, and once back if it has just moved.
const HOPS_AT_ONCE: u8 = 2;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Nothing if nobody waits for it any more.
    pub ticket: Option<Ticket>,
    pub goal: Goal,
    walk: Walk,
    /// It was asked for before, and nobody knows whether it was done.
    pub again: bool,
    /// Something was asked for it.
    pub is_posted: bool,
    /// What is left to be done when it has ended.
    pub owed: Option<Goal>,
    /// The pool's spare buffer frame.
    spare: u32,
    pub waits: Waits,
    pause: Duration,
    patience_ends: Instant,
    hops: u8,
}

/// The machine that gets on with it.
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
    /// For the completion in the slot, until then at most.
    Data(Response, Instant),
    /// For the connection that it needs to be made afresh.
    Renewal(Connection),
    /// For the work request with this id, and what it brings.
    Server(u64, Fruit),
    /// For time, then goes on with this.
    Until(Instant, Then),
}

/// A connection of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Connection {
    Switch,
    Server,
}

/// What a work request to the server brings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fruit {
    Entry,
    Swapped,
}

/// What comes after a pause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// The machine is told.
    Wake,
    /// This.
    Do(Step),
    /// It begins, if nothing is owed for its page any more.
    Begin,
}

impl Task {
    /// A task that begins with this operation, in the switch, and its first step.
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

    /// Begins anew, since the connection to who had to answer was made afresh; to another
    /// directory, if it `is_new`. Nothing if that has nothing to be done any more.
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

    /// What is left to be done when nobody waits for it any more.
    pub fn owes(&self) -> Option<Goal> {
        let owes = match &self.walk {
            Walk::Switch(walk) => walk.owes(),
            Walk::Fallback(walk) => walk.owes(),
        };
        owes.filter(|_| self.is_posted)
    }

    /// Whether it has been tried for so long that it should end. What is owed is tried until it is
    /// done.
    pub fn is_tired(&self, now: Instant) -> bool {
        self.ticket.is_some() && now >= self.patience_ends
    }

    /// Tells the machine what has happened.
    pub fn next(&mut self, event: Event) -> Step {
        match &mut self.walk {
            Walk::Switch(walk) => walk.next(event),
            Walk::Fallback(walk) => walk.next(event),
        }
    }

    /// Waits for a while, and longer the next time.
    pub fn pause(&mut self, now: Instant, then: Then) -> Waits {
        let until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_LAST);
        Waits::Until(until, then)
    }

    /// The entry is elsewhere: another machine goes on, at once or after a pause.
    pub fn hop(&mut self, me: u16, now: Instant, step: Step, goal: Goal) -> Result<Step, Waits> {
        if self.hops >= HOPS_AT_ONCE {
            if self.is_tired(now) {
                return Ok(Step::End(Answer::Gone, NO_LATCH));
            }
            self.hops = 0;
            return Err(self.pause(now, Then::Do(step)));
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

    /// When its pause is over, if it pauses, or its patience with a connection.
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

/// Whether a queue pair took a work request.
pub(super) enum Submitted {
    /// It did.
    Yes,
    /// Its queue is full.
    Full,
    /// It will take none any more.
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
