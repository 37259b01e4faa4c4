//! The receiving side: rings whose footers are polled in turn.

use super::{LINE, NodeEnd, PHASE_END, Shape};
use crate::baseline::cores;
use crate::baseline::ends::{Inlet, Took};
use crate::harness::drive::Failure;
use core::sync::atomic::Ordering::{Acquire, Release};
use rackweave_base::memory::ReadSlots;
use rackweave_sim::Category;
use rackweave_sim::world::Context;

/// A worker's receiving side.
pub struct Receiver {
    shape: Shape,
    pub(super) node_end: NodeEnd,
    rings: Vec<Ring>,
    /// The ring to poll next.
    cursor: usize,
    /// Rings whose phase has ended.
    ended: usize,
}

struct Ring {
    slots: ReadSlots,
    offset: usize,
    taken: u64,
    is_ended: bool,
}

impl Receiver {
    pub(super) fn new(node_end: NodeEnd, producers: usize, shape: Shape) -> Self {
        let ring = |producer: usize| {
            let offset = producer * shape.ring_bytes();
            let block = node_end.region.block.clone();
            Ring {
                slots: ReadSlots::new(block, offset + LINE, shape.stride(), shape.segments),
                offset,
                taken: 0,
                is_ended: false,
            }
        };
        let rings = (0..producers).map(ring).collect();
        Self {
            shape,
            node_end,
            rings,
            cursor: 0,
            ended: 0,
        }
    }

    /// If the next segment of a ring has arrived, returns its tuple bytes and flags.
    fn look(&self, ring: &Ring) -> Option<(usize, u32)> {
        let slot = (ring.taken % u64::from(self.shape.segments)) as usize;
        let footer = ring.offset + LINE + slot * self.shape.stride() + self.shape.segment_bytes;
        let block = &self.node_end.region.block;
        let number = u64::from_le(block.word(footer + 8).load(Acquire));
        (number == ring.taken + 1).then(|| {
            let head = u64::from_le(block.word(footer).load(Acquire));
            (head as u32 as usize, (head >> 32) as u32)
        })
    }
}

impl Inlet for Receiver {
    fn take(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut dyn FnMut(&[u8]) -> u64,
    ) -> Result<Took, Failure> {
        if self.ended == self.rings.len() {
            self.ended = 0;
            self.rings.iter_mut().for_each(|ring| ring.is_ended = false);
            return Ok(Took::PhaseEnded);
        }
        for _ in 0..self.rings.len() {
            let at = self.cursor;
            self.cursor = (at + 1) % self.rings.len();
            if self.rings[at].is_ended {
                continue;
            }
            let Some((used, flags)) = self.look(&self.rings[at]) else {
                context.charge(Category::Communication, cores::unchanged(context.cpu()));
                continue;
            };
            if used > self.shape.segment_bytes {
                return Err(format!("a footer says {used} bytes"));
            }
            context.charge(Category::Communication, context.cpu().cache_latency);
            let ring = &mut self.rings[at];
            let segment = ring.slots.bytes(ring.taken as u32, 1).slice(..used);
            let count = sink(&segment.to_vec());
            ring.taken += 1;
            if flags & PHASE_END != 0 {
                ring.is_ended = true;
                self.ended += 1;
            }
            let word = self.node_end.region.block.word(ring.offset);
            word.store(ring.taken, Release);
            return Ok(Took::Tuples(count));
        }
        Ok(Took::Empty)
    }
}
