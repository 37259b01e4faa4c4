//! A core that serves flows: the CPU's part.

use super::Words;
use super::ring::RingShape;
use crate::experiment::tally::Shared;
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Qpn};
use rackweave_sim::Category;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::{
    Completion, CompletionOpcode, CompletionStatus, CqId, Operation, PostError, Region, WorkRequest,
};
use std::collections::VecDeque;

/// Completions taken in one round over the flows, for each flow: more than a round can bring, so
/// that none pile up.
const POLL: usize = 4;

/// Bytes of the host's memory that one flow needs: a word that READs of the consumer's tail bring,
/// and a word for each head that may be under way. What is under way must not change.
pub fn scratch_bytes(shape: RingShape) -> u64 {
    8 + 8 * u64::from(shape.slots)
}

/// One flow as its core knows it.
pub struct Link {
    qpn: Qpn,
    /// Its number, which says where its rings are.
    flow: usize,
    /// Items posted.
    sent: u64,
    /// Items acknowledged.
    done: u64,
    /// The consumer's tail when last read.
    tail_seen: u64,
    reading: bool,
    /// Up to which item each WRITE under way goes, oldest first.
    under_way: VecDeque<u64>,
    scratch: u64,
}

impl Link {
    /// A flow of which nothing was sent.
    pub fn new(qpn: Qpn, flow: usize, shape: RingShape) -> Self {
        Self {
            qpn,
            flow,
            sent: 0,
            done: 0,
            tail_seen: 0,
            reading: false,
            under_way: VecDeque::new(),
            scratch: flow as u64 * scratch_bytes(shape),
        }
    }
}

/// A core with its flows.
pub struct Server {
    pub shape: RingShape,
    /// Items of one WRITE at most.
    pub batch: u32,
    pub words: Words,
    /// WRITEs of items under way at most, per flow.
    pub window: u32,
    pub cq: CqId,
    /// The producers' rings.
    pub rings: Region,
    /// See [`scratch_bytes`].
    pub scratch: Region,
    /// The consumers' rings.
    pub remote: Region,
    pub links: Vec<Link>,
    /// Which flow is next.
    pub turn: usize,
    pub tally: Shared,
    pub completions: Vec<Completion>,
}

impl Actor for Server {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let result = if self.turn == 0 {
            self.complete(context)
        } else {
            Ok(())
        };
        let result = result.and_then(|()| self.visit(context).map_err(|e| e.to_string()));
        if let Err(error) = result {
            self.tally.borrow_mut().fail(error);
            return Step::Done;
        }
        self.turn = (self.turn + 1) % self.links.len();
        Step::Compute(Duration::ZERO)
    }
}

impl Server {
    /// Takes completions: WRITEs free slots of the producer, READs bring the consumer's tail.
    fn complete(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        self.completions.clear();
        let limit = POLL * self.links.len();
        context.poll_cq(self.cq, limit, &mut self.completions);
        for at in 0..self.completions.len() {
            let completion = self.completions[at];
            if completion.status != CompletionStatus::Success {
                return Err(format!("a work request failed: {}", completion.status));
            }
            let link = &mut self.links[completion.id as usize];
            if completion.opcode == CompletionOpcode::Read {
                link.reading = false;
                link.tail_seen = load(&self.scratch, link.scratch);
                continue;
            }
            link.done = link.under_way.pop_front().ok_or("a completion too many")?;
            let tail = self.shape.tail(link.flow);
            store(&self.rings, tail, link.done);
            // A store to another memory than the core's own goes out without an answer; what it
            // takes to issue it is about a cache's latency.
            let cost = context.cpu().cache_latency;
            context.charge(Category::Communication, cost);
            // The producing kernels spin on their tails.
            context.wake_neighbours();
        }
        Ok(())
    }

    /// Looks at one flow and posts what can be posted.
    fn visit(&mut self, context: &mut Context<'_>) -> Result<(), PostError> {
        let look = self.words.look(context.cpu());
        context.charge(Category::Communication, look);
        let (shape, id) = (self.shape, self.turn as u64);
        let link = &mut self.links[self.turn];
        let slots = u64::from(shape.slots);
        let ready = load(&self.rings, shape.head(link.flow)) - link.sent;
        let room = slots - (link.sent - link.tail_seen);
        let before_end = slots - link.sent % slots;
        let items = ready.min(room).min(before_end).min(u64::from(self.batch));
        if items > 0 && link.under_way.len() < self.window as usize {
            let at = shape.slot(link.flow, link.sent);
            let length = items as u32 * shape.item_size;
            let mut data =
                WorkRequest::new(id, self.write_to(at), &[self.rings.segment(at, length)]);
            data.signaled = false;
            let link = &mut self.links[self.turn];
            context.post_send(link.qpn, data)?;
            link.sent += items;
            link.under_way.push_back(link.sent);
            let word = link.scratch + 8 + 8 * (link.sent % slots);
            store(&self.scratch, word, link.sent);
            let (qpn, head) = (link.qpn, shape.head(link.flow));
            let segment = self.scratch.segment(word, 8);
            let head = WorkRequest::new(id, self.write_to(head), &[segment]);
            context.post_send(qpn, head)?;
        }
        let link = &mut self.links[self.turn];
        let room = slots - (link.sent - link.tail_seen);
        if room <= slots / 2 && !link.reading {
            link.reading = true;
            let read = Operation::Read {
                address: self.remote.address + shape.tail(link.flow),
                rkey: self.remote.rkey,
            };
            let segment = self.scratch.segment(link.scratch, 8);
            context.post_send(link.qpn, WorkRequest::new(id, read, &[segment]))?;
        }
        Ok(())
    }

    fn write_to(&self, offset: u64) -> Operation {
        Operation::Write {
            address: self.remote.address + offset,
            rkey: self.remote.rkey,
            immediate: None,
        }
    }
}

fn load(region: &Region, offset: u64) -> u64 {
    region.block.word(offset as usize).load(Ordering::Acquire)
}

fn store(region: &Region, offset: u64, value: u64) {
    region
        .block
        .word(offset as usize)
        .store(value, Ordering::Release);
}
