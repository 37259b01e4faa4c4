//! Blocks in memory, with faults that a test plans.

use super::{Backend, Io, IoDone, IoError, IoKind};
use rackweave_base::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks in memory; those never written take none. Clones share the blocks and the faults, so a
/// clone that is kept back can look at them, break them, and outlives a target.
#[derive(Debug)]
pub struct MemoryBackend {
    block_size: u32,
    blocks: u64,
    /// Requests under way at most.
    depth: usize,
    medium: Arc<Mutex<Medium>>,
    /// What this clone was given and has not ended.
    pending: VecDeque<Io>,
    now: Instant,
}

impl Clone for MemoryBackend {
    /// The same blocks; requests under way are not doubled.
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

#[derive(Default, Debug)]
struct Medium {
    blocks: BTreeMap<u64, Box<[u8]>>,
    broken: BTreeSet<u64>,
    /// How many more blocks may come to life.
    room: Option<u64>,
    flushes: u64,
}

impl MemoryBackend {
    /// `blocks` blocks of `block_size` zero bytes.
    pub fn new(block_size: u32, blocks: u64) -> Self {
        Self {
            block_size,
            blocks,
            depth: usize::MAX,
            medium: Arc::default(),
            pending: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    /// The same, but refusing more than `depth` requests at a time.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth.max(1);
        self
    }

    /// Fault: reads and writes of `block` fail from now on, or no longer.
    pub fn set_broken(&self, block: u64, broken: bool) {
        let mut medium = self.medium();
        if broken {
            medium.broken.insert(block);
        } else {
            medium.broken.remove(&block);
        }
    }

    /// Fault: only `room` blocks that were never written can be written from now on; `Some(0)` is a
    /// full device, none ends the fault.
    pub fn set_room(&self, room: Option<u64>) {
        self.medium().room = room;
    }

    /// The bytes of a block.
    pub fn bytes(&self, block: u64) -> Vec<u8> {
        match self.medium().blocks.get(&block) {
            Some(bytes) => bytes.to_vec(),
            None => vec![0; self.block_size as usize],
        }
    }

    /// How many flushes there were.
    pub fn flushes(&self) -> u64 {
        self.medium().flushes
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(&self, io: &Io) -> Result<(), IoError> {
        let end = io.block.checked_add(u64::from(io.blocks));
        if end.is_none_or(|end| end > self.blocks) {
            return Err(IoError::OutOfRange);
        }
        let mut medium = self.medium();
        let range = io.block..io.block + u64::from(io.blocks);
        if medium.broken.range(range.clone()).next().is_some() {
            return Err(IoError::MediaError);
        }
        match (io.kind, &io.buffer) {
            (IoKind::Flush, _) => medium.flushes += 1,
            (IoKind::WriteZeroes, _) => {
                // What was never written reads as zeroes.
                for block in range {
                    if medium.blocks.remove(&block).is_some()
                        && let Some(room) = &mut medium.room
                    {
                        *room += 1;
                    }
                }
            }
            (IoKind::Read, Some(place)) => {
                let zeroes = vec![0; self.block_size as usize];
                for (number, block) in range.enumerate() {
                    let at = place.offset + number * zeroes.len();
                    let bytes = medium.blocks.get(&block);
                    place.block.write(at, bytes.map_or(&zeroes, |bytes| bytes));
                }
            }
            (IoKind::Write, Some(place)) => {
                let fresh = range.clone().filter(|at| !medium.blocks.contains_key(at));
                let fresh = fresh.count() as u64;
                if let Some(room) = &mut medium.room {
                    *room = room.checked_sub(fresh).ok_or(IoError::NoSpace)?;
                }
                let size = self.block_size as usize;
                for (number, block) in range.enumerate() {
                    let empty = || vec![0; size].into_boxed_slice();
                    let bytes = medium.blocks.entry(block).or_insert_with(empty);
                    place.block.read(place.offset + number * size, bytes);
                }
            }
            (IoKind::Read | IoKind::Write, None) => return Err(IoError::Other),
        }
        Ok(())
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
        self.pending.push_back(io);
        Ok(())
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.now = now;
        while let Some(io) = self.pending.pop_front() {
            done.push(IoDone {
                tag: io.tag,
                result: self.execute(&io),
            });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.now)
    }
}
