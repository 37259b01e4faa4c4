//! Single fixes: which fix waits for which, which joins, what is requested from the directory.

use super::bench::{Bench, NoVerbs, counter, increment, page};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::{Pool, PoolConfig, PoolError};
use rackweave_base::{Duration, Memory};
use rackweave_wire::fabric::page::control::PoolLayout;

fn bench(nodes: usize, workers: usize) -> Bench {
    Bench::new(7, nodes, workers, 16, 100)
}

/// Polls all workers for a while without expecting a result.
fn idle(bench: &mut Bench) {
    for _ in 0..500 {
        bench.step();
    }
}

#[test]
fn a_page_that_is_there_is_only_verified() {
    let mut bench = bench(1, 1);
    drop(bench.fix(0, 3, Shared).unwrap());
    let guard = bench.fix(0, 3, Shared).unwrap();
    assert_eq!(
        (guard.page(), guard.version(), guard.mode()),
        (page(3), 0, Shared)
    );
    let seen = bench.statistics();
    assert_eq!((seen.fixes, seen.local_hits, seen.joined), (2, 1, 0));
    assert_eq!(seen.storage_indexed + seen.storage_fallback, 1);
}

#[test]
fn fixes_of_all_workers_join_one_fetch() {
    let mut bench = bench(1, 4);
    let fixes: Vec<_> = (0..4)
        .map(|at| bench.workers[at].fix(page(3), Shared))
        .collect();
    let guards: Vec<_> = fixes
        .into_iter()
        .enumerate()
        .map(|(at, fix)| bench.take(at, fix).unwrap())
        .collect();
    let seen = bench.statistics();
    assert_eq!(seen.storage_indexed + seen.storage_fallback, 1);
    assert_eq!((seen.fixes, seen.joined), (4, 3));
    assert_eq!(guards.len(), 4);
}

#[test]
fn a_writer_waits_for_the_nodes_readers_and_keeps_others_out_until_its_latch_is_back() {
    let mut bench = bench(1, 3);
    let reader = bench.fix(0, 3, Shared).unwrap();
    let writer = bench.workers[1].fix(page(3), Exclusive);
    idle(&mut bench);
    assert!(bench.workers[1].take(writer).is_none());
    drop(reader);
    let mut guard = bench.take(1, writer).unwrap();
    increment(&mut guard);
    let next = bench.workers[2].fix(page(3), Shared);
    idle(&mut bench);
    assert!(bench.workers[2].take(next).is_none());
    drop(guard);
    let guard = bench.take(2, next).unwrap();
    assert_eq!((counter(&guard), guard.version()), (1, 1));
    assert_eq!(bench.rack.entry(page(3)).holder, None);
}

#[test]
fn a_reader_keeps_its_version_while_the_page_goes_on() {
    let mut bench = bench(2, 1);
    let old = bench.fix(0, 3, Shared).unwrap();
    assert_eq!(bench.change(1, 3), Ok(1));
    let new = bench.fix(0, 3, Shared).unwrap();
    assert_eq!((counter(&old), counter(&new)), (0, 1));
    let seen = bench.statistics();
    assert_eq!(seen.stale_copies, 1);
    // Each had it from the other.
    assert_eq!(seen.memory_indexed + seen.memory_fallback, 2);
    // The old copy's buffer frame is freed when its reader has finished.
    let before = bench.pools[0].frames_free() + bench.pools[0].isolated();
    drop(old);
    assert_eq!(
        bench.pools[0].frames_free() + bench.pools[0].isolated(),
        before + 1
    );
}

#[test]
fn a_latch_that_was_not_used_goes_back_without_a_version() {
    let mut bench = bench(2, 1);
    drop(bench.fix(0, 3, Exclusive).unwrap());
    bench.settle();
    let entry = bench.rack.entry(page(3));
    assert_eq!((entry.latch.version(), entry.holder), (0, None));
    assert_eq!(bench.statistics().released, 1);
    assert_eq!(bench.change(1, 3), Ok(1));
}

#[test]
fn a_validation_sees_changes_and_those_to_come() {
    let mut bench = bench(2, 1);
    let guard = bench.fix(0, 3, Shared).unwrap();
    let validate = |bench: &mut Bench| {
        let validation = bench.workers[0].validate(&guard);
        bench
            .wait(|bench| bench.workers[0].take_validation(validation))
            .unwrap()
    };
    assert!(validate(&mut bench));
    let mut other = bench.fix(1, 3, Exclusive).unwrap();
    assert!(!validate(&mut bench), "somebody is changing it");
    increment(&mut other);
    drop(other);
    bench.settle();
    assert!(!validate(&mut bench), "somebody has changed it");
    let own = bench.fix(0, 4, Exclusive).unwrap();
    let validation = bench.workers[0].validate(&own);
    assert_eq!(bench.workers[0].take_validation(validation), Some(Ok(true)));
}

#[test]
fn an_optimistic_read_is_of_what_is_there() {
    let mut bench = bench(1, 2);
    let read = |bench: &Bench| bench.workers[0].read_optimistic(page(3), |peek| peek.word(8));
    assert_eq!(read(&bench), None);
    assert_eq!(bench.change(1, 3), Ok(1));
    assert_eq!(read(&bench), Some((1, 1)));
    let guard = bench.fix(1, 3, Exclusive).unwrap();
    assert_eq!(read(&bench), None, "somebody may be changing it");
    drop(guard);
    bench.settle();
    let mut calls = 0;
    let frame = 0..16;
    let result = bench.workers[0].read_optimistic(page(3), |peek| {
        calls += 1;
        if calls == 1 {
            // Another reader comes in between.
            let frames = &bench.pools[0].frames;
            frame
                .clone()
                .for_each(|frame| drop(frames.try_write(frame)));
        }
        peek.word(0)
    });
    assert_eq!((result, calls), (Some((1, 1)), 2));
}

#[test]
fn a_prefetch_brings_a_page_and_never_waits_for_room() {
    let mut bench = bench(1, 1);
    bench.workers[0].prefetch(page(3));
    bench.settle();
    drop(bench.fix(0, 3, Shared).unwrap());
    assert_eq!(
        (bench.statistics().local_hits, bench.statistics().fixes),
        (1, 1)
    );
    let guards: Vec<_> = (10..26)
        .map(|number| bench.fix(0, number, Shared).unwrap())
        .collect();
    bench.workers[0].prefetch(page(50));
    bench.settle();
    assert!(bench.workers[0].read_optimistic(page(50), |_| ()).is_none());
    drop(guards);
}

#[test]
fn what_nobody_takes_is_let_go() {
    let mut bench = bench(1, 2);
    let fix = bench.workers[0].fix(page(3), Exclusive);
    bench.workers[0].poll(bench.now, &mut NoVerbs);
    bench.workers[0].abandon(fix);
    let ready = bench.workers[0].fix(page(4), Exclusive);
    idle(&mut bench);
    bench.workers[0].abandon(ready);
    assert_eq!(bench.change(1, 3), Ok(1));
    assert_eq!(bench.change(1, 4), Ok(1));
    assert!(bench.workers[0].take(fix).is_none());
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "waits for itself"))]
fn who_fixes_twice_is_told() {
    let mut bench = bench(1, 1);
    let _guard = bench.fix(0, 3, Shared).unwrap();
    let _again = bench.fix(0, 3, Shared).unwrap();
    let conflict = crate::page_store::FixError::Conflict(page(3));
    assert_eq!(bench.fix(0, 3, Exclusive).unwrap_err(), conflict);
    assert_eq!(bench.fix(0, 4, Exclusive).err(), None);
}

#[test]
#[should_panic(expected = "cannot be changed")]
fn a_shared_guard_changes_nothing() {
    let mut bench = bench(1, 1);
    bench.fix(0, 3, Shared).unwrap().data_mut();
}

#[test]
fn guards_may_go_to_other_threads() {
    let mut bench = bench(1, 1);
    let mut guard = bench.fix(0, 3, Exclusive).unwrap();
    let thread = std::thread::spawn(move || increment(&mut guard));
    assert_eq!(thread.join().unwrap(), 1);
    bench.settle();
    assert_eq!(bench.rack.entry(page(3)).latch.version(), 1);
}

#[test]
fn a_worker_that_ends_idle_leaves_nothing_behind() {
    let mut bench = bench(1, 2);
    let guard = bench.fix(1, 3, Exclusive).unwrap();
    bench.settle();
    bench.workers.pop();
    drop(guard);
    assert_eq!(bench.change(0, 3), Ok(1));
}

#[test]
fn pools_have_bounds() {
    let make = |page_size, frames, len| {
        let block = Memory::new(1 << 24).allocate(len).unwrap();
        let config = PoolConfig {
            frame_size: page_size,
            frames,
            ..PoolConfig::new(0, 4096, 8)
        };
        Pool::new(block, config).map(|pool| pool.config().frames)
    };
    for size in [0, 2048, 5000, 2 << 20] {
        assert_eq!(make(size, 8, 1 << 20), Err(PoolError::PageSize(size)));
    }
    assert_eq!(
        make(4096, 3, 1 << 20),
        Err(PoolError::Frames {
            frames: 3,
            page_size: 4096
        })
    );
    let needs = PoolLayout::new(4096, 8).bytes();
    let has = needs - 1;
    let small = PoolError::TooSmall { needs, has };
    assert_eq!(make(4096, 8, has as usize), Err(small));
    assert_eq!(make(4096, 8, needs as usize), Ok(8));
}

#[test]
fn a_worker_says_when_it_is_to_be_polled() {
    let mut bench = bench(1, 1);
    assert_eq!(bench.workers[0].poll_timeout(), None);
    let fix = bench.workers[0].fix(page(3), Shared);
    // It makes progress if it is polled only at the times that it returns.
    let mut polls = 0;
    let guard = loop {
        if let Some(result) = bench.workers[0].take(fix) {
            break result.unwrap();
        }
        let at = bench.workers[0].poll_timeout().expect("a fix is under way");
        bench.now = bench.now.max(at) + Duration::from_nanos(1);
        bench.workers[0].poll(bench.now, &mut NoVerbs);
        polls += 1;
        assert!(polls < 100);
    };
    drop(guard);
    assert_eq!(bench.workers[0].poll_timeout(), None);
}
