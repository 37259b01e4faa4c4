//! Double writes: order of steps, limits, errors, and the header format.

mod power;

use super::area::{Entry, Header};
use super::*;
use crate::{MemoryBackend, RegionRange};
use rackweave_base::{Duration, Rng};
use std::sync::{Arc, Mutex};

pub(super) const SIZE: u32 = 1024;
/// Blocks visible to users.
pub(super) const HOMES: u64 = 24;
/// Two halves of a header and seven blocks.
pub(super) const AREA: u64 = 16;

pub(super) fn io(memory: &Memory, tag: u64, kind: IoKind, block: u64, blocks: u32) -> Io {
    let moves = matches!(kind, IoKind::Read | IoKind::Write);
    let len = (blocks * SIZE) as usize;
    Io {
        tag,
        kind,
        block,
        blocks,
        buffer: moves.then(|| RegionRange {
            block: memory.allocate(len).expect("tests need little"),
            offset: 0,
        }),
    }
}

pub(super) fn filled(memory: &Memory, tag: u64, block: u64, blocks: u32, byte: u8) -> Io {
    let io = io(memory, tag, IoKind::Write, block, blocks);
    let place = io.buffer.as_ref().expect("a write has one");
    place.block.write(0, &vec![byte; (blocks * SIZE) as usize]);
    io
}

/// Records the requests to a disk, and holds back or fails them on demand.
#[derive(Clone)]
struct Noting {
    disk: MemoryBackend,
    noted: Arc<Mutex<Vec<(IoKind, u64, u32)>>>,
    failing: Arc<Mutex<Option<IoKind>>>,
    failed: Vec<IoDone>,
}

impl Noting {
    fn new() -> Self {
        Self {
            disk: MemoryBackend::new(SIZE, HOMES + AREA),
            noted: Arc::default(),
            failing: Arc::default(),
            failed: Vec::new(),
        }
    }

    fn noted(&self) -> Vec<(IoKind, u64, u32)> {
        core::mem::take(&mut self.noted.lock().unwrap())
    }
}

impl Backend for Noting {
    fn block_size(&self) -> u32 {
        SIZE
    }

    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.noted
            .lock()
            .unwrap()
            .push((io.kind, io.block, io.blocks));
        if *self.failing.lock().unwrap() == Some(io.kind) {
            let result = Err(IoError::NoSpace);
            self.failed.push(IoDone {
                tag: io.tag,
                result,
            });
            return Ok(());
        }
        self.disk.submit(now, io)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        done.append(&mut self.failed);
        self.disk.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let failed = (!self.failed.is_empty()).then_some(Instant::ZERO);
        failed.or(self.disk.poll_timeout())
    }
}

fn open(noting: &Noting) -> DoubleWrite<Noting> {
    let mut double = DoubleWrite::with_area(noting.clone(), AREA).unwrap();
    while !double.is_recovered() && !double.is_failed() {
        assert!(double.poll_timeout().is_some());
        double.poll(Instant::ZERO, &mut Vec::new());
    }
    double
}

fn run(double: &mut DoubleWrite<Noting>, ios: Vec<Io>) -> Vec<(u64, Result<(), IoError>)> {
    let count = ios.len();
    for io in ios {
        double.submit(Instant::ZERO, io).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < count {
        assert!(double.poll_timeout().is_some());
        double.poll(Instant::ZERO, &mut done);
    }
    assert_eq!(double.poll_timeout(), None);
    let mut done: Vec<_> = done.iter().map(|it| (it.tag, it.result)).collect();
    done.sort_unstable_by_key(|(tag, _)| *tag);
    done
}

#[test]
fn a_batch_goes_to_a_half_is_flushed_and_goes_home() {
    use IoKind::{Flush, Read, Write, WriteZeroes};
    let noting = Noting::new();
    let memory = Memory::new(1 << 20);
    let mut double = DoubleWrite::with_area(noting.clone(), AREA).unwrap();
    assert_eq!((double.blocks(), double.write_max()), (HOMES, 7));
    let early = io(&memory, 1, Read, 0, 1);
    assert!(
        double.submit(Instant::ZERO, early).is_err(),
        "not recovered"
    );
    assert!(!double.is_recovered() && double.poll_timeout().is_some());
    double.poll(Instant::ZERO, &mut Vec::new());
    assert!(double.is_recovered());
    let blank = [
        (Read, 24, 8),
        (Read, 32, 8),
        (Write, 24, 1),
        (Write, 32, 1),
        (Flush, 0, 0),
    ];
    assert_eq!(noting.noted(), blank);
    let ios = vec![
        filled(&memory, 1, 3, 2, 1),
        io(&memory, 2, WriteZeroes, 10, 14),
        filled(&memory, 3, 7, 3, 3),
        // It would overlap, so it goes into the next batch.
        filled(&memory, 4, 9, 1, 4),
        // It may not pass that one.
        filled(&memory, 5, 0, 1, 5),
    ];
    let ended = run(&mut double, ios);
    assert!(ended.iter().all(|(_, result)| result.is_ok()), "{ended:?}");
    let expect = [
        // The first half: five blocks of data after the header, which is written last.
        (Write, 25, 2),
        (Write, 27, 3),
        (Write, 24, 1),
        (Flush, 0, 0),
        (Write, 3, 2),
        (WriteZeroes, 10, 14),
        (Write, 7, 3),
        // The second half, concurrently with these homes; the flush covers both.
        (Write, 33, 1),
        (Write, 34, 1),
        (Write, 32, 1),
        (Flush, 0, 0),
        (Write, 9, 1),
        (Write, 0, 1),
    ];
    assert_eq!(noting.noted(), expect);
    assert_eq!(noting.disk.bytes(9), [4; SIZE as usize]);
    assert_eq!(noting.disk.bytes(10), [0; SIZE as usize]);
    // A flush is answered without I/O, and a read passes through.
    let ios = vec![io(&memory, 77, Flush, 0, 0), io(&memory, 78, Read, 3, 2)];
    assert_eq!(run(&mut double, ios), [(77, Ok(())), (78, Ok(()))]);
    assert_eq!(noting.noted(), [(Read, 3, 2)]);
    // The first half again; the newest batch stays in place.
    run(&mut double, vec![filled(&memory, 6, 0, 1, 6)]);
    assert_eq!(noting.noted()[0], (Write, 25, 1));
}

#[test]
fn what_the_area_has_goes_home_again() {
    let noting = Noting::new();
    let memory = Memory::new(1 << 20);
    let mut double = open(&noting);
    run(
        &mut double,
        vec![filled(&memory, 1, 3, 2, 1), filled(&memory, 2, 6, 1, 2)],
    );
    run(&mut double, vec![filled(&memory, 3, 4, 1, 3)]);
    drop(double);
    for block in 0..HOMES {
        noting.disk.zero_block(block);
    }
    noting.noted();
    let mut double = open(&noting);
    let homes: Vec<u64> = noting.noted().iter().map(|(_, block, _)| *block).collect();
    assert_eq!(homes, [24, 32, 0, 3, 6, 4, 0]);
    for (block, byte) in [(3, 1), (4, 3), (6, 2)] {
        assert_eq!(noting.disk.bytes(block), [byte; SIZE as usize]);
    }
    run(&mut double, vec![filled(&memory, 4, 0, 1, 4)]);
    assert_eq!(noting.noted()[0].1, 25, "the place of the older batch");
    // A torn half is invalid from now on.
    drop(double);
    noting.disk.zero_block(25);
    noting.noted();
    open(&noting);
    let steps: Vec<u64> = noting.noted().iter().map(|(_, block, _)| *block).collect();
    assert_eq!(steps, [24, 32, 24, 0, 4, 0]);
}

#[test]
fn errors_fail_whom_they_concern() {
    let noting = Noting::new();
    let memory = Memory::new(1 << 20);
    let mut double = open(&noting);
    let write = |tag, block| filled(&memory, tag, block, 1, tag as u8);
    noting.disk.set_broken(5, true);
    let ended = run(&mut double, vec![write(1, 4), write(2, 5), write(3, 6)]);
    let media = Err(IoError::MediaError);
    assert_eq!(ended, [(1, Ok(())), (2, media), (3, Ok(()))]);
    *noting.failing.lock().unwrap() = Some(IoKind::Write);
    let full = Err(IoError::NoSpace);
    assert_eq!(
        run(&mut double, vec![write(4, 4), write(5, 7)]),
        [(4, full), (5, full)]
    );
    assert_eq!(noting.disk.bytes(4), [1; SIZE as usize], "untouched");
    *noting.failing.lock().unwrap() = None;
    assert_eq!(run(&mut double, vec![write(6, 4)]), [(6, Ok(()))]);
    let beyond = [
        io(&memory, 7, IoKind::Read, HOMES, 1),
        io(&memory, 8, IoKind::WriteZeroes, HOMES - 1, 2),
        io(&memory, 9, IoKind::Write, 0, 8),
    ];
    let range = Err(IoError::OutOfRange);
    let ended = run(&mut double, beyond.into());
    assert_eq!(ended, [(7, range), (8, range), (9, Err(IoError::Other))]);
    // After a failed flush writes fail, but reads continue.
    *noting.failing.lock().unwrap() = Some(IoKind::Flush);
    assert_eq!(run(&mut double, vec![write(10, 4)]), [(10, full)]);
    *noting.failing.lock().unwrap() = None;
    assert!(double.is_failed());
    let rest = vec![write(11, 4), io(&memory, 12, IoKind::Flush, 0, 0)];
    assert_eq!(run(&mut double, rest), [(11, media), (12, media)]);
    assert_eq!(
        run(&mut double, vec![io(&memory, 13, IoKind::Read, 4, 1)]),
        [(13, Ok(()))]
    );
    drop(double);
    noting.disk.set_broken(5, false);
    let mut double = open(&noting);
    assert_eq!(run(&mut double, vec![write(14, 4)]), [(14, Ok(()))]);
    // An area that cannot be read may have changes that homes lack.
    noting.disk.set_broken(HOMES + 3, true);
    drop(double);
    let mut double = open(&noting);
    assert!(double.is_failed() && !double.is_recovered());
    let rest = vec![io(&memory, 15, IoKind::Read, 4, 1), write(16, 4)];
    assert_eq!(run(&mut double, rest), [(15, media), (16, media)]);
    // It may be readable later.
    let mut at = Instant::ZERO;
    for is_broken in [true, false] {
        noting.disk.set_broken(HOMES + 3, is_broken);
        at += Duration::from_millis(1);
        let mut read = Some(io(&memory, 17, IoKind::Read, 4, 1));
        let mut done = Vec::new();
        while done.is_empty() {
            if let Some(io) = read.take() {
                read = double.submit(at, io).err();
            }
            double.poll(at, &mut done);
        }
        let expect = if is_broken { media } else { Ok(()) };
        assert_eq!((done[0].tag, done[0].result), (17, expect));
    }
    assert!(double.is_recovered());
}

/// A block that cannot be written is detected and repaired; the failed write must not reappear
/// after a host has continued from what it read since.
fn what_a_failed_write_leaves(planted: Option<Bug>) -> u8 {
    let noting = Noting::new();
    let memory = Memory::new(1 << 20);
    let mut double = open(&noting);
    double.planted = planted;
    let write = |tag, block| filled(&memory, tag, block, 1, tag as u8);
    run(&mut double, vec![write(1, 4), write(2, 5)]);
    noting.disk.set_broken(5, true);
    noting.noted();
    let ended = run(&mut double, vec![write(3, 4), write(4, 5)]);
    assert_eq!(ended, [(3, Ok(())), (4, Err(IoError::MediaError))]);
    let steps: Vec<u64> = noting.noted().iter().map(|(_, block, _)| *block).collect();
    if planted.is_none() {
        assert_eq!(steps, [33, 34, 32, 0, 4, 5, 24, 0, 32, 0]);
    }
    noting.disk.set_broken(5, false);
    assert_eq!(noting.disk.bytes(5), [2; SIZE as usize]);
    drop(double);
    let mut double = open(&noting);
    assert_eq!(noting.disk.bytes(4), [3; SIZE as usize]);
    let left = noting.disk.bytes(5)[0];
    // Both halves work as before.
    for tag in 5..9 {
        assert_eq!(run(&mut double, vec![write(tag, 5)]), [(tag, Ok(()))]);
    }
    left
}

#[test]
fn what_a_failed_write_was_to_write_does_not_come_back() {
    assert_eq!(what_a_failed_write_leaves(None), 2);
    assert_eq!(what_a_failed_write_leaves(Some(Bug::KeptCopy)), 4);
}

#[test]
fn a_medium_without_room_is_refused() {
    for blocks in [1, AREA] {
        let disk = MemoryBackend::new(SIZE, blocks);
        let error = DoubleWrite::with_area(disk, AREA).unwrap_err();
        assert_eq!(error.blocks, blocks);
    }
    for area in [0, 2, 5] {
        assert!(DoubleWrite::with_area(MemoryBackend::new(SIZE, 99), area).is_err());
    }
    let usual = DoubleWriteArea::usual_blocks(4096);
    assert_eq!(usual, 2048);
    let double = DoubleWrite::new(MemoryBackend::new(4096, usual + 1)).unwrap();
    assert_eq!((double.blocks(), double.write_max()), (1, 1023));
}

#[test]
fn headers_are_parsed_as_they_were_made_and_no_other_way() {
    let area = DoubleWriteArea::at_end(512, 1000, 128).unwrap();
    let entry = |home, data| Entry {
        home,
        blocks: 3,
        data,
    };
    let header = Header {
        sequence: 7,
        entries: vec![entry(4, Some(5)), entry(869, None)],
    };
    let bytes = area.emit(&header);
    assert!(DoubleWriteArea::is_header(&bytes));
    assert_eq!(area.parse(&bytes), Some(header));
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        damaged[rng.below(512) as usize] ^= 1 << rng.below(8);
        assert_eq!(area.parse(&damaged), None);
    }
    let other = DoubleWriteArea::at_end(512, 1001, 128).unwrap();
    assert_eq!(other.parse(&bytes), None, "another store's");
    assert_eq!(area.parse(&[0; 512]), None);
    for bad in [entry(870, None), entry(u64::MAX, None)] {
        let header = Header {
            sequence: 1,
            entries: vec![bad],
        };
        assert_eq!(area.parse(&area.emit(&header)), None);
    }
    // The format is fixed: stores are opened years later.
    let fixed = area.emit(&Header::default());
    assert_eq!(fixed[..8], *b"RWdblwr1");
    assert_eq!(fixed[8..16], [26, 58, 21, 178, 30, 180, 209, 76]);
}
