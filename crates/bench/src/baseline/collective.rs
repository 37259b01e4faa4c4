//! A shuffle in rounds, as with MPI's collective all-to-all.
//!
//! In a round every rank first partitions until a buffer is full. Then all ranks meet at a barrier,
//! each sends its buffers to all ranks and waits for all completions, and all consume. Within a
//! rank nothing overlaps: that is what a blocking collective means.
//!
//! Best case: the barrier (a dissemination barrier of 8-byte WRITEs) also serves as the
//! clear-to-send of every pair; a buffer is sent as one WRITE of its used bytes, followed by a
//! WRITE of a footer; a rank posts all its sends at once, beginning with its own neighbour.

use super::ends::Outlet;
use super::tuples::{self, TupleCost};
use super::verbs::{NodeEnd, Remote, connect, poll, post};
use super::worker::{Ledger, Production};
use crate::harness::prelude::*;
use core::sync::atomic::Ordering::{Acquire, Release};
use rackweave_base::memory::{ReadSlots, WriteSlots};

/// A cache line: footers and barrier words have one each.
const LINE: usize = 64;

/// Bytes of a footer: tuple bytes and whether it is the rank's last round (32 bits each), then the
/// number of the round from one (64 bits).
const FOOTER: usize = 16;

/// Maximum steps of the barrier: up to 2^8 ranks.
const STEPS_MAX: usize = 8;

/// The work of every rank.
#[derive(Clone, Copy, Debug)]
pub struct CollectivePlan {
    /// Bytes of a buffer for one destination.
    pub buffer_bytes: usize,
    pub tuple_size: usize,
    /// Tuples of all ranks together.
    pub tuples: u64,
}

/// A rank: one thread on one core.
struct Rank {
    plan: CollectivePlan,
    own: usize,
    ranks: usize,
    layout: Layout,
    node_end: NodeEnd,
    /// Connections to all ranks, itself included.
    peers: Vec<Remote>,
    buffers: Buffers,
    inputs: Vec<ReadSlots>,
    production: Production,
    /// The number of the round, from one.
    round: u64,
    state: State,
    ledger: Rc<RefCell<Ledger>>,
}

struct Buffers {
    slots: Vec<WriteSlots>,
    used: Vec<usize>,
    buffer_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Partition,
    /// Waiting for the word of this step of the barrier.
    Barrier(usize),
    /// Waiting for this many completions; this many footers of ranks have been seen.
    Exchange {
        completions: usize,
        seen: usize,
    },
    /// Consuming what the rank with this number has sent.
    Consume(usize),
}

/// Offsets in a rank's region: what it sends, then what it receives.
#[derive(Clone, Copy)]
struct Layout {
    ranks: usize,
    stride: usize,
}

impl Layout {
    fn new(ranks: usize, plan: &CollectivePlan) -> Self {
        let stride = plan.buffer_bytes.next_multiple_of(LINE) + LINE;
        Self { ranks, stride }
    }

    fn output(self, to: usize) -> usize {
        to * self.stride
    }

    fn input(self, from: usize) -> usize {
        (self.ranks + from) * self.stride
    }

    /// The word that step `step` of the barrier sends, of odd and even rounds.
    fn barrier_source(self, step: usize, round: u64) -> usize {
        2 * self.ranks * self.stride + (2 * step + (round % 2) as usize) * LINE
    }

    /// The word for which this step waits.
    fn barrier_word(self, step: usize) -> usize {
        2 * self.ranks * self.stride + (2 * STEPS_MAX + step) * LINE
    }

    fn bytes(self) -> usize {
        self.barrier_word(STEPS_MAX)
    }
}

/// Starts a rank for every entry of `ranks`, nodes that may appear more than once.
pub fn spawn(
    rack: &mut Testbed,
    ranks: &[NodeId],
    plan: CollectivePlan,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<()> {
    let count = ranks.len();
    assert!(count <= 1 << STEPS_MAX, "the barrier has {STEPS_MAX} steps");
    let layout = Layout::new(count, &plan);
    let sends = 3 * count as u32 + STEPS_MAX as u32;
    let node_end = |&node: &NodeId| NodeEnd::new(rack, node, layout.bytes(), 2 * sends);
    let node_ends = ranks.iter().map(node_end).collect::<Result<Vec<_>, _>>()?;
    for (own, node_end) in node_ends.iter().enumerate() {
        let mut peers = Vec::new();
        for far in &node_ends {
            let (qpn, _) = connect(rack, node_end, far, (8, 1))?;
            peers.push(Remote::new(qpn, &far.region));
        }
        let block = &node_end.region.block;
        let slots = |at| WriteSlots::new(block.clone(), at, layout.stride, 1);
        let inputs = |at| ReadSlots::new(block.clone(), at, layout.stride, 1);
        let rank = Rank {
            plan,
            own,
            ranks: count,
            layout,
            peers,
            buffers: Buffers {
                slots: (0..count).map(|to| slots(layout.output(to))).collect(),
                used: vec![0; count],
                buffer_bytes: plan.buffer_bytes,
            },
            inputs: (0..count).map(|from| inputs(layout.input(from))).collect(),
            production: Production::share(plan.tuples, own, count, plan.tuple_size),
            node_end: node_end.clone(),
            round: 1,
            state: State::Partition,
            ledger: ledger.clone(),
        };
        rack.spawn(ranks[own], rank);
    }
    Ok(())
}

impl Outlet for Buffers {
    fn push(&mut self, _: &mut Context<'_>, key: u64, tuple: &[u8]) -> Result<bool, Failure> {
        let to = tuples::destination(key, self.used.len());
        let used = self.used[to];
        if used + tuple.len() > self.buffer_bytes {
            return Ok(false);
        }
        self.slots[to].bytes_mut(0, 1).write(used, tuple);
        self.used[to] += tuple.len();
        Ok(true)
    }

    fn end_phase(&mut self, _: &mut Context<'_>) -> Result<bool, Failure> {
        Ok(true)
    }
}

impl Program for Rank {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let again = Ok(Step::Compute(Duration::ZERO));
        match self.state {
            State::Partition => {
                let pushed = self
                    .production
                    .batch(context, &mut self.buffers, tuples::make)?;
                if pushed == 0 || self.production.is_done() {
                    self.state = State::Barrier(0);
                    self.enter_barrier(context, 0)?;
                }
                again
            }
            State::Barrier(step) => {
                let word = self.layout.barrier_word(step);
                if self.word(word) < self.round {
                    context.charge(Category::Communication, tuples::unchanged(context.cpu()));
                    return Ok(Step::WaitForPacket);
                }
                context.charge(Category::Communication, context.cpu().cache_latency);
                self.enter_barrier(context, step + 1)?;
                again
            }
            State::Exchange { .. } => self.exchange(context),
            State::Consume(from) => self.consume(context, from),
        }
    }
}

impl Rank {
    fn word(&self, offset: usize) -> u64 {
        u64::from_le(self.node_end.region.block.word(offset).load(Acquire))
    }

    /// Sends the word of a step of the barrier, or leaves the barrier after its last step.
    fn enter_barrier(&mut self, context: &mut Context<'_>, step: usize) -> Result<(), Failure> {
        let distance = 1 << step;
        if distance >= self.ranks {
            return self.send_all(context);
        }
        let source = self.layout.barrier_source(step, self.round);
        let word = self.node_end.region.block.word(source);
        word.store(self.round.to_le(), Release);
        let to = (self.own + distance) % self.ranks;
        let target = self.layout.barrier_word(step);
        self.post(context, to, (source, target, 8), false)?;
        self.state = State::Barrier(step);
        Ok(())
    }

    fn send_all(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let layout = self.layout;
        let is_last = u64::from(self.production.is_done());
        for distance in 1..=self.ranks {
            let to = (self.own + distance) % self.ranks;
            let used = self.buffers.used[to];
            let (source, target) = (layout.output(to), layout.input(self.own));
            let footer = source + layout.stride - LINE;
            let block = &self.node_end.region.block;
            let head = used as u64 | is_last << 32;
            block.word(footer).store(head.to_le(), Release);
            block.word(footer + 8).store(self.round.to_le(), Release);
            if used > 0 {
                self.post(context, to, (source, target, used), false)?;
            }
            let target = target + layout.stride - LINE;
            self.post(context, to, (footer, target, FOOTER), true)?;
        }
        self.state = State::Exchange {
            completions: self.ranks,
            seen: 0,
        };
        Ok(())
    }

    fn post(
        &mut self,
        context: &mut Context<'_>,
        to: usize,
        (source, target, len): (usize, usize, usize),
        signaled: bool,
    ) -> Result<(), Failure> {
        let peer = &self.peers[to];
        let segment = self.node_end.region.segment(source as u64, len as u32);
        let mut request = peer.write(0, target as u64, segment);
        request.signaled = signaled;
        post(context, peer.qpn, request)
    }

    fn exchange(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let State::Exchange { completions, seen } = &mut self.state else {
            return Ok(Step::Done);
        };
        if *completions > 0 {
            *completions -= poll(context, self.node_end.cq, self.ranks)?.len();
        }
        let (completions, mut seen) = (*completions, *seen);
        let layout = self.layout;
        while seen < self.ranks {
            // In the order in which the others send to this rank.
            let from = (self.own + self.ranks - seen - 1) % self.ranks;
            if self.word(layout.input(from) + layout.stride - LINE + 8) < self.round {
                context.charge(Category::Communication, tuples::unchanged(context.cpu()));
                break;
            }
            context.charge(Category::Communication, context.cpu().cache_latency);
            seen += 1;
        }
        if completions == 0 && seen == self.ranks {
            self.buffers.used.fill(0);
            self.state = State::Consume(0);
            return Ok(Step::Compute(Duration::ZERO));
        }
        self.state = State::Exchange { completions, seen };
        Ok(Step::WaitForPacket)
    }

    fn consume(&mut self, context: &mut Context<'_>, from: usize) -> Result<Step, Failure> {
        if from == self.ranks {
            return Ok(self.end_round(context));
        }
        let layout = self.layout;
        let head = self.word(layout.input(from) + layout.stride - LINE);
        let bytes = self.inputs[from].bytes(0, 1).to_vec();
        let used = bytes[..self.plan.buffer_bytes].get(..head as u32 as usize);
        let used = used.ok_or("a footer says more bytes than a buffer has")?;
        let mut ledger = self.ledger.borrow_mut();
        let size = self.plan.tuple_size;
        let count = ledger.tallies[self.own].add(used, size, self.own, self.ranks);
        ledger.add(context.now(), used.len() as u64);
        let cost = TupleCost::new(context.cpu(), size).consume(count);
        context.charge(Category::Compute, cost);
        self.state = State::Consume(from + 1);
        Ok(Step::Compute(Duration::ZERO))
    }

    /// Begins the next round, or ends after a round that was the last of every rank.
    fn end_round(&mut self, context: &mut Context<'_>) -> Step {
        let layout = self.layout;
        let is_last = |from| self.word(layout.input(from) + layout.stride - LINE) >> 32 == 1;
        if (0..self.ranks).all(is_last) {
            self.ledger.borrow_mut().finish(context.now());
            return Step::Done;
        }
        self.round += 1;
        self.state = State::Partition;
        Step::Compute(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests;
