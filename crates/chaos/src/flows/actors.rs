//! Producers and consumers of a campaign. They work at irregular speeds and report everything to
//! the checker.

use super::History;
use super::plan::FlowPlan;
use core::cell::Cell;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, PushError, Taken};
use rackweave_sim::checkers::{FlowHistory, stamp};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// How an actor ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// A producer has handed all items to the switch.
    Finished,
    /// A consumer saw the end of its stream.
    Ended,
    /// It learned that the flow is aborted.
    Aborted,
    /// A consumer left.
    Left,
}

/// State shared between the harness and an actor.
#[derive(Default, Debug)]
pub(super) struct Mark {
    pub outcome: Cell<Option<Outcome>>,
    /// The consumer must leave in its next step.
    pub shall_leave: Cell<bool>,
    /// The controller has removed the consumer.
    pub removed: Cell<bool>,
}

impl Mark {
    fn done(&self, outcome: Outcome) -> Step {
        self.outcome.set(Some(outcome));
        Step::Done
    }
}

/// Rings a doorbell with probability `chance`.
fn ring(bell: Option<&Doorbell>, chance: f64, rng: &mut Rng, context: &mut Context<'_>) {
    if let Some(bell) = bell
        && rng.chance(chance)
    {
        // On a full queue, or a switch that is about to be connected again, it relies on polling.
        let _ = context.post_send(bell.qpn(), bell.request());
    }
}

/// A producer with its rings.
pub(super) struct Feeder {
    index: u16,
    rings: Vec<Producer>,
    bells: Option<Vec<Doorbell>>,
    bell_chance: f64,
    /// Items still to be sent, by ring.
    left: Vec<u64>,
    items: u64,
    item: Vec<u8>,
    pause_max: Duration,
    seed: u64,
    rng: Rng,
    history: History,
    mark: Rc<Mark>,
}

impl Feeder {
    pub fn new(
        index: u16,
        rings: Vec<Producer>,
        bells: Option<Vec<Doorbell>>,
        plan: &FlowPlan,
        history: History,
        mark: Rc<Mark>,
    ) -> Self {
        let items = plan.items_of(index);
        Self {
            index,
            bells,
            bell_chance: plan.bell_chance,
            left: vec![items; rings.len()],
            items,
            item: vec![0; plan.spec.item_size as usize],
            pause_max: plan.pause_max,
            seed: plan.seed,
            rng: Rng::new(plan.seed ^ u64::from(index)).fork("feeder"),
            rings,
            history,
            mark,
        }
    }

    /// Sends one item to a ring with free slots, starting at a random ring; returns which.
    fn push_one(&mut self) -> Result<usize, PushError> {
        let rings = self.rings.len();
        let first = self.rng.below(rings as u64) as usize;
        let mut result = PushError::Finished;
        for at in (0..rings).map(|offset| (first + offset) % rings) {
            if self.left[at] == 0 {
                continue;
            }
            let (destination, sequence) = (at as u16, self.items - self.left[at]);
            stamp::fill(&mut self.item, self.index, destination, sequence, self.seed);
            match self.rings[at].push(&self.item) {
                Ok(()) => {
                    let hash = FlowHistory::item_hash(&self.item);
                    self.history
                        .borrow_mut()
                        .push(self.index, destination, sequence, hash);
                    self.left[at] -= 1;
                    return Ok(at);
                }
                Err(PushError::Aborted) => return Err(PushError::Aborted),
                Err(error) => result = error,
            }
        }
        Err(result)
    }

    fn ring(&mut self, at: usize, context: &mut Context<'_>) {
        let bell = self.bells.as_ref().map(|bells| &bells[at]);
        ring(bell, self.bell_chance, &mut self.rng, context);
    }
}

impl Actor for Feeder {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        match self.push_one() {
            Ok(at) => {
                self.ring(at, context);
                Step::Compute(Duration::from_nanos(
                    1 + self.rng.below(self.pause_max.as_nanos()),
                ))
            }
            Err(PushError::Full) => Step::WaitForPacket,
            Err(PushError::Finished) => {
                self.rings.iter_mut().for_each(Producer::finish);
                (0..self.rings.len()).for_each(|at| self.ring(at, context));
                self.history.borrow_mut().close(self.index);
                self.mark.done(Outcome::Finished)
            }
            Err(PushError::Aborted) => self.mark.done(Outcome::Aborted),
            Err(PushError::TooLong { .. }) => unreachable!("items fit their slots"),
        }
    }
}

/// A consumer.
pub(super) struct Taker {
    index: u16,
    /// `None` once it has left.
    ring: Option<Consumer>,
    bell: Option<Doorbell>,
    bell_chance: f64,
    pause_max: Duration,
    rng: Rng,
    history: History,
    mark: Rc<Mark>,
}

impl Taker {
    pub fn new(
        index: u16,
        ring: Consumer,
        bell: Option<Doorbell>,
        plan: &FlowPlan,
        history: History,
        mark: Rc<Mark>,
    ) -> Self {
        let rng = Rng::new(plan.seed ^ u64::from(index)).fork("taker");
        Self {
            index,
            ring: Some(ring),
            bell,
            bell_chance: plan.bell_chance,
            pause_max: plan.pause_max,
            rng,
            history,
            mark,
        }
    }
}

impl Actor for Taker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        if self.mark.shall_leave.get() && !self.mark.removed.get() {
            // From now on the flow may give the items shown to it to other consumers.
            self.history.borrow_mut().abandon_consumer(self.index);
            if let Some(ring) = self.ring.take() {
                ring.leave();
            }
            ring(self.bell.as_ref(), self.bell_chance, &mut self.rng, context);
            return self.mark.done(Outcome::Left);
        }
        let Some(consumer) = &mut self.ring else {
            return Step::Done;
        };
        let wanted = self.rng.between(1, 4) as u32;
        let history = &self.history;
        let look = |item: &[u8]| history.borrow_mut().pop(self.index, item);
        let taken = match consumer.take_each(wanted, look) {
            Taken::Items(count) => count,
            Taken::Empty => return Step::WaitForPacket,
            Taken::Ended => {
                let mut history = self.history.borrow_mut();
                if self.mark.removed.get() {
                    history.leave(self.index);
                } else {
                    history.end(self.index);
                }
                return self.mark.done(Outcome::Ended);
            }
            Taken::Aborted => return self.mark.done(Outcome::Aborted),
        };
        ring(self.bell.as_ref(), self.bell_chance, &mut self.rng, context);
        let pause = self.rng.below(self.pause_max.as_nanos()) * u64::from(taken);
        Step::Compute(Duration::from_nanos(1 + pause))
    }
}
