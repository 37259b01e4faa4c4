//! A namespace: its backend, and the order in which requests reach it.
//!
//! NVMe guarantees no order among commands in flight, and a backend may complete them in any order.
//! The target does guarantee one: **requests for overlapping blocks, of which at least one changes
//! them, run one after the other, in the order in which they were handed over.** A request that
//! overlaps one at the backend, or an earlier waiting one, is held back until that one has
//! completed.
//!
//! This holds across queues, and in particular across the end of a queue. Requests of a closed or
//! broken queue that are already at the backend are carried out (see `ending`): a write of a dead
//! host may reach the medium long after its queue is gone. A newer write of the same blocks from
//! another queue is not overtaken by it, and a read sees the blocks before or after it, never in
//! between. Requests not yet handed over are dropped with their queue. So once
//! [`Target::close_queue`] has returned, every later request is ordered after all that the queue
//! has left: a host that shares blocks with a dead one, as the switch does, need not wait until the
//! target has drained.
//!
//! The list of requests at the backend is at most as long as the backend is deep and is searched
//! for each request; reads skip the search while no change is in flight.
//!
//! [`Target::close_queue`]: crate::Target::close_queue

use crate::{Backend, Io, IoDone, IoKind};
use rackweave_base::Instant;
use std::collections::VecDeque;

/// The blocks that hosts see.
pub(crate) struct Namespace {
    backend: Box<dyn Backend>,
    /// The size of a block as a power of two.
    pub(crate) shift: u32,
    pub(crate) blocks: u64,
    /// Maximum blocks of a write that a power cut does not tear; zero if it may tear any.
    pub(crate) atomic_blocks: u32,
    /// Ranges of the requests at the backend, except flushes.
    running: Vec<Range>,
    /// Requests that are held back or that the backend had no capacity for, in order.
    waiting: VecDeque<Io>,
    /// Number of requests in both that change blocks.
    changes: usize,
    /// Whether the backend refused the last request; later ones do not pass it.
    full: bool,
}

/// Why a request was not handed to the backend at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The backend has no capacity.
    Room,
    /// An earlier request overlaps it.
    Order,
}

/// The blocks of a request.
#[derive(Clone, Copy, Debug)]
struct Range {
    tag: u64,
    first: u64,
    end: u64,
    changes: bool,
}

impl Range {
    fn of(io: &Io) -> Self {
        Self {
            tag: io.tag,
            first: io.block,
            // The target has checked that the range is in the namespace.
            end: io.block + u64::from(io.blocks),
            changes: changes(io),
        }
    }

    /// Whether two requests must be serialized.
    fn conflicts(&self, other: &Self) -> bool {
        (self.changes || other.changes) && self.first < other.end && other.first < self.end
    }
}

/// Whether a request changes blocks.
fn changes(io: &Io) -> bool {
    matches!(io.kind, IoKind::Write | IoKind::WriteZeroes)
}

impl Namespace {
    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Self {
            shift: backend.block_size().trailing_zeros(),
            blocks: backend.blocks(),
            atomic_blocks: backend.atomic_blocks(),
            backend,
            running: Vec::new(),
            waiting: VecDeque::new(),
            changes: 0,
            full: false,
        }
    }

    /// Reads from the beginning of a block at once. Returns false if that is not possible.
    pub(crate) fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        block < self.blocks && self.backend.peek(block, bytes)
    }

    /// Takes a request. Returns why it has to wait, or `None` if it does not.
    pub(crate) fn hand_over(&mut self, now: Instant, io: Io) -> Option<Wait> {
        let wait = if self.full {
            Some(Wait::Room)
        } else if self.must_wait(&io, self.waiting.len()) {
            Some(Wait::Order)
        } else {
            None
        };
        self.changes += usize::from(changes(&io));
        let refused = match wait {
            None => self.submit(now, io),
            Some(_) => Some(io),
        };
        let io = refused?;
        self.waiting.push_back(io);
        Some(wait.unwrap_or(Wait::Room))
    }

    /// Polls the backend and submits requests that need not wait any more. Appends completions.
    pub(crate) fn drive(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.start(now);
        let before = done.len();
        self.backend.poll(now, done);
        for ended in &done[before..] {
            let running = self.running.iter();
            // Flushes are not listed.
            if let Some(at) = running.clone().position(|range| range.tag == ended.tag) {
                let range = self.running.swap_remove(at);
                self.changes -= usize::from(range.changes);
            }
        }
        // A backend that refuses everything for a while, such as one in recovery, may complete
        // nothing.
        if done.len() > before || self.full {
            self.start(now);
        }
    }

    /// When [`Self::drive`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        // With nothing in flight, a refused request has to be offered again.
        let again = self.full.then_some(Instant::ZERO);
        self.backend.poll_timeout().or(again)
    }

    /// Takes back requests that are not at the backend and whose tags are `mine`; calls `recalled`
    /// with each.
    pub(crate) fn recall(&mut self, mine: impl Fn(u64) -> bool, mut recalled: impl FnMut(u64)) {
        let changes_left = &mut self.changes;
        self.waiting.retain(|io| {
            let goes = mine(io.tag);
            if goes {
                *changes_left -= usize::from(changes(io));
                recalled(io.tag);
            }
            !goes
        });
    }

    /// Whether a request overlaps one at the backend, or one of the first `before` waiting ones.
    fn must_wait(&self, io: &Io, before: usize) -> bool {
        if io.kind == IoKind::Flush || (self.changes == 0 && !changes(io)) {
            return false;
        }
        let range = Range::of(io);
        self.running.iter().any(|other| range.conflicts(other))
            || self
                .waiting
                .range(..before)
                .any(|other| other.kind != IoKind::Flush && range.conflicts(&Range::of(other)))
    }

    /// Submits a request to the backend. Returns it if there is no capacity.
    fn submit(&mut self, now: Instant, io: Io) -> Option<Io> {
        let range = (io.kind != IoKind::Flush).then(|| Range::of(&io));
        match self.backend.submit(now, io) {
            Ok(()) => {
                self.running.extend(range);
                None
            }
            Err(io) => {
                self.full = true;
                Some(io)
            }
        }
    }

    /// Submits requests that need not wait any more, in order.
    fn start(&mut self, now: Instant) {
        self.full = false;
        let mut at = 0;
        while at < self.waiting.len() {
            if self.must_wait(&self.waiting[at], at) {
                at += 1;
                continue;
            }
            let io = self.waiting.remove(at);
            let io = io.expect("it is among those that wait");
            if let Some(io) = self.submit(now, io) {
                self.waiting.insert(at, io);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
