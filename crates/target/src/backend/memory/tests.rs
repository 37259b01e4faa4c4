//! A medium under power loss.

use super::*;
use crate::RegionRange;
use rackweave_base::{Block, Memory};
use std::collections::BTreeSet;

const SIZE: u32 = 4096;

fn io(kind: IoKind, block: u64, byte: u8) -> Io {
    let memory: Block = Memory::new(1 << 16).allocate(SIZE as usize).unwrap();
    memory.write(0, &[byte; SIZE as usize]);
    let moves = matches!(kind, IoKind::Read | IoKind::Write);
    Io {
        tag: 0,
        kind,
        block,
        blocks: u32::from(kind != IoKind::Flush),
        buffer: moves.then_some(RegionRange {
            block: memory,
            offset: 0,
        }),
    }
}

fn run(disk: &mut MemoryBackend, io: Io) -> Result<(), IoError> {
    disk.submit(Instant::ZERO, io).unwrap();
    let mut done = Vec::new();
    disk.poll(Instant::ZERO, &mut done);
    done[0].result
}

/// The versions that the sectors of a block have.
fn versions(disk: &MemoryBackend, block: u64) -> BTreeSet<u8> {
    let bytes = disk.bytes(block);
    let sectors = bytes.chunks(SECTOR);
    let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
    sectors
        .inspect(|it| assert!(whole(it)))
        .map(|it| it[0])
        .collect()
}

#[test]
fn what_was_flushed_survives_and_the_rest_is_torn() {
    let mut seen = BTreeSet::new();
    let mut torn = 0;
    for seed in 0..200 {
        let mut disk = MemoryBackend::new(SIZE, 8).with_volatile_cache();
        run(&mut disk, io(IoKind::Write, 1, 1)).unwrap();
        run(&mut disk, io(IoKind::Write, 2, 1)).unwrap();
        run(&mut disk, io(IoKind::Flush, 0, 0)).unwrap();
        run(&mut disk, io(IoKind::Write, 2, 2)).unwrap();
        run(&mut disk, io(IoKind::WriteZeroes, 2, 0)).unwrap();
        run(&mut disk, io(IoKind::Write, 2, 3)).unwrap();
        assert_eq!(versions(&disk, 2), [3].into(), "reads see the cache");
        disk.power_cut(&mut Rng::new(seed));
        assert_eq!(versions(&disk, 1), [1].into());
        let found = versions(&disk, 2);
        torn += u32::from(found.len() > 1);
        seen.extend(found);
        // The cache is empty: the next cut changes nothing.
        let before = disk.bytes(2);
        disk.power_cut(&mut Rng::new(seed));
        assert_eq!(disk.bytes(2), before);
    }
    assert_eq!(seen, [0, 1, 2, 3].into());
    assert!(torn > 100);
}

#[test]
fn a_flush_covers_what_had_ended_when_it_came() {
    let mut lost = 0;
    for seed in 0..50 {
        let mut disk = MemoryBackend::new(SIZE, 8).with_volatile_cache();
        for request in [io(IoKind::Write, 1, 1), io(IoKind::Flush, 0, 0)] {
            disk.submit(Instant::ZERO, request).unwrap();
        }
        disk.poll(Instant::ZERO, &mut Vec::new());
        assert_eq!(disk.flushes(), 1);
        disk.power_cut(&mut Rng::new(seed));
        lost += u32::from(versions(&disk, 1) != [1].into());
    }
    assert!(lost > 40, "the write was under way when the flush came");
}

#[test]
fn without_a_volatile_cache_all_survives() {
    let mut disk = MemoryBackend::new(SIZE, 8);
    run(&mut disk, io(IoKind::Write, 1, 1)).unwrap();
    disk.submit(Instant::ZERO, io(IoKind::Write, 2, 2)).unwrap();
    disk.power_cut(&mut Rng::new(1));
    assert_eq!(versions(&disk, 1), [1].into());
    let mut done = Vec::new();
    disk.poll(Instant::ZERO, &mut done);
    assert_eq!(done[0].result, Err(IoError::Other), "it was under way");
    assert_eq!(versions(&disk, 2), [0].into());
}

#[test]
fn what_is_under_way_at_the_end_may_have_been_written() {
    for volatile in [false, true] {
        let disk = MemoryBackend::new(SIZE, 8);
        let disk = if volatile {
            disk.with_volatile_cache()
        } else {
            disk
        };
        let mut other = disk.clone();
        other
            .submit(Instant::ZERO, io(IoKind::Write, 1, 1))
            .unwrap();
        drop(other);
        assert_eq!(versions(&disk, 1), [u8::from(volatile)].into());
    }
}

#[test]
fn blocks_are_zeroed_and_torn() {
    for disk in [
        MemoryBackend::new(SIZE, 8),
        MemoryBackend::new(SIZE, 8).with_volatile_cache(),
    ] {
        let mut writer = disk.clone();
        run(&mut writer, io(IoKind::Write, 1, 1)).unwrap();
        run(&mut writer, io(IoKind::Write, 2, 1)).unwrap();
        disk.zero_block(1);
        disk.tear_block(2, &mut Rng::new(1));
        assert_eq!(versions(&disk, 1), [0].into());
        assert_ne!(disk.bytes(2), [1; SIZE as usize]);
        let before = disk.bytes(2);
        disk.power_cut(&mut Rng::new(2));
        assert_eq!(disk.bytes(2), before);
    }
}
