//! Random histories: every guard agrees with the page's history, nothing is torn, nothing lost.

use super::bench::{Bench, NoVerbs, counter, increment, page};
use crate::page_store::{Fix, FixError, Mode, PageGuard, PoolConfig, Statistics};
use rackweave_base::{Duration, Instant, Rng};
use std::collections::HashMap;

/// The parameters of a random history.
#[derive(Clone, Copy)]
struct HistoryPlan {
    nodes: usize,
    workers: usize,
    tasks: usize,
    frames: u32,
    pages: u64,
    operations: u64,
    exclusive: f64,
    breaks: f64,
}

const SMALL: HistoryPlan = HistoryPlan {
    nodes: 3,
    workers: 2,
    tasks: 2,
    frames: 12,
    pages: 40,
    operations: 3000,
    exclusive: 0.4,
    breaks: 0.0,
};

/// A task that fixes pages one after the other.
enum Task {
    Rests,
    Fixes {
        fix: Fix,
        number: u64,
        mode: Mode,
        floor: u64,
    },
    Holds {
        guard: PageGuard,
        until: Instant,
        value: u64,
    },
}

/// Runs a history and flushes. Returns how often each page was changed.
#[expect(
    clippy::too_many_lines,
    reason = "what a random history does, in its order"
)]
fn run(seed: u64, plan: HistoryPlan) -> (Bench, HashMap<u64, u64>) {
    println!("seed {seed}");
    let mut bench = Bench::new(seed, plan.nodes, plan.workers, plan.frames, plan.pages);
    bench.rack.model().breaks = plan.breaks;
    let mut rng = Rng::new(seed ^ 0x5eed);
    let count = plan.nodes * plan.workers * plan.tasks;
    let mut tasks: Vec<Task> = (0..count).map(|_| Task::Rests).collect();
    let mut changes = HashMap::new();
    let mut begun = 0;
    let mut ended = 0;
    while ended < plan.operations {
        for (at, task) in tasks.iter_mut().enumerate() {
            let worker = at / plan.tasks;
            let next = match std::mem::replace(task, Task::Rests) {
                Task::Rests if begun < plan.operations => {
                    begun += 1;
                    // Some pages are hot.
                    let number = rng.below(plan.pages).min(rng.below(plan.pages));
                    let exclusive = rng.chance(plan.exclusive);
                    let mode = if exclusive {
                        Mode::Exclusive
                    } else {
                        Mode::Shared
                    };
                    if rng.chance(0.05) {
                        bench.workers[worker].prefetch(page(rng.below(plan.pages)));
                    }
                    Task::Fixes {
                        fix: bench.workers[worker].fix_in_turn(page(number), mode),
                        number,
                        mode,
                        floor: bench.rack.entry(page(number)).latch.version(),
                    }
                }
                Task::Rests => Task::Rests,
                Task::Fixes {
                    fix,
                    number,
                    mode,
                    floor,
                } => match bench.workers[worker].take(fix) {
                    None => Task::Fixes {
                        fix,
                        number,
                        mode,
                        floor,
                    },
                    Some(Err(error)) => panic!("{mode:?} {number}: {error}"),
                    Some(Ok(mut guard)) => {
                        let value = counter(&guard);
                        let entry = bench.rack.entry(page(number));
                        assert_eq!(value, guard.version(), "page {number}");
                        assert!(floor <= value, "page {number} is older than it was");
                        assert!(value <= entry.latch.version());
                        let mut value = value;
                        if mode == Mode::Exclusive {
                            assert_eq!(value, entry.latch.version());
                            assert_eq!(entry.holder, Some((worker / plan.workers) as u16));
                            if rng.chance(0.8) {
                                value = increment(&mut guard);
                                *changes.entry(number).or_insert(0) += 1;
                            }
                        }
                        let until = bench.now + Duration::from_nanos(rng.below(3000));
                        Task::Holds {
                            guard,
                            until,
                            value,
                        }
                    }
                },
                Task::Holds {
                    guard,
                    until,
                    value,
                } if until <= bench.now => {
                    assert_eq!(counter(&guard), value, "a page changed under its guard");
                    ended += 1;
                    Task::Rests
                }
                holds => holds,
            };
            *task = next;
        }
        bench.step();
    }
    drop(tasks);
    bench.rack.model().breaks = 0.0;
    bench.settle();
    for (number, count) in &changes {
        assert_eq!(bench.rack.entry(page(*number)).latch.version(), *count);
    }
    for pool in &bench.pools {
        assert!(pool.losses().is_empty());
    }
    (bench, changes)
}

/// Only the homes remain, and they contain all changes.
fn reopen(bench: &mut Bench, changes: &HashMap<u64, u64>, plan: HistoryPlan) {
    for node in 0..plan.nodes {
        bench.flush(node * plan.workers).unwrap();
    }
    bench.start(1, 1, |node| PoolConfig::new(node, 4096, plan.frames));
    for number in 0..plan.pages {
        let guard = bench.fix(0, number, Mode::Shared).unwrap();
        let expect = changes.get(&number).copied().unwrap_or(0);
        assert_eq!(counter(&guard), expect, "page {number} after reopening");
    }
}

fn check(seeds: std::ops::Range<u64>, plan: HistoryPlan) -> Statistics {
    let mut sum = Statistics::default();
    // For longer manual runs.
    let more = std::env::var("PAGE_STORE_SEEDS")
        .ok()
        .and_then(|more| more.parse().ok());
    for seed in seeds.start..seeds.end + more.unwrap_or(0_u64) {
        let (mut bench, changes) = run(seed, plan);
        sum += bench.statistics();
        reopen(&mut bench, &changes, plan);
    }
    println!("{sum:#?}");
    sum
}

#[test]
fn nothing_is_lost_or_torn_under_pressure() {
    let sum = check(0..20, SMALL);
    // All paths were taken.
    for (name, count) in sum.list() {
        let rare = [
            // Only the switch gives leases.
            "leased_hits",
            "gone",
            "failed",
            "write_failures",
            "checksum_failures",
            "wrong_pages",
            "log_behind",
        ];
        assert!(rare.contains(&name) || count > 0, "no {name}");
    }
    assert_eq!(sum.failed, 0);
}

#[test]
fn nothing_is_lost_or_torn_where_all_want_the_same() {
    let hot = HistoryPlan {
        pages: 3,
        exclusive: 0.7,
        operations: 2000,
        ..SMALL
    };
    check(100..115, hot);
}

#[test]
fn nothing_is_lost_or_torn_when_movements_break_off() {
    let broken = HistoryPlan {
        breaks: 0.2,
        ..SMALL
    };
    let sum = check(200..215, broken);
    assert!(sum.gone > 0);
}

#[test]
fn readers_of_everything_in_one_small_pool() {
    let scan = HistoryPlan {
        nodes: 1,
        workers: 3,
        tasks: 1,
        frames: 5,
        pages: 100,
        exclusive: 0.1,
        ..SMALL
    };
    check(300..310, scan);
}

/// Only the waiting worker is polled: requests of others continue later.
#[test]
fn one_who_sleeps_holds_up_none_but_those_who_want_the_same() {
    let mut bench = Bench::new(1, 1, 2, 8, 100);
    let asleep = bench.workers[0].fix(page(0), Mode::Shared);
    bench.workers[0].poll(bench.now, &mut NoVerbs);
    for number in 1..100 {
        let fix = bench.workers[1].fix(page(number), Mode::Exclusive);
        let mut guard = loop {
            bench.now += Duration::from_nanos(500);
            bench.workers[1].poll(bench.now, &mut NoVerbs);
            if let Some(result) = bench.workers[1].take(fix) {
                break result.unwrap();
            }
            assert!(
                bench.now < Instant::from_nanos(1_000_000_000),
                "page {number}"
            );
        };
        increment(&mut guard);
    }
    bench.take(0, asleep).unwrap();
}

#[test]
fn errors_are_for_those_who_asked() {
    let mut bench = Bench::new(1, 1, 1, 8, 10);
    let beyond = bench.fix(0, 10, Mode::Shared).unwrap_err();
    assert_eq!(beyond, FixError::NoSuchPage(page(10)));
    assert_eq!(bench.change(0, 9), Ok(1));
}
