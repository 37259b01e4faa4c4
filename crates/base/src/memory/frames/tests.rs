//! Latches used one by one, and by several threads at once.

use super::*;
use crate::{Memory, Rng};
use std::sync::atomic::AtomicBool;

const SIZE: usize = 4096;
const HEAD: usize = 32;

fn frames(count: u32) -> Frames {
    let len = SIZE * count as usize;
    let block = Memory::new(1 << 24).allocate(len).unwrap();
    Frames::new(block, SIZE, count, HEAD).unwrap()
}

fn in_use(count: u32) -> Frames {
    let frames = frames(count);
    for frame in 0..count {
        drop(frames.claim(frame).unwrap());
    }
    frames
}

#[test]
fn frames_must_fit() {
    let block = Memory::new(1 << 24).allocate(SIZE).unwrap();
    for (size, count, head) in [(SIZE, 2, HEAD), (4, 1, 0), (64, 1, 72), (usize::MAX, 2, 0)] {
        assert!(Frames::new(block.clone(), size, count, head).is_none());
    }
    assert!(Frames::new(block, SIZE, 1, HEAD).is_some());
}

#[test]
fn a_large_frame_covers_those_after_it() {
    let block = Memory::new(1 << 24).allocate(SIZE * 4).unwrap();
    let of = |large: usize| {
        let size_of = |frame| if frame == 1 { large } else { SIZE };
        Frames::with_sizes(block.clone(), SIZE, 4, HEAD, size_of)
    };
    assert!(of(4 * SIZE).is_none() && of(SIZE - 8).is_none());
    let frames = of(2 * SIZE).unwrap();
    let mut large = frames.claim(1).unwrap();
    assert_eq!(large.bytes().len(), 2 * SIZE - HEAD);
    large.bytes_mut().fill(7);
    let mut end = [0; 8];
    assert!(frames.peek(1, 2 * SIZE - HEAD - 8, &mut end));
    assert_eq!(end, [7; 8]);
    let last = frames.claim(3).unwrap();
    assert!(last.bytes().is_all(0) && last.bytes().len() == SIZE - HEAD);
}

#[test]
fn many_read_or_one_writes() {
    let frames = in_use(2);
    let first = frames.try_read(0).unwrap();
    let second = frames.try_read(0).unwrap();
    assert!(frames.try_write(0).is_none() && !frames.is_idle(0));
    let other = frames.try_write(1).unwrap();
    drop(first);
    assert!(frames.try_write(0).is_none());
    assert!(!second.release());
    let mut write = frames.try_write(0).unwrap();
    assert!(frames.try_read(0).is_none() && frames.try_write(0).is_none());
    assert!(frames.is_written(0));
    write.bytes_mut().fill(7);
    assert_eq!(write.bytes().len(), SIZE - HEAD);
    let read = write.downgrade();
    assert!(frames.try_write(0).is_none() && frames.try_read(0).is_some());
    assert!(read.bytes().is_all(7));
    assert!(other.bytes().is_all(0));
    drop((read, other));
    assert!(frames.is_idle(0) && frames.is_idle(1));
}

#[test]
fn a_retired_frame_ends_with_its_last_reader() {
    let frames = frames(1);
    assert!(frames.try_read(0).is_none() && frames.try_write(0).is_none());
    let write = frames.claim(0).unwrap();
    assert_eq!(frames.try_retire(0), None, "somebody writes");
    let first = write.downgrade();
    let second = frames.try_read(0).unwrap();
    assert_eq!(frames.try_retire(0), Some(Retired::Read));
    assert_eq!(frames.try_retire(0), None, "only once");
    assert!(frames.try_read(0).is_none(), "nobody comes in");
    assert!(!first.release());
    assert!(frames.claim(0).is_none(), "somebody still reads");
    assert!(second.release());
    drop(frames.claim(0).unwrap());
    assert_eq!(frames.try_retire(0), Some(Retired::Idle));
    frames.claim(0).unwrap().retire();
    assert!(frames.claim(0).is_some());
}

#[test]
fn a_writer_that_waits_is_seen_until_one_enters() {
    let frames = in_use(1);
    let read = frames.try_read(0).unwrap();
    frames.want(0);
    assert!(frames.is_wanted(0));
    drop(read);
    assert!(frames.is_wanted(0));
    drop(frames.try_write(0).unwrap());
    assert!(!frames.is_wanted(0));
}

#[test]
fn optimistic_readers_see_writers_not_readers() {
    let frames = in_use(1);
    let stamp = frames.stamp(0).unwrap();
    frames.want(0);
    let read = frames.try_read(0).unwrap();
    assert!(frames.is_unchanged(0, stamp));
    drop(read);
    assert!(frames.is_unchanged(0, stamp));
    let write = frames.try_write(0).unwrap();
    assert!(frames.stamp(0).is_none() && !frames.is_unchanged(0, stamp));
    drop(write);
    assert!(!frames.is_unchanged(0, stamp));
    assert!(!frames.peek(0, SIZE - HEAD, &mut [0]));
    assert!(frames.peek(0, SIZE - HEAD - 1, &mut [0]));
}

#[test]
fn heads_are_no_part_of_the_bytes() {
    let frames = in_use(2);
    frames.header_word(1, 24).store(9, Ordering::Relaxed);
    let mut write = frames.try_write(1).unwrap();
    assert!(write.bytes().is_all(0));
    write.bytes_mut().fill(1);
    assert_eq!(frames.header_word(1, 24).load(Ordering::Relaxed), 9);
    assert_eq!(frames.block().word(SIZE + 24).load(Ordering::Relaxed), 9);
    assert_eq!(
        frames.block().word(SIZE + HEAD).load(Ordering::Relaxed),
        !0 / 255
    );
}

/// Threads read, write, peek and retire the same two frames. A writer fills all bytes alike, so a
/// thread that reads two different bytes has read during a write.
#[test]
fn threads_keep_out_of_each_others_way() {
    let frames = in_use(2);
    let retiring = AtomicBool::new(false);
    let worker = |seed: u64| {
        let frames = frames.handle();
        let retiring = &retiring;
        move || {
            let mut rng = Rng::new(seed);
            let mut read = 0;
            for round in 0..if cfg!(miri) { 200 } else { 20_000_u32 } {
                let frame = rng.below(2) as u32;
                match rng.below(8) {
                    0 => {
                        if let Some(mut write) = frames.try_write(frame) {
                            write.bytes_mut().slice(..64).fill(round as u8);
                            if rng.chance(0.5) {
                                let _ = write.downgrade().release();
                            }
                        }
                    }
                    1 if !retiring.swap(true, Ordering::AcqRel) => {
                        match frames.try_retire(frame) {
                            Some(Retired::Idle) => drop(frames.claim(frame).unwrap()),
                            Some(Retired::Read) => {
                                // The readers release their latches; one of them is the last.
                                while frames.claim(frame).is_none() {
                                    std::thread::yield_now();
                                }
                            }
                            None => {}
                        }
                        retiring.store(false, Ordering::Release);
                    }
                    2 => {
                        let Some(stamp) = frames.stamp(frame) else {
                            continue;
                        };
                        let mut bytes = [0; 64];
                        assert!(frames.peek(frame, 0, &mut bytes));
                        if frames.is_unchanged(frame, stamp) {
                            assert_eq!(bytes, [bytes[0]; 64], "seed {seed}: torn");
                        }
                    }
                    _ => {
                        if let Some(guard) = frames.try_read(frame) {
                            let bytes = guard.bytes().array::<64>(0);
                            assert_eq!(bytes, [bytes[0]; 64], "seed {seed}: torn");
                            read += 1;
                            let _ = guard.release();
                        }
                    }
                }
            }
            read
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(worker(seed))).collect();
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
    assert!(frames.is_idle(0) && frames.is_idle(1));
}
