//! Threads that share a pool: the pool's own structures under real concurrency.

use super::bench::{NoVerbs, PAGE, counter, increment, page, pool};
use super::fake::Rack;
use crate::page_store::{Mode, PoolConfig, Worker};
use rackweave_base::{Duration, Instant, Rng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 4;
const PAGES: u64 = 30;

/// Each thread increments and reads pages; all increments are present at the end.
fn check(seed: u64, nodes: usize, frames: u32, operations: u64) {
    println!("seed {seed}");
    let rack = Rack::new(seed, PAGE, PAGES);
    rack.model().delay_max = 300;
    let pools: Vec<_> = (0..nodes)
        .map(|node| pool(&rack, PoolConfig::new(node as u16, PAGE as u32, frames)))
        .collect();
    let clock = std::time::Instant::now();
    let now = || Instant::ZERO + Duration::from_nanos(clock.elapsed().as_nanos() as u64);
    let counted: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let resting = AtomicU64::new(0);
    let run = |thread: usize| {
        let node = thread % nodes;
        let mut worker = Worker::new(Arc::clone(&pools[node]), rack.directory(node as u16));
        let mut rng = Rng::new(seed << 8 | thread as u64);
        for _ in 0..operations {
            let number = rng.below(PAGES);
            let exclusive = rng.chance(0.3);
            let mode = if exclusive {
                Mode::Exclusive
            } else {
                Mode::Shared
            };
            let floor = counted[number as usize].load(Ordering::SeqCst);
            let fix = worker.fix(page(number), mode);
            let mut guard = loop {
                if !worker.poll(now(), &mut NoVerbs) {
                    std::thread::yield_now();
                }
                if let Some(result) = worker.take(fix) {
                    break result.unwrap();
                }
            };
            let value = counter(&guard);
            assert_eq!(value, guard.version());
            // It is counted before the latch is released, so it may be one ahead for a while.
            assert!(value + 1 >= floor, "page {number} is older than it was");
            if exclusive {
                increment(&mut guard);
                counted[number as usize].fetch_add(1, Ordering::SeqCst);
            } else if let Some((word, _)) =
                worker.read_optimistic(page(number), |peek| (peek.word(0), peek.word(4000)))
            {
                assert_eq!(word.0, word.1, "an optimistic read was torn");
            }
            assert!(exclusive || counter(&guard) == value);
        }
        // A thread that has finished continues to poll as long as others may wait for it.
        resting.fetch_add(1, Ordering::SeqCst);
        while resting.load(Ordering::SeqCst) < THREADS as u64 || !worker.is_idle() {
            worker.poll(now(), &mut NoVerbs);
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let run = &run;
            scope.spawn(move || run(thread));
        }
    });
    for number in 0..PAGES {
        let expect = counted[number as usize].load(Ordering::SeqCst);
        assert_eq!(
            rack.entry(page(number)).latch.version(),
            expect,
            "page {number}"
        );
    }
}

#[test]
fn threads_of_one_node() {
    for seed in 0..3 {
        check(seed, 1, 12, 2000);
    }
}

#[test]
fn threads_of_one_node_with_room_for_all() {
    check(10, 1, 64, 5000);
}

#[test]
fn threads_of_two_nodes() {
    for seed in 20..23 {
        check(seed, 2, 10, 1500);
    }
}
