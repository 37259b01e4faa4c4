//! A worker: a thread of a compute node that accesses pages, several of them at a time.

use super::cache::{Attempt, Cache, Event, Next, Source, Waiter};
use super::channel::{Channel, Meter, READ, RECEIVED, kind, parts, poll};
use super::frames::{HEADER, HEADER_WORDS};
use super::message::{Envelope, Message, Place};
use super::{Access, Accesses, ScaleStoreError, Tally};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant, Qpn, Rkey};
use rackweave_verbs::{CqId, Operation, Region, Verbs, WorkRequest};

/// Bytes in which headers read from other nodes land, per slot: one before the page, one after.
pub const SCRATCH: u64 = 2 * HEADER;

/// Completions taken in one step.
const POLL: usize = 4;

/// How a worker reads the frames of another node.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The queue pair that leads there.
    pub qpn: Qpn,
    /// The first byte of its frames.
    pub address: u64,
    /// Their key.
    pub rkey: Rkey,
}

/// What a worker is made of.
pub struct Parts {
    /// Its number at its node.
    pub number: u16,
    /// Accesses that it has under way at a time.
    pub depth: u16,
    /// Where its work completes.
    pub cq: CqId,
    /// To the owner.
    pub channel: Channel,
    /// To the other nodes, by their number; its own is not used.
    pub remotes: Vec<Option<Remote>>,
    /// Its memory, and where in it headers land.
    pub region: Region,
    /// The first byte of that.
    pub scratch: u64,
    /// What it accesses.
    pub accesses: Accesses,
    /// Accesses after which it ends.
    pub limit: Option<u64>,
    /// What one access costs.
    pub work: Duration,
    /// Since when and until when what it does is counted.
    pub window: (Instant, Instant),
}

/// A worker at work.
pub struct Worker {
    parts: Parts,
    /// What each slot is at, and since when.
    slots: Vec<Option<(Access, Instant)>>,
    free: Vec<u16>,
    /// Accesses for which there was no frame.
    blocked: Vec<u16>,
    begun: u64,
    tally: Tally,
}

impl Worker {
    /// A worker that has not begun.
    pub fn new(parts: Parts) -> Self {
        Self {
            slots: vec![None; usize::from(parts.depth)],
            free: (0..parts.depth).rev().collect(),
            blocked: Vec::new(),
            begun: 0,
            tally: Tally::default(),
            parts,
        }
    }

    /// Whether it has done all that it was to do.
    pub fn is_done(&self) -> bool {
        self.is_exhausted() && self.free.len() == self.slots.len()
    }

    /// What it has done within its window.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_exhausted(&self) -> bool {
        self.parts.limit.is_some_and(|limit| self.begun >= limit)
    }

    /// Takes what has come, then begins one access if it may. True if anything happened.
    ///
    /// # Errors
    /// If a request fails, or a page is damaged.
    pub fn step(
        &mut self,
        now: Instant,
        cache: &mut Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<bool, ScaleStoreError> {
        let completions = poll(verbs, self.parts.cq, POLL, meter)?;
        let mut happened = !completions.is_empty();
        for completion in &completions {
            match kind(completion.id) {
                RECEIVED => {
                    let envelope = self.parts.channel.receive(verbs, completion, meter)?;
                    let (worker, tag) = (self.parts.number, envelope.tag);
                    let next = cache.handle_answer(worker, tag, &envelope.message)?;
                    self.go_on(tag, next, cache, verbs, meter)?;
                }
                READ => {
                    let slot = parts(completion.id).1 as u16;
                    let (before, after) = self.headers(slot);
                    let next = cache.handle_read(self.parts.number, slot, before, after)?;
                    self.go_on(slot, next, cache, verbs, meter)?;
                }
                _ => {}
            }
        }
        while let Some(event) = cache.poll_event(self.parts.number) {
            happened = true;
            match event {
                Event::Done(slot, source) => self.done(now, slot, source, meter),
                Event::Retry(slot) => self.attempt(now, slot, cache, verbs, meter)?,
            }
        }
        Ok(self.begin(now, cache, verbs, meter)? || happened)
    }

    /// Begins an access, or tries one again that found no frame.
    fn begin(
        &mut self,
        now: Instant,
        cache: &mut Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<bool, ScaleStoreError> {
        if !self.blocked.is_empty() {
            // Its other slots wait, too: pages come in the order in which they were wanted.
            if !cache.has_room() {
                return Ok(false);
            }
            let slot = self.blocked.remove(0);
            self.attempt(now, slot, cache, verbs, meter)?;
            return Ok(true);
        }
        if self.is_exhausted() {
            return Ok(false);
        }
        let Some(slot) = self.free.pop() else {
            return Ok(false);
        };
        let access = (self.parts.accesses)();
        self.begun += 1;
        self.slots[usize::from(slot)] = Some((access, now));
        self.attempt(now, slot, cache, verbs, meter)?;
        Ok(true)
    }

    fn attempt(
        &mut self,
        now: Instant,
        slot: u16,
        cache: &mut Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let Some((access, _)) = self.slots[usize::from(slot)] else {
            return Ok(());
        };
        let waiter = Waiter {
            worker: self.parts.number,
            slot,
            write: access.write,
        };
        match cache.access(access.page, waiter)? {
            Attempt::Hit => self.done(now, slot, Source::Local, meter),
            Attempt::Waits => {}
            Attempt::Ask(message) => self.ask(slot, message, verbs, meter)?,
            Attempt::NoFrame => self.blocked.push(slot),
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        slot: u16,
        next: Next,
        cache: &Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        match next {
            Next::Nothing => Ok(()),
            Next::Ask(message) => self.ask(slot, message, verbs, meter),
            Next::Read { from, frame } => self.read(slot, from, frame, cache, verbs, meter),
        }
    }

    fn ask(
        &mut self,
        slot: u16,
        message: Message,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let envelope = Envelope { tag: slot, message };
        let channel = &self.parts.channel;
        channel.send(verbs, u32::from(slot), &envelope, meter)
    }

    /// Reads a frame of another node: its header beside ours, its page into ours, then once more
    /// its header, all in this order.
    fn read(
        &mut self,
        slot: u16,
        from: Place,
        frame: u32,
        cache: &Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let remote = self.parts.remotes.get(usize::from(from.node));
        let remote = remote.copied().flatten().ok_or(ScaleStoreError::NoPath)?;
        let operation = Operation::Read {
            address: remote.address + cache.bytes().offset(from.frame),
            rkey: remote.rkey,
        };
        let scratch = self.parts.scratch + u64::from(slot) * SCRATCH;
        let id = READ | u64::from(slot);
        let header = self.parts.region.segment(scratch, HEADER as u32);
        let segments = [header, cache.bytes().segment(frame)];
        let mut request = WorkRequest::new(id, operation, &segments);
        request.signaled = false;
        verbs.post_send(remote.qpn, request)?;
        let again = self.parts.region.segment(scratch + HEADER, HEADER_WORDS);
        verbs.post_send(remote.qpn, WorkRequest::new(id, operation, &[again]))?;
        // Both go with one doorbell.
        meter.posts += 1;
        Ok(())
    }

    /// The two headers that were read for a slot.
    fn headers(&self, slot: u16) -> ([u64; 2], [u64; 2]) {
        let at = (self.parts.scratch + u64::from(slot) * SCRATCH) as usize;
        let word = |at: usize| self.parts.region.block.word(at).load(Ordering::Acquire);
        let header = |at: usize| [word(at), word(at + 8)];
        (header(at), header(at + HEADER as usize))
    }

    fn done(&mut self, now: Instant, slot: u16, source: Source, meter: &mut Meter) {
        meter.accesses += 1;
        let Some((_, begun)) = self.slots[usize::from(slot)].take() else {
            return;
        };
        self.free.push(slot);
        let (from, until) = self.parts.window;
        if (from..until).contains(&now) {
            self.tally.add(source, now.since(begun) + self.parts.work);
        }
    }
}
