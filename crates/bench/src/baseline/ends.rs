//! The two ends of a shuffle as a worker sees them, independent of how the bytes are moved.
//!
//! A shuffle runs in phases (a join's build side, then its probe side). A consumer gets all tuples
//! of a phase before the end of the phase, and no tuple of the next phase before that.

use super::tuples;
use crate::harness::prelude::*;
use rackweave_endpoint::flow::Partitioner;

/// The sending end, into which a worker puts tuples.
pub trait Outlet {
    /// Adds a tuple to the output for the destination of `key`. False if there is no space for it
    /// now: then nothing was added.
    ///
    /// # Errors
    /// If the shuffle was aborted.
    fn push(&mut self, context: &mut Context<'_>, key: u64, tuple: &[u8]) -> Result<bool, Failure>;

    /// Sends the rest of this phase and ends it. False if it must be called again.
    ///
    /// # Errors
    /// If the shuffle was aborted.
    fn end_phase(&mut self, context: &mut Context<'_>) -> Result<bool, Failure>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    Tuples(u64),
    Empty,
    /// The phase has ended; later tuples belong to the next one.
    PhaseEnded,
}

/// The receiving end, from which a worker takes tuples.
pub trait Inlet {
    /// Passes the bytes of some tuples to `sink`, which returns their number. They are free
    /// afterwards.
    ///
    /// # Errors
    /// If the shuffle was aborted, or the received data is invalid.
    fn take(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut dyn FnMut(&[u8]) -> u64,
    ) -> Result<Took, Failure>;
}

pub type Ends = (Box<dyn Outlet>, Box<dyn Inlet>);

/// Rings that the switch empties: one flow per phase.
pub struct FlowOutlet {
    phases: VecDeque<Partitioner>,
    /// Tuples that an item holds.
    rows_max: u64,
    pushed: u64,
}

/// Rings that the switch fills: one flow per phase.
pub struct FlowInlet {
    phases: VecDeque<Consumer>,
    tuple_size: usize,
}

impl FlowOutlet {
    /// An outlet into the flows of some phases, of tuples of `tuple_size` bytes in items of
    /// `item_size`.
    pub fn new(phases: Vec<Partitioner>, tuple_size: usize, item_size: usize) -> Self {
        Self {
            phases: phases.into(),
            rows_max: (item_size.saturating_sub(ITEM_HEADER) / tuple_size).max(1) as u64,
            pushed: 0,
        }
    }
}

impl Outlet for FlowOutlet {
    fn push(&mut self, context: &mut Context<'_>, key: u64, tuple: &[u8]) -> Result<bool, Failure> {
        let Some(phase) = self.phases.front_mut() else {
            return Err("a tuple after the last phase".into());
        };
        match phase.push(key, |bytes| bytes.copy_from_slice(tuple)) {
            Ok(()) => {
                self.pushed += 1;
                if self.pushed.is_multiple_of(self.rows_max) {
                    // Once per item the core accesses the ring's words, which the NIC reads and
                    // writes.
                    context.charge(Category::Communication, context.cpu().cache_latency);
                }
                Ok(true)
            }
            Err(PushError::Full) => {
                // The tail is read again, whether or not it has moved.
                context.charge(Category::Communication, context.cpu().cache_latency);
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn end_phase(&mut self, context: &mut Context<'_>) -> Result<bool, Failure> {
        let Some(phase) = self.phases.front_mut() else {
            return Ok(true);
        };
        context.charge(Category::Communication, context.cpu().cache_latency);
        match phase.finish() {
            Ok(()) => {
                self.phases.pop_front();
                Ok(true)
            }
            Err(PushError::Full) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl FlowInlet {
    pub fn new(phases: Vec<Consumer>, tuple_size: usize) -> Self {
        Self {
            phases: phases.into(),
            tuple_size,
        }
    }
}

impl Inlet for FlowInlet {
    fn take(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut dyn FnMut(&[u8]) -> u64,
    ) -> Result<Took, Failure> {
        let Some(ring) = self.phases.front_mut() else {
            return Ok(Took::PhaseEnded);
        };
        let looked = match ring.peek(1) {
            Taken::Items(item) => {
                let item = item.to_vec();
                let rows = Partitioner::rows(&item, self.tuple_size);
                let rows = rows.ok_or("an item that is none")?.count();
                let count = sink(&item[ITEM_HEADER..][..rows * self.tuple_size]);
                ring.release(1);
                Took::Tuples(count)
            }
            Taken::Empty => Took::Empty,
            Taken::Ended => {
                self.phases.pop_front();
                Took::PhaseEnded
            }
            Taken::Aborted => return Err("the flow was broken off".into()),
        };
        let cost = match looked {
            Took::Empty => tuples::unchanged(context.cpu()),
            _ => context.cpu().cache_latency,
        };
        context.charge(Category::Communication, cost);
        Ok(looked)
    }
}
