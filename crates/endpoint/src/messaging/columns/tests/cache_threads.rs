//! The cache used by several threads.

use super::super::*;
use super::setup::numbers;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use rackweave_base::Rng;
use std::sync::Barrier;
use std::thread;

const THREADS: usize = 4;
const NAMES: u64 = 12;

/// A column that contains its name and version.
fn column(name: u64, version: u64) -> ColumnData {
    numbers((name * 1_000_000 + version) as i64, 8 * (1 + name % 4))
}

fn first_number(data: &ColumnData) -> u64 {
    let bytes = data.buffer(Buffer::Values)[..8].try_into().unwrap();
    i64::from_le_bytes(bytes) as u64
}

#[test]
fn those_who_come_together_bring_it_once() {
    let cache = ColumnCache::new(1 << 20);
    let (barrier, brought) = (Barrier::new(THREADS), AtomicUsize::new(0));
    for round in 0..50 {
        let name = format!("c{round}");
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    let pinned = cache.get(&name, || {
                        brought.fetch_add(1, Ordering::Relaxed);
                        // The lock is free meanwhile.
                        let _ = cache.peek("other");
                        thread::yield_now();
                        Ok(column(1, round))
                    });
                    assert_eq!(first_number(&pinned.unwrap()), 1_000_000 + round);
                });
            }
        });
    }
    assert_eq!(brought.load(Ordering::Relaxed), 50);
    let counters = cache.counters();
    assert_eq!(counters.misses, 50);
    assert_eq!(counters.hits + counters.joined, 50 * (THREADS as u64 - 1));
}

#[test]
fn a_thread_that_panics_wakes_those_who_wait() {
    let cache = ColumnCache::new(1 << 20);
    let (entered, go) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let brings = scope.spawn(|| {
            cache.get("a", || {
                entered.wait();
                while !go.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                panic!("on purpose");
            })
        });
        entered.wait();
        let Look::Joined(waiter) = cache.look("a") else {
            panic!("it is coming");
        };
        let waits = scope.spawn(move || waiter.wait());
        go.store(true, Ordering::Release);
        assert_eq!(waits.join().unwrap(), Err(CacheError::Abandoned));
        assert!(brings.join().is_err());
    });
    // The cache continues to work.
    assert!(cache.get("a", || Ok(column(1, 1))).is_ok());
}

/// No thread sees a column that is older than the one served when it asked, or that is incomplete;
/// the counters are consistent at the end.
#[test]
#[expect(
    clippy::too_many_lines,
    reason = "the threads share what is around them"
)]
fn threads_get_what_they_ask_for() {
    // There is space for about a third of the columns.
    let cache = ColumnCache::new(10 * 64);
    let versions: Vec<AtomicU64> = (0..NAMES).map(|_| AtomicU64::new(0)).collect();
    let gets = AtomicU64::new(0);
    let most_held = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (cache, versions, gets, most_held) = (&cache, &versions, &gets, &most_held);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let mut kept = Vec::new();
                for _ in 0..3000 {
                    let at = rng.below(NAMES);
                    let (name, version) = (format!("c{at}"), &versions[at as usize]);
                    if rng.below(50) == 0 {
                        // First the served column, then the cache, so that no outdated column is
                        // kept.
                        version.fetch_add(1, Ordering::SeqCst);
                        cache.invalidate(&name);
                        continue;
                    }
                    // Another thread may be about to invalidate: then the old one is also right.
                    let before = version
                        .load(Ordering::SeqCst)
                        .saturating_sub(THREADS as u64);
                    let fails = rng.below(20) == 0;
                    let yields = rng.below(4);
                    let result = cache.get(&name, || {
                        let served = version.load(Ordering::SeqCst);
                        (0..yields).for_each(|_| thread::yield_now());
                        if fails {
                            return Err(RequestError::NoMemory { bytes: at });
                        }
                        Ok(column(at, served))
                    });
                    gets.fetch_add(1, Ordering::Relaxed);
                    match result {
                        Ok(pinned) => {
                            let (whose, found) = {
                                let number = first_number(&pinned);
                                (number / 1_000_000, number % 1_000_000)
                            };
                            assert_eq!(whose, at);
                            assert!(found >= before, "thread {thread}: {found} < {before}");
                            assert_eq!(*pinned, column(at, found));
                            kept.push(pinned);
                        }
                        Err(error) => {
                            let expect = RequestError::NoMemory { bytes: at };
                            assert_eq!(error, CacheError::Request(expect));
                        }
                    }
                    if kept.len() > 2 {
                        kept.swap_remove(rng.below(3) as usize);
                    }
                    most_held.fetch_max(cache.counters().bytes_held, Ordering::Relaxed);
                }
            });
        }
    });
    let counters = cache.counters();
    assert!(most_held.load(Ordering::Relaxed) <= cache.capacity());
    let looks = counters.hits + counters.misses + counters.joined;
    assert_eq!(looks, gets.load(Ordering::Relaxed));
    assert_eq!(counters.misses, counters.brought + counters.failures);
    assert!(counters.evictions > 0 && counters.hits > 0 && counters.invalidations > 0);
    // The counters match the contents; after the last invalidation nothing is older.
    let (mut columns, mut bytes) = (0, 0);
    for at in 0..NAMES {
        if let Some(pinned) = cache.peek(&format!("c{at}")) {
            let served = versions[at as usize].load(Ordering::SeqCst);
            assert_eq!(*pinned, column(at, served));
            columns += 1;
            bytes += pinned.shape().bytes();
        }
    }
    assert_eq!(
        (columns, bytes),
        (counters.columns_held, counters.bytes_held)
    );
}
