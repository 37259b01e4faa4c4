//! A core that serves flows: the CPU's part.

use super::Words;
use crate::baseline::requests::{Remote, poll, post};
use crate::baseline::set_up::NodeEnd;
use crate::harness::drive::{Failure, Program};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Qpn};
use rackweave_endpoint::flow::RingLayout;
use rackweave_sim::Category;
use rackweave_sim::world::{Context, Step};
use rackweave_verbs::{CompletionOpcode, Region};
use rackweave_wire::fabric::ring::{
    ITEMS, NODE_WORD, NodeWord, SWITCH_WORD, SwitchState, SwitchWord, run_length,
};
use std::collections::VecDeque;

/// Completions taken per flow in one round over the flows: more than a round can produce, so that
/// none accumulate.
const POLL: usize = 4;

/// Bytes of the host's memory that one flow needs: a word for the result of READs of the consumer's
/// tail, and a word for each head that may be in flight. A word in flight must not change.
pub fn scratch_bytes(layout: RingLayout) -> u64 {
    8 + 8 * u64::from(layout.slots)
}

/// One flow as its core tracks it. Items are counted modulo 2^32, as in the rings' words.
pub struct Link {
    /// The producer's ring.
    ring: Region,
    /// The consumer's ring.
    remote: Remote,
    /// Items posted.
    sent: u32,
    /// The consumer's tail when last read.
    tail_seen: u32,
    reading: bool,
    /// The last item of each WRITE in flight, oldest first.
    under_way: VecDeque<u32>,
    /// The offset of its words in the host's memory.
    scratch: u64,
}

impl Link {
    /// Flow number `at` of its core, from the ring in `from` to the one in `to`, over `qpn`. Opens
    /// both rings, as the controller does for zero-sided flows.
    pub fn new(qpn: Qpn, (from, to): (&Region, &Region), at: usize, layout: RingLayout) -> Self {
        store(from, SWITCH_WORD, 0);
        store(to, SWITCH_WORD, 0);
        Self {
            ring: from.clone(),
            remote: Remote::new(qpn, to),
            sent: 0,
            tail_seen: 0,
            reading: false,
            under_way: VecDeque::new(),
            scratch: at as u64 * scratch_bytes(layout),
        }
    }
}

/// A core with its flows.
pub struct Server {
    pub layout: RingLayout,
    /// Maximum items of one WRITE.
    pub batch: u32,
    pub words: Words,
    /// Maximum WRITEs of items in flight, per flow.
    pub window: u32,
    /// Its completions, and its memory: see [`scratch_bytes`].
    pub node_end: NodeEnd,
    pub links: Vec<Link>,
    /// The flow to visit next.
    pub turn: usize,
}

impl Program for Server {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        if self.turn == 0 {
            self.complete(context)?;
        }
        self.visit(context)?;
        self.turn = (self.turn + 1) % self.links.len();
        Ok(Step::Compute(Duration::ZERO))
    }
}

impl Server {
    /// Takes completions: WRITEs free slots of the producer, READs return the consumer's tail.
    fn complete(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let limit = POLL * self.links.len();
        for completion in poll(context, self.node_end.cq, limit)? {
            let link = &mut self.links[completion.id as usize];
            if completion.opcode == CompletionOpcode::Read {
                link.reading = false;
                link.tail_seen = counter(&self.node_end.region, link.scratch);
                continue;
            }
            let done = link.under_way.pop_front().ok_or("a completion too many")?;
            store(&link.ring, SWITCH_WORD, done);
            // A store to memory other than the core's own needs no answer; issuing it takes about a
            // cache's latency.
            let cost = context.cpu().cache_latency;
            context.charge(Category::Communication, cost);
            // The producing kernels spin on their tails.
            context.wake_neighbours();
        }
        Ok(())
    }

    /// Visits one flow and posts what can be posted.
    fn visit(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let look = self.words.look(context.cpu());
        context.charge(Category::Communication, look);
        let RingLayout { slots, .. } = self.layout;
        let (id, scratch) = (self.turn as u64, &self.node_end.region);
        let link = &mut self.links[self.turn];
        let ready = counter(&link.ring, NODE_WORD).wrapping_sub(link.sent);
        let free = slots - link.sent.wrapping_sub(link.tail_seen);
        let both = (link.sent, slots);
        let items = run_length(ready, free, both, both, self.batch);
        if items > 0 && link.under_way.len() < self.window as usize {
            let size = u64::from(self.layout.item_size);
            let at = ITEMS + u64::from(link.sent % slots) * size;
            let segment = link.ring.segment(at, items * self.layout.item_size);
            let mut data = link.remote.write(id, at, segment);
            data.signaled = false;
            post(context, link.remote.qpn, data)?;
            link.sent = link.sent.wrapping_add(items);
            link.under_way.push_back(link.sent);
            let word = link.scratch + 8 + 8 * u64::from(link.sent % slots);
            store(scratch, word, link.sent);
            let head = link.remote.write(id, SWITCH_WORD, scratch.segment(word, 8));
            post(context, link.remote.qpn, head)?;
        }
        let free = slots - link.sent.wrapping_sub(link.tail_seen);
        if free <= slots / 2 && !link.reading {
            link.reading = true;
            let segment = scratch.segment(link.scratch, 8);
            let read = link.remote.read(id, NODE_WORD, &[segment]);
            post(context, link.remote.qpn, read)?;
        }
        Ok(())
    }
}

/// The counter of the word that an end of a ring has written, zero if it has not yet.
fn counter(region: &Region, offset: u64) -> u32 {
    let word = region.block.word(offset as usize).load(Ordering::Acquire);
    NodeWord::try_from(u64::from_le(word)).map_or(0, |word| word.counter)
}

/// Writes the word that the switch writes in a zero-sided flow.
fn store(region: &Region, offset: u64, counter: u32) {
    let state = SwitchState::Open;
    let word = u64::from(SwitchWord { counter, state }).to_le();
    region
        .block
        .word(offset as usize)
        .store(word, Ordering::Release);
}
