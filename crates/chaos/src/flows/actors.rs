//! Producers and consumers of a campaign: at odd paces, telling the checker everything.

use super::History;
use super::plan::Plan;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_sim::checkers::{FlowHistory, stamp};
use rackweave_sim::world::{Actor, Context, Step};

/// A producer with a ring for each consumer.
pub(super) struct Feeder {
    index: u16,
    rings: Vec<Producer>,
    /// Items still to be sent, by ring.
    left: Vec<u64>,
    items: u64,
    item: Vec<u8>,
    pause_max: Duration,
    seed: u64,
    rng: Rng,
    history: History,
}

impl Feeder {
    pub fn new(index: u16, rings: Vec<Producer>, plan: &Plan, history: History) -> Self {
        Self {
            index,
            left: vec![plan.items; rings.len()],
            items: plan.items,
            item: vec![0; plan.spec.item_size as usize],
            pause_max: plan.pause_max,
            seed: plan.seed,
            rng: Rng::new(plan.seed ^ u64::from(index)).fork("feeder"),
            rings,
            history,
        }
    }

    /// Sends one item to a ring that has room, beginning at a random one.
    fn push_one(&mut self) -> Result<(), PushError> {
        let rings = self.rings.len();
        let first = self.rng.below(rings as u64) as usize;
        let mut result = Err(PushError::Finished);
        for at in (0..rings).map(|offset| (first + offset) % rings) {
            if self.left[at] == 0 {
                continue;
            }
            let (destination, sequence) = (at as u16, self.items - self.left[at]);
            stamp::fill(&mut self.item, self.index, destination, sequence, self.seed);
            result = self.rings[at].push(&self.item);
            if result.is_ok() {
                let hash = FlowHistory::item_hash(&self.item);
                self.history
                    .borrow_mut()
                    .push(self.index, destination, sequence, hash);
                self.left[at] -= 1;
                return result;
            }
            if result == Err(PushError::Aborted) {
                return result;
            }
        }
        result
    }
}

impl Actor for Feeder {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        match self.push_one() {
            Ok(()) => Step::Compute(Duration::from_nanos(
                1 + self.rng.below(self.pause_max.as_nanos()),
            )),
            Err(PushError::Full) => Step::WaitForPacket,
            Err(PushError::Finished) => {
                self.rings.iter_mut().for_each(Producer::finish);
                self.history.borrow_mut().close(self.index);
                Step::Done
            }
            Err(PushError::Aborted) => {
                self.history.borrow_mut().abort();
                Step::Done
            }
            Err(PushError::TooLong { .. }) => unreachable!("items fit their slots"),
        }
    }
}

/// A consumer.
pub(super) struct Taker {
    index: u16,
    ring: Consumer,
    pause_max: Duration,
    rng: Rng,
    history: History,
}

impl Taker {
    pub fn new(index: u16, ring: Consumer, plan: &Plan, history: History) -> Self {
        let rng = Rng::new(plan.seed ^ u64::from(index)).fork("taker");
        Self {
            index,
            ring,
            pause_max: plan.pause_max,
            rng,
            history,
        }
    }
}

impl Actor for Taker {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        let item_size = self.ring.item_size() as usize;
        let wanted = self.rng.between(1, 4) as u32;
        let taken = match self.ring.peek(wanted) {
            Taken::Items(items) => {
                let mut history = self.history.borrow_mut();
                items
                    .chunks_exact(item_size)
                    .for_each(|item| history.pop(self.index, item));
                (items.len() / item_size) as u32
            }
            Taken::Empty => return Step::WaitForPacket,
            Taken::Ended => {
                self.history.borrow_mut().end(self.index);
                return Step::Done;
            }
            Taken::Aborted => {
                self.history.borrow_mut().abort();
                return Step::Done;
            }
        };
        self.ring.release(taken);
        let pause = self.rng.below(self.pause_max.as_nanos()) * u64::from(taken);
        Step::Compute(Duration::from_nanos(1 + pause))
    }
}
