//! A test drive that completes requests in any order.

use super::{Backend, Io, IoDone};
use crate::MemoryBackend;
use rackweave_base::{Instant, Rng};

/// Completes requests in any order, some at a time. Requests not completed when it is dropped may
/// have reached the medium.
pub(crate) struct Shuffling {
    disk: MemoryBackend,
    rng: Rng,
    depth: usize,
    under_way: Vec<Io>,
}

impl Shuffling {
    /// A drive over these blocks, with at most `depth` requests in flight.
    pub fn new(disk: MemoryBackend, rng: Rng, depth: usize) -> Self {
        Self {
            disk,
            rng,
            depth,
            under_way: Vec::new(),
        }
    }
}

impl Backend for Shuffling {
    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }

    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn submit(&mut self, _: Instant, io: Io) -> Result<(), Io> {
        if self.under_way.len() == self.depth {
            return Err(io);
        }
        self.under_way.push(io);
        Ok(())
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        for _ in 0..self.rng.below(4) {
            if self.under_way.is_empty() {
                return;
            }
            let at = self.rng.below(self.under_way.len() as u64) as usize;
            let io = self.under_way.swap_remove(at);
            self.disk.submit(now, io).expect("it has space for all");
            self.disk.poll(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.under_way.is_empty()).then_some(Instant::ZERO)
    }
}

impl Drop for Shuffling {
    fn drop(&mut self) {
        for io in self.under_way.drain(..) {
            let submitted = self.disk.submit(Instant::ZERO, io);
            submitted.expect("it has space for all");
        }
    }
}
