//! A shuffle that the workers' own cores drive: buffered one-sided WRITEs, as in DFI.
//!
//! Every worker has a ring of segments in the memory of every destination. It collects tuples in a
//! local segment per destination. A full one is sent as a WRITE of the segment with a footer; the
//! destination polls the footers of all its rings. A destination counts in its own memory what it
//! has consumed; a worker that runs short of free segments READs that counter, ahead of time if it
//! can. Some of the WRITEs are signaled, so that local segments can be reused.
//!
//! Source: Thostrup et al., DFI: The Data Flow Interface for High-Speed Networks, SIGMOD 2021, and
//! its public code (`BufferWriter`, flow optimisation "bandwidth"), which also sends a node's
//! tuples for itself through the NIC. Where that code waits, this one continues with other work.

use super::ends::{Inlet, Outlet, Took};
use super::tuples;
use super::verbs::{NodeEnd, Remote, connect, poll};
use crate::harness::prelude::*;
use core::sync::atomic::Ordering::{Acquire, Release};
use rackweave_base::memory::{ReadSlots, WriteSlots};
use rackweave_verbs::PostError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of tuples in a segment.
    pub segment_bytes: usize,
    /// Segments of a ring at a destination, a power of two.
    pub segments: u32,
    /// Local segments of a worker for one destination, a power of two, at least two.
    pub source_segments: u32,
    /// Bytes of a tuple, a divisor of those of a segment.
    pub tuple_size: usize,
}

/// Bytes of a footer: tuple bytes and flags (32 bits each), then the segment's number from one
/// (64 bits), which arrives last.
const FOOTER: usize = 16;

/// A segment and its footer take whole cache lines.
const LINE: usize = 64;

/// The flag of a worker's last segment of a phase.
const PHASE_END: u32 = 1;

/// In a completion's id: the request was a READ of a counter.
const COUNTER_READ: u64 = 1 << 63;

impl Shape {
    fn stride(&self) -> usize {
        self.segment_bytes + LINE
    }

    fn ring_bytes(&self) -> usize {
        // The counter of consumed segments has a cache line of its own.
        LINE + self.stride() * self.segments as usize
    }
}

pub struct Sender {
    shape: Shape,
    node_end: NodeEnd,
    outputs: Vec<Output>,
    ended: usize,
}

struct Output {
    /// The memory of the destination, with the start of this worker's ring.
    remote: Remote,
    ring: u64,
    local: WriteSlots,
    local_offset: u64,
    /// The offset to which the counter is READ.
    counter_offset: u64,
    /// Segments posted.
    written: u64,
    /// Segments whose WRITE is known to be complete.
    completed: u64,
    /// Tuple bytes in the segment being filled.
    used: usize,
    /// When the counter was last READ, in segments written; `None` if that was answered long ago.
    asked_at: Option<u64>,
    /// Whether a signaled READ of the counter is in flight.
    reading: bool,
}

/// Makes the rings of `producers` at `consumers`, nodes that may appear more than once.
pub fn mesh(
    rack: &mut SimulatedRack,
    producers: &[NodeId],
    consumers: &[NodeId],
    shape: Shape,
) -> Result<(Vec<Sender>, Vec<Receiver>)> {
    let mut receivers: Vec<Receiver> = Vec::new();
    for &node in consumers {
        let bytes = shape.ring_bytes() * producers.len();
        let neighbour = receivers.iter().find(|other| other.node_end.node == node);
        let node_end = match neighbour.map(|other| other.node_end.pd) {
            Some(pd) => NodeEnd::in_domain(rack, node, pd, bytes, 1)?,
            None => NodeEnd::new(rack, node, bytes, 1)?,
        };
        receivers.push(Receiver::new(node_end, producers.len(), shape));
    }
    let local_bytes = shape.stride() * shape.source_segments as usize + LINE;
    let sends = (shape.source_segments + 2) * consumers.len() as u32;
    let mut senders = Vec::new();
    for (producer, &node) in producers.iter().enumerate() {
        let bytes = local_bytes * consumers.len();
        let node_end = NodeEnd::new(rack, node, bytes, 2 * sends)?;
        // One queue pair per worker and node, as in DFI.
        let mut connected: Vec<(NodeId, Qpn)> = Vec::new();
        let mut outputs = Vec::new();
        for (consumer, receiver) in receivers.iter().enumerate() {
            let target = &receiver.node_end;
            let known = connected.iter().find(|(node, _)| *node == target.node);
            let qpn = match known {
                Some(&(_, qpn)) => qpn,
                None => connect(rack, &node_end, target, (sends, 1))?.0,
            };
            connected.push((target.node, qpn));
            let at = consumer * local_bytes;
            let (block, count) = (node_end.region.block.clone(), shape.source_segments);
            outputs.push(Output {
                remote: Remote::new(qpn, &target.region),
                ring: (producer * shape.ring_bytes()) as u64,
                local: WriteSlots::new(block, at + LINE, shape.stride(), count),
                local_offset: (at + LINE) as u64,
                counter_offset: at as u64,
                written: 0,
                completed: 0,
                used: 0,
                asked_at: None,
                reading: false,
            });
        }
        senders.push(Sender {
            shape,
            node_end,
            outputs,
            ended: 0,
        });
    }
    Ok((senders, receivers))
}

impl Sender {
    fn poll(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        for completion in poll(context, self.node_end.cq, 32)? {
            let output = (completion.id & !COUNTER_READ) >> 40;
            let output = &mut self.outputs[output as usize];
            if completion.id & COUNTER_READ != 0 {
                output.reading = false;
            } else {
                let low = (1 << 40) - 1;
                output.completed = output.completed.max(completion.id & low);
            }
        }
        Ok(())
    }

    /// Whether the local segment of `to` may be filled.
    fn has_segment(&mut self, context: &mut Context<'_>, to: usize) -> Result<bool, Failure> {
        let all = u64::from(self.shape.source_segments);
        if self.outputs[to].written - self.outputs[to].completed == all {
            self.poll(context)?;
        }
        Ok(self.outputs[to].written - self.outputs[to].completed < all)
    }

    /// Whether the ring of `to` has a free segment. READs its counter when that is due: once at
    /// half and once at a quarter of the ring ahead of time, and always when no segment is free.
    fn has_credit(&mut self, context: &mut Context<'_>, to: usize) -> Result<bool, Failure> {
        let all = u64::from(self.shape.segments);
        // The NIC writes the word that is read here.
        context.charge(Category::Communication, context.cpu().cache_latency);
        let word = self.outputs[to].counter_offset as usize;
        let consumed = self.node_end.region.block.word(word).load(Acquire);
        let output = &self.outputs[to];
        let free = all - (output.written - consumed);
        if free == 0 {
            if output.reading {
                self.poll(context)?;
            }
            if !self.outputs[to].reading {
                self.read_counter(context, to, true)?;
            }
            return Ok(false);
        }
        let asked_lately = output
            .asked_at
            .is_some_and(|at| output.written - at < all / 4);
        if free <= all / 2 && !asked_lately && !output.reading {
            self.read_counter(context, to, false)?;
        }
        Ok(true)
    }

    fn read_counter(
        &mut self,
        context: &mut Context<'_>,
        to: usize,
        signaled: bool,
    ) -> Result<(), Failure> {
        let output = &mut self.outputs[to];
        let segment = self.node_end.region.segment(output.counter_offset, 8);
        let id = COUNTER_READ | (to as u64) << 40;
        let mut request = output.remote.read(id, output.ring, &[segment]);
        request.signaled = signaled;
        match context.post_send(output.remote.qpn, request) {
            Ok(()) => {
                output.asked_at = Some(output.written);
                output.reading = signaled;
                Ok(())
            }
            // The completions that free queue slots also wake the worker.
            Err(PostError::Full(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends the segment of `to`, full or not. False if the ring there is full.
    fn flush(&mut self, context: &mut Context<'_>, to: usize, flags: u32) -> Result<bool, Failure> {
        if !self.has_segment(context, to)? || !self.has_credit(context, to)? {
            return Ok(false);
        }
        let shape = self.shape;
        let output = &mut self.outputs[to];
        let number = output.written + 1;
        let mut slot = output.local.bytes_mut(output.written as u32, 1);
        let mut footer = slot.slice(shape.segment_bytes..shape.segment_bytes + FOOTER);
        footer.write(0, &(output.used as u32).to_le_bytes());
        footer.write(4, &flags.to_le_bytes());
        footer.write(8, &number.to_le_bytes());
        let stride = shape.stride() as u64;
        let local = output.written % u64::from(shape.source_segments);
        let remote = output.written % u64::from(shape.segments);
        let segment = self.node_end.region.segment(
            output.local_offset + local * stride,
            (shape.segment_bytes + FOOTER) as u32,
        );
        let id = (to as u64) << 40 | number;
        let there = output.ring + LINE as u64 + remote * stride;
        let mut request = output.remote.write(id, there, segment);
        request.signaled = number.is_multiple_of(u64::from(shape.source_segments / 2));
        match context.post_send(output.remote.qpn, request) {
            Ok(()) => {
                output.written = number;
                output.used = 0;
                Ok(true)
            }
            Err(PostError::Full(_)) => {
                self.poll(context)?;
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Outlet for Sender {
    fn push(&mut self, context: &mut Context<'_>, key: u64, tuple: &[u8]) -> Result<bool, Failure> {
        let to = tuples::destination(key, self.outputs.len());
        let Shape {
            segment_bytes,
            tuple_size,
            ..
        } = self.shape;
        let used = self.outputs[to].used;
        if used + tuple_size > segment_bytes && !self.flush(context, to, 0)? {
            return Ok(false);
        }
        if self.outputs[to].used == 0 && !self.has_segment(context, to)? {
            return Ok(false);
        }
        let output = &mut self.outputs[to];
        let mut slot = output.local.bytes_mut(output.written as u32, 1);
        slot.write(output.used, tuple);
        output.used += tuple_size;
        if output.used + tuple_size > segment_bytes {
            // If no segment is free now, the next tuple for this destination tries again.
            self.flush(context, to, 0)?;
        }
        Ok(true)
    }

    fn end_phase(&mut self, context: &mut Context<'_>) -> Result<bool, Failure> {
        while self.ended < self.outputs.len() {
            if !self.flush(context, self.ended, PHASE_END)? {
                return Ok(false);
            }
            self.ended += 1;
        }
        self.ended = 0;
        Ok(true)
    }
}

pub struct Receiver {
    shape: Shape,
    node_end: NodeEnd,
    rings: Vec<Ring>,
    cursor: usize,
    ended: usize,
}

struct Ring {
    slots: ReadSlots,
    offset: usize,
    taken: u64,
    is_ended: bool,
}

impl Receiver {
    fn new(node_end: NodeEnd, producers: usize, shape: Shape) -> Self {
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
                context.charge(Category::Communication, tuples::unchanged(context.cpu()));
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

#[cfg(test)]
mod tests;
