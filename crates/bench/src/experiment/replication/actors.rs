//! The programs of the simulated nodes: cores that make items in a ring, cores that read them.
//!
//! Memory is touched at the beginning of a step and its time passes afterwards, so both ends tell
//! the switch in the step after.

use super::{Plan, Problem};
use crate::baseline::two_sided::log::Log;
use crate::baseline::two_sided::message::{self, Stamp};
use core::cell::RefCell;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_sim::stream_time;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The cores that make items in one ring, each its share of every item.
pub struct Source {
    ring: Producer,
    plan: Plan,
    seed: u64,
    index: u32,
    next: u64,
    /// Whether an item is written whose time passes, so that it is not announced yet.
    is_written: bool,
    problem: Problem,
}

impl Source {
    /// The cores of producer `index`, which makes all its items of `plan`.
    pub fn new(ring: Producer, plan: &Plan, seed: u64, index: u32, problem: &Problem) -> Self {
        Self {
            ring,
            plan: *plan,
            seed,
            index,
            next: 0,
            is_written: false,
            problem: problem.clone(),
        }
    }
}

impl Actor for Source {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        if core::mem::take(&mut self.is_written) {
            self.ring.commit(1);
        }
        if self.next == self.plan.items {
            self.ring.finish();
            return Step::Done;
        }
        match self.ring.reserve(1) {
            Ok(mut slot) => {
                let stamp = Stamp {
                    producer: self.index,
                    number: self.next,
                };
                let mut item = vec![0; slot.len()];
                message::write(&mut item, stamp, 0, self.seed);
                slot.copy_from(&item);
                self.next += 1;
                self.is_written = true;
                let bytes = self.plan.item_bytes.div_ceil(self.plan.cores);
                Step::Compute(stream_time(context.cpu(), u64::from(bytes)))
            }
            Err(PushError::Full) => Step::WaitForPacket,
            Err(error) => {
                let mut problem = self.problem.borrow_mut();
                problem.get_or_insert(format!("producer {}: {error}", self.index));
                Step::Done
            }
        }
    }
}

/// The cores that read items in one ring, each its share of every item.
pub struct Sink {
    ring: Consumer,
    cores: u32,
    seed: u64,
    /// The item whose time passes.
    taken: Option<Stamp>,
    log: Rc<RefCell<Log>>,
    problem: Problem,
}

impl Sink {
    /// The cores of a consumer, and what they note.
    pub fn new(
        ring: Consumer,
        plan: &Plan,
        seed: u64,
        problem: &Problem,
    ) -> (Self, Rc<RefCell<Log>>) {
        let log = Rc::new(RefCell::new(Log::default()));
        let sink = Self {
            ring,
            cores: plan.cores,
            seed,
            taken: None,
            log: log.clone(),
            problem: problem.clone(),
        };
        (sink, log)
    }

    fn fail(&self, text: &str) -> Step {
        self.problem.borrow_mut().get_or_insert(text.into());
        Step::Done
    }
}

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(stamp) = self.taken.take() {
            self.ring.release(1);
            self.log.borrow_mut().note(context.now(), stamp);
        }
        match self.ring.peek(1) {
            Taken::Items(item) => match message::read(&item.to_vec(), self.seed) {
                Some((stamp, _)) => {
                    let bytes = (item.len() as u64).div_ceil(u64::from(self.cores));
                    let time = stream_time(context.cpu(), bytes);
                    self.taken = Some(stamp);
                    Step::Compute(time)
                }
                None => self.fail("an item came damaged"),
            },
            Taken::Empty => Step::WaitForPacket,
            Taken::Ended => Step::Done,
            Taken::Aborted => self.fail("the flow was broken off"),
        }
    }
}
