//! Power cuts at every step, on a medium that keeps an arbitrary subset of the unflushed sectors.

use super::*;
use crate::backend::shuffling::Shuffling;
use std::collections::BTreeMap;

const SECTOR: usize = 512;
const COMMANDS: u64 = 60;

/// The content that a write gives its blocks: every sector names its command. Zero means zeroes.
fn stamp(block: u64, sector: usize, command: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    if command != 0 {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(31) ^ sector as u8 ^ block as u8;
        }
        bytes[..8].copy_from_slice(&command.to_le_bytes());
    }
    bytes
}

/// A write that has not been answered.
struct Unanswered {
    stamp: u64,
    block: u64,
    blocks: u32,
}

/// A run: the answered content by block, and unanswered writes.
struct Run {
    disk: MemoryBackend,
    double: DoubleWrite<Shuffling>,
    planted: Option<Bug>,
    rng: Rng,
    memory: Memory,
    model: Vec<u64>,
    flight: BTreeMap<u64, Unanswered>,
    reads: BTreeMap<u64, Io>,
    tags: u64,
    cuts: u32,
}

fn drive(disk: &MemoryBackend, planted: Option<Bug>, rng: &mut Rng) -> DoubleWrite<Shuffling> {
    let drive = Shuffling::new(disk.clone(), rng.fork("drive"), 9);
    let mut double = DoubleWrite::with_area(drive, AREA).expect("there is space");
    double.planted = planted;
    double
}

impl Run {
    fn new(seed: u64, planted: Option<Bug>) -> Self {
        let mut rng = Rng::new(seed);
        let disk = MemoryBackend::new(SIZE, HOMES + AREA).with_volatile_cache();
        Self {
            double: drive(&disk, planted, &mut rng),
            disk,
            planted,
            rng,
            memory: Memory::new(64 << 20),
            model: vec![0; HOMES as usize],
            flight: BTreeMap::new(),
            reads: BTreeMap::new(),
            tags: 0,
            cuts: 0,
        }
    }

    /// Submits a command that overlaps no write in flight, as a target does.
    fn submit(&mut self) {
        let block = self.rng.below(HOMES);
        let blocks = 1 + self.rng.below((HOMES - block).min(7)) as u32;
        let range = block..block + u64::from(blocks);
        let busy =
            |it: &Unanswered| it.block < range.end && range.start < it.block + u64::from(it.blocks);
        if self.flight.values().any(busy) {
            return;
        }
        self.tags += 1;
        let tag = self.tags;
        let kind = match self.rng.below(10) {
            0 => IoKind::Flush,
            1..=2 => IoKind::Read,
            3 => IoKind::WriteZeroes,
            _ => IoKind::Write,
        };
        let mut io = io(&self.memory, tag, kind, block, blocks);
        match kind {
            IoKind::Flush => (io.block, io.blocks) = (0, 0),
            IoKind::Read => {
                self.reads.insert(tag, io.clone());
            }
            IoKind::Write | IoKind::WriteZeroes => {
                let command = if kind == IoKind::Write { tag } else { 0 };
                if let Some(place) = &io.buffer {
                    place.block.write(0, &stamps(block, blocks, command));
                }
                let unanswered = Unanswered {
                    stamp: command,
                    block,
                    blocks,
                };
                self.flight.insert(tag, unanswered);
            }
        }
        if self.double.submit(Instant::ZERO, io).is_err() {
            self.flight.remove(&tag);
            self.reads.remove(&tag);
        }
    }

    fn poll(&mut self) -> Result<(), String> {
        let mut done = Vec::new();
        self.double.poll(Instant::ZERO, &mut done);
        for done in done {
            done.result
                .map_err(|error| format!("{}: {error}", done.tag))?;
            if let Some(write) = self.flight.remove(&done.tag) {
                for block in write.block..write.block + u64::from(write.blocks) {
                    self.model[block as usize] = write.stamp;
                }
            }
            if let Some(io) = self.reads.remove(&done.tag) {
                self.check_read(&io)?;
            }
        }
        Ok(())
    }

    /// A read that overlapped no write shows the answered content.
    fn check_read(&self, io: &Io) -> Result<(), String> {
        let place = io.buffer.as_ref().expect("a read has one");
        for number in 0..u64::from(io.blocks) {
            let block = io.block + number;
            let covers =
                |it: &Unanswered| (it.block..it.block + u64::from(it.blocks)).contains(&block);
            let newer = self.model[block as usize] > io.tag;
            if newer || self.flight.values().any(covers) {
                continue;
            }
            let mut found = vec![0; SIZE as usize];
            place
                .block
                .read((number * u64::from(SIZE)) as usize, &mut found);
            if self.model[block as usize] != 0
                && found != stamps(block, 1, self.model[block as usize])
            {
                return Err(format!("block {block}: a read shows another version"));
            }
        }
        Ok(())
    }

    /// Cuts the power, or only kills the process, and opens the medium again; the power may fail
    /// again during recovery.
    fn cut_power(&mut self) -> Result<(), String> {
        loop {
            self.cuts += 1;
            let next = drive(&self.disk, self.planted, &mut self.rng);
            let before = core::mem::replace(&mut self.double, next);
            // Either the power fails first, or the host.
            drop(before);
            if self.rng.chance(0.6) {
                self.disk.power_cut(&mut self.rng);
            }
            self.reads.clear();
            let steps = match self.rng.chance(0.3) {
                true => self.rng.below(20),
                false => u64::MAX,
            };
            for _ in 0..steps {
                self.double.poll(Instant::ZERO, &mut Vec::new());
                if self.double.is_recovered() {
                    return self.check();
                }
            }
        }
    }

    /// Checks that every answered command is present, and every other one wholly or not at all.
    fn check(&mut self) -> Result<(), String> {
        for (_, write) in core::mem::take(&mut self.flight) {
            let mut range = write.block..write.block + u64::from(write.blocks);
            // The first block that differs from the previous content decides whether the write took
            // place.
            let differs = |block: &u64| self.model[*block as usize] != write.stamp;
            let Some(tells) = range.clone().find(differs) else {
                continue;
            };
            if self.disk.bytes(tells) == stamps(tells, 1, write.stamp) {
                range
                    .by_ref()
                    .for_each(|block| self.model[block as usize] = write.stamp);
            }
        }
        for block in 0..HOMES {
            let wanted = self.model[block as usize];
            if self.disk.bytes(block) != stamps(block, 1, wanted) {
                let mut words = Vec::new();
                for sector in self.disk.bytes(block).chunks(SECTOR) {
                    words.push(u64::from_le_bytes(*sector.first_chunk().expect("longer")));
                }
                return Err(format!(
                    "block {block} has {words:?}, command {wanted} was there"
                ));
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let cut = self.rng.fraction() * 0.1;
        for _ in 0..COMMANDS {
            for _ in 0..self.rng.below(4) {
                self.submit();
            }
            for _ in 0..self.rng.below(4) {
                self.poll()?;
                if self.rng.chance(cut) {
                    self.cut_power()?;
                }
            }
        }
        while self.double.poll_timeout().is_some() {
            self.poll()?;
        }
        if !self.flight.is_empty() || !self.reads.is_empty() {
            return Err("a command is never answered".to_owned());
        }
        self.check()?;
        self.cut_power()
    }
}

fn stamps(block: u64, blocks: u32, command: u64) -> Vec<u8> {
    let blocks = block..block + u64::from(blocks);
    let sectors = SIZE as usize / SECTOR;
    blocks
        .flat_map(|block| (0..sectors).flat_map(move |sector| stamp(block, sector, command)))
        .collect()
}

/// The first failing one of this many seeds.
fn first_failure(seeds: u64, planted: Option<Bug>) -> Option<(u64, String)> {
    let mut cuts = 0;
    for seed in 0..seeds {
        let mut run = Run::new(seed, planted);
        if let Err(error) = run.run() {
            return Some((seed, error));
        }
        cuts += run.cuts;
    }
    assert!(u64::from(cuts) > seeds, "{cuts} power cuts");
    None
}

#[test]
fn nothing_is_lost_or_torn_whenever_the_power_fails() {
    assert_eq!(first_failure(2000, None), None);
}

#[test]
fn every_planted_bug_is_found() {
    for bug in [
        Bug::NoFlush,
        Bug::EarlyFlush,
        Bug::OneHalf,
        Bug::NoChecksum,
        Bug::NewestFirst,
        Bug::NewestReplaced,
        Bug::UnflushedCopies,
    ] {
        let found = first_failure(3000, Some(bug));
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
