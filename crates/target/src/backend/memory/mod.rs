//! Blocks in memory, with faults for tests.
//!
//! By default every completed write is durable. With a *volatile cache*
//! ([`MemoryBackend::with_volatile_cache`]) writes complete in the cache, which reads see; a flush
//! makes durable exactly the writes that had completed before the flush was submitted. When the
//! power is cut ([`MemoryBackend::power_cut`]) each sector of 512 bytes that was written and not
//! flushed keeps any of the versions that it had since.

mod medium;
#[cfg(test)]
mod tests;

use super::{Backend, Io, IoDone, IoError, IoKind};
use medium::{Medium, SECTOR};
use rackweave_base::{Instant, Rng};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks in memory; blocks never written take none. Clones share the blocks and the faults, so a
/// retained clone can inspect and break them, and outlives a target.
#[derive(Debug)]
pub struct MemoryBackend {
    block_size: u32,
    blocks: u64,
    /// Maximum requests in flight.
    depth: usize,
    medium: Arc<Mutex<Medium>>,
    /// Requests submitted to this clone and not completed.
    pending: VecDeque<Pending>,
    now: Instant,
}

impl Clone for MemoryBackend {
    /// Shares the blocks; requests in flight are not duplicated.
    fn clone(&self) -> Self {
        Self {
            block_size: self.block_size,
            blocks: self.blocks,
            depth: self.depth,
            medium: self.medium.clone(),
            pending: VecDeque::new(),
            now: self.now,
        }
    }
}

/// A request that has not completed.
#[derive(Debug)]
struct Pending {
    io: Io,
    /// Writes completed when it was submitted.
    writes: u64,
    /// Power cuts by then.
    power_cuts: u64,
}

impl MemoryBackend {
    /// `blocks` blocks of `block_size` zero bytes.
    pub fn new(block_size: u32, blocks: u64) -> Self {
        Self {
            block_size,
            blocks,
            depth: usize::MAX,
            medium: Arc::new(Mutex::new(Medium::new(block_size))),
            pending: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    /// The same, but refuses more than `depth` requests at a time.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth.max(1);
        self
    }

    /// Adds a volatile cache: unflushed writes do not survive [`Self::power_cut`]. All clones share
    /// the cache.
    #[must_use]
    pub fn with_volatile_cache(self) -> Self {
        self.medium().set_volatile();
        self
    }

    /// Fault: the power fails and returns. Each sector of 512 bytes that was written and not
    /// flushed keeps any of its versions since the last flush, or the one before, as chosen by
    /// `rng`. Requests submitted before fail without effect; drop a target before cutting the power
    /// of its medium, so that its requests in flight may or may not have reached the medium.
    /// Without a volatile cache only requests in flight are lost.
    pub fn power_cut(&self, rng: &mut Rng) {
        self.medium().cut_power(rng);
    }

    /// Fault: a block reads as zeroes, durably, whatever its content was.
    pub fn zero_block(&self, block: u64) {
        self.medium().damage(block, None);
    }

    /// Fault: some sectors of a block, at least one, have random bytes, durably.
    pub fn tear_block(&self, block: u64, rng: &mut Rng) {
        let mut bytes = self.bytes(block);
        let sectors = bytes.len() / SECTOR;
        let hit = rng.below(sectors as u64) as usize;
        for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            if number == hit || rng.chance(0.5) {
                sector.fill_with(|| rng.next_u32() as u8);
            }
        }
        self.medium().damage(block, Some(bytes.into_boxed_slice()));
    }

    /// Fault: reads and writes of `block` fail from now on; `false` ends the fault.
    pub fn set_broken(&self, block: u64, broken: bool) {
        let mut medium = self.medium();
        if broken {
            medium.broken.insert(block);
        } else {
            medium.broken.remove(&block);
        }
    }

    /// Fault: only so many blocks that were never written can be written from now on; `Some(0)` is
    /// a full device, `None` ends the fault.
    pub fn set_blocks_free(&self, blocks_free: Option<u64>) {
        self.medium().blocks_free = blocks_free;
    }

    /// The bytes of a block, as reads see them.
    pub fn bytes(&self, block: u64) -> Vec<u8> {
        match self.medium().get(block) {
            Some(bytes) => bytes.to_vec(),
            None => vec![0; self.block_size as usize],
        }
    }

    /// Number of flushes.
    pub fn flushes(&self) -> u64 {
        self.medium().flushes
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(&self, pending: &Pending) -> Result<(), IoError> {
        let io = &pending.io;
        let end = io.block.checked_add(u64::from(io.blocks));
        if end.is_none_or(|end| end > self.blocks) {
            return Err(IoError::OutOfRange);
        }
        let mut medium = self.medium();
        if pending.power_cuts != medium.power_cuts {
            return Err(IoError::Other);
        }
        let range = io.block..io.block + u64::from(io.blocks);
        if medium.broken.range(range.clone()).next().is_some() {
            return Err(IoError::MediaError);
        }
        let size = self.block_size as usize;
        match (io.kind, &io.buffer) {
            (IoKind::Flush, _) => medium.flush(pending.writes),
            (IoKind::WriteZeroes, _) => {
                medium.begin();
                // Blocks never written read as zeroes.
                for block in range {
                    if medium.get(block).is_none() {
                        continue;
                    }
                    medium.clear(block);
                    if let Some(blocks_free) = &mut medium.blocks_free {
                        *blocks_free += 1;
                    }
                }
            }
            (IoKind::Read, Some(place)) => {
                let zeroes = vec![0; size];
                for (number, block) in range.enumerate() {
                    let at = place.offset + number * size;
                    place.block.write(at, medium.get(block).unwrap_or(&zeroes));
                }
            }
            (IoKind::Write, Some(place)) => {
                let fresh = range.clone().filter(|at| medium.get(*at).is_none());
                let fresh = fresh.count() as u64;
                if let Some(blocks_free) = &mut medium.blocks_free {
                    *blocks_free = blocks_free.checked_sub(fresh).ok_or(IoError::NoSpace)?;
                }
                medium.begin();
                for (number, block) in range.enumerate() {
                    let at = place.offset + number * size;
                    medium.write(block, |bytes| place.block.read(at, bytes));
                }
            }
            (IoKind::Read | IoKind::Write, None) => return Err(IoError::Other),
        }
        Ok(())
    }
}

impl Drop for MemoryBackend {
    /// A write to a volatile cache that has not completed may have reached the cache nevertheless.
    fn drop(&mut self) {
        if self.pending.is_empty() || !self.medium().is_volatile() {
            return;
        }
        for pending in core::mem::take(&mut self.pending) {
            if pending.io.kind != IoKind::Flush {
                let _nobody_asks = self.execute(&pending);
            }
        }
    }
}

impl Backend for MemoryBackend {
    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.now = now;
        if self.pending.len() >= self.depth {
            return Err(io);
        }
        let medium = self.medium();
        let (writes, power_cuts) = (medium.writes(), medium.power_cuts);
        drop(medium);
        self.pending.push_back(Pending {
            io,
            writes,
            power_cuts,
        });
        Ok(())
    }

    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        let medium = self.medium();
        let count = bytes.len().min(self.block_size as usize);
        match medium.get(block) {
            Some(content) => bytes[..count].copy_from_slice(&content[..count]),
            None => bytes.fill(0),
        }
        true
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.now = now;
        while let Some(pending) = self.pending.pop_front() {
            done.push(IoDone {
                tag: pending.io.tag,
                result: self.execute(&pending),
            });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.now)
    }
}
