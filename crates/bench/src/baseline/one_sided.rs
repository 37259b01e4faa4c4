//! CPU-driven one-sided WRITEs (zero-sided RDMA, section 7.1, the baseline of figure 6): kernels
//! produce into and consume from the same kind of ring as in a zero-sided flow, and cores of the
//! producers' node find the items and post the WRITEs.
//!
//! A core serves its flows in turn. For each it reads the ring's head, posts one WRITE for an item
//! (or for neighbouring items, if it batches) and after it, on the same queue pair, a WRITE of the
//! consumer's head; only that one is signalled. When it completes, the core moves the producer's
//! tail. A window of WRITEs is in flight, so that no core waits for an answer. A core computes the
//! consumer's free slots from a copy of the consumer's tail, which it refreshes by a READ when half
//! the ring is used up: the consumer's CPU has no part, as in the paper.
//!
//! The core is charged for reading the head, posting, polling for completions and moving the tail.
//! The rings and the kernels are those of zero-sided flows, with the core in place of the switch.

use crate::baseline::verbs::{NodeEnd, Remote, connect_with, poll, post, region};
use crate::harness::one_to_one::{self, ENDS, Flows, MTU};
use crate::harness::prelude::*;
use rackweave_endpoint::flow::RingLayout;
use rackweave_sim::NicModel;
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::ring::{
    ByteOrder, ITEMS, NODE_WORD, NodeWord, SWITCH_WORD, SwitchState, SwitchWord, region_bytes,
    run_length,
};

/// WRITEs of items that one flow has in flight.
const WINDOW: u32 = 32;

/// Maximum number of completions that wait for a core.
const COMPLETIONS: u32 = 4096;

/// The memory with head and tail of the producers' rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// In the device's memory, beside the items, as in the paper ("the same buffer abstraction on
    /// the GPUs"): reading a head is an uncached load over PCIe.
    Device,
    /// In the host's memory, to which the device writes them: reading a head is a load from the
    /// last level cache. The paper's kernels do not do this.
    Host,
}

impl Words {
    /// The cost of reading a head for a core.
    fn look(self, cpu: &CpuModel) -> Duration {
        match self {
            // No measurement of this direction is available: assumed equal to a read by the device
            // from the host.
            Words::Device => NicModel::default().memory_read_latency,
            Words::Host => cpu.cache_latency,
        }
    }
}

/// Runs flows that cores drive and returns the bytes per second that arrive. `flows.batch_bytes` is
/// the maximum size of one WRITE; `flows.transfers` is not used.
pub fn run(
    run: &mut Run<'_>,
    flows: Flows,
    (cores, words): (u32, Words),
    span: Span,
) -> Result<f64> {
    let mut rack = one_to_one::rack(run.seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let layout = layout(flows);
    let bytes = region_bytes(layout.item_size, layout.slots) as usize;
    let count = flows.count as usize;
    let near = NodeEnd::new(&rack, ENDS.0, 1, 1)?;
    let far = NodeEnd::new(&rack, ENDS.1, 1, 1)?;
    let attributes = PairAttributes {
        mtu: Mtu::from_bytes(MTU).unwrap_or_default(),
        ..PairAttributes::default()
    };
    // An item, a head, and the READ of the tail.
    let capacity = (2 * WINDOW + 1, 1);
    let cores = (cores as usize).clamp(1, count.max(1));
    let (mut sources, mut sinks, mut servers) = (Vec::new(), Vec::new(), Vec::new());
    for core in 0..cores {
        let flows_here = (core..count).step_by(cores);
        let scratch = scratch_bytes(layout) as usize * flows_here.len();
        let node_end = NodeEnd::in_domain(&rack, ENDS.0, near.pd, scratch, COMPLETIONS)?;
        let mut links = Vec::new();
        for _ in flows_here {
            let from = region(&rack, ENDS.0, near.pd, bytes)?;
            let to = region(&rack, ENDS.1, far.pd, bytes)?;
            let (qpn, _) = connect_with(&rack, &node_end, &far, capacity, &attributes)?;
            links.push(Link::new(qpn, (&from, &to), links.len(), layout));
            sources.push(Producer::new(&from.block, layout).or_failed("a ring")?);
            sinks.push(Consumer::new(&to.block, layout).or_failed("a ring")?);
        }
        servers.push(Server {
            layout,
            batch: (flows.batch_bytes / flows.item_size).max(1),
            words,
            node_end,
            links,
            turn: 0,
        });
    }
    rack.spawn(ENDS.0, one_to_one::kernel_source(sources, None));
    for server in servers {
        rack.spawn(ENDS.0, server);
    }
    rack.spawn(ENDS.1, one_to_one::sink(sinks, tally.clone()));
    Tally::run(&tally, run, &mut rack)?;
    tally.borrow_mut().bytes_per_second()
}

/// Rings with as many slots as fit into the bytes of a ring, rounded down to a power of two, at
/// least two.
fn layout(flows: Flows) -> RingLayout {
    let slots = (flows.ring_bytes() / flows.item_size).max(2);
    RingLayout {
        item_size: flows.item_size,
        slots: 1 << slots.ilog2(),
        order: ByteOrder::Little,
    }
}

/// Completions taken per flow in one round over the flows: more than a round can produce, so that
/// none accumulate.
const POLL: usize = 4;

/// Bytes of the host's memory that one flow needs: a word for the result of READs of the consumer's
/// tail, and a word for each head that may be in flight. A word in flight must not change.
fn scratch_bytes(layout: RingLayout) -> u64 {
    8 + 8 * u64::from(layout.slots)
}

/// One flow as its core tracks it. Items are counted modulo 2^32, as in the rings' words.
struct Link {
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
    fn new(qpn: Qpn, (from, to): (&Region, &Region), at: usize, layout: RingLayout) -> Self {
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

struct Server {
    layout: RingLayout,
    /// Maximum items of one WRITE.
    batch: u32,
    words: Words,
    /// Its completions, and its memory: see [`scratch_bytes`].
    node_end: NodeEnd,
    links: Vec<Link>,
    /// The flow to visit next.
    turn: usize,
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
        if items > 0 && link.under_way.len() < WINDOW as usize {
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

#[cfg(test)]
mod tests;
