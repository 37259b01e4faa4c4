//! The programs of the simulated nodes: cores that write items into a ring, cores that read them.
//!
//! Memory is accessed at the beginning of a step and its time passes afterwards, so both ends
//! notify the switch in the next step.

use super::ReplicationPlan;
use crate::baseline::two_sided::log::Log;
use crate::harness::drive::{Failure, Program};
use core::cell::RefCell;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_sim::checkers::stamp::{self, Stamp};
use rackweave_sim::stream_time;
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

/// The cores that write items into one ring, each its share of every item.
pub struct ItemSource {
    pub(super) ring: Producer,
    pub(super) plan: ReplicationPlan,
    pub(super) seed: u64,
    /// The number of this producer.
    pub(super) index: u16,
    /// The next item.
    pub(super) next: u64,
    /// Whether a written item's time is still passing, so that it is not announced yet.
    pub(super) is_written: bool,
}

impl Program for ItemSource {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        if core::mem::take(&mut self.is_written) {
            self.ring.commit(1);
        }
        if self.next == self.plan.items {
            self.ring.finish();
            return Ok(Step::Done);
        }
        match self.ring.reserve(1) {
            Ok(mut slot) => {
                let mut item = vec![0; slot.len()];
                stamp::fill(&mut item, self.index, 0, self.next, self.seed);
                slot.copy_from(&item);
                self.next += 1;
                self.is_written = true;
                let bytes = self.plan.item_bytes.div_ceil(self.plan.cores);
                Ok(Step::Compute(stream_time(context.cpu(), u64::from(bytes))))
            }
            Err(PushError::Full) => Ok(Step::WaitForPacket),
            Err(error) => Err(format!("producer {}: {error}", self.index)),
        }
    }
}

/// The cores that read items in one ring, each its share of every item.
pub struct Sink {
    pub(super) ring: Consumer,
    /// Cores that share an item.
    pub(super) cores: u32,
    pub(super) seed: u64,
    /// The item whose time is passing.
    pub(super) taken: Option<Stamp>,
    pub(super) log: Rc<RefCell<Log>>,
}

impl Program for Sink {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        if let Some(stamp) = self.taken.take() {
            self.ring.release(1);
            self.log.borrow_mut().note(context.now(), stamp);
        }
        match self.ring.peek(1) {
            Taken::Items(item) => {
                let stamp = stamp::check(&item.to_vec(), self.seed);
                self.taken = Some(stamp.map_err(|error| error.to_string())?);
                let bytes = (item.len() as u64).div_ceil(u64::from(self.cores));
                Ok(Step::Compute(stream_time(context.cpu(), bytes)))
            }
            Taken::Empty => Ok(Step::WaitForPacket),
            Taken::Ended => Ok(Step::Done),
            Taken::Aborted => Err("the flow was broken off".into()),
        }
    }
}
