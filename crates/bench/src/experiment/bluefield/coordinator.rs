//! The coordinator of the index on a core of the compute node.

use super::Core;
use super::metered::{Metered, Outbox};
use crate::experiment::tally::Shared;
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::index::{Coordinator, CoordinatorEvent, PartitionMap};
use rackweave_rack::Attached;
use rackweave_sim::Category;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// What a coordinator has done.
#[derive(Clone, PartialEq, Debug)]
pub struct Log {
    /// The newest map.
    pub map: PartitionMap,
    /// When ranges changed hands, and how many entries each had.
    pub moves: Vec<(Instant, u64)>,
}

/// The coordinator.
pub struct CoordinatorActor {
    /// The machine, with its links.
    pub coordinator: Attached<Coordinator>,
    /// Whose core it runs on.
    pub core: Core,
    /// What it has posted in this turn.
    pub outbox: Outbox,
    /// What it does.
    pub log: Rc<RefCell<Log>>,
    /// Where failures are told.
    pub tally: Shared,
}

impl CoordinatorActor {
    fn note(&self, now: Instant, event: &CoordinatorEvent) {
        match event {
            CoordinatorEvent::Moved(moved) => {
                let mut log = self.log.borrow_mut();
                log.map = moved.map.clone();
                log.moves.push((now, moved.entries));
            }
            CoordinatorEvent::Ended(Err(error)) => {
                self.tally.borrow_mut().fail(format!("a move: {error}"));
            }
            CoordinatorEvent::Gone(endpoint) => {
                let failure = format!("{endpoint} does not answer the coordinator");
                self.tally.borrow_mut().fail(failure);
            }
            _ => {}
        }
    }
}

impl Actor for CoordinatorActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let mut outbox = core::mem::take(&mut self.outbox);
        if let Err(failure) = outbox.flush(context.nic()) {
            self.tally.borrow_mut().fail(failure);
            return Step::Done;
        }
        let mut verbs = Metered::new(context.nic(), &mut outbox, self.core);
        while let Some(event) = self.coordinator.poll(now, &mut verbs) {
            self.note(now, &event);
        }
        let spent = verbs.spent();
        self.outbox = outbox;
        context.charge(Category::Communication, spent);
        if spent > Duration::ZERO {
            return Step::Compute(Duration::ZERO);
        }
        match self.coordinator.poll_timeout() {
            Some(at) => Step::WaitUntil(at),
            None => Step::WaitForPacket,
        }
    }
}
