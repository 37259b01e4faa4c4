//! The engine's log: no change leaves a node before the log is durable up to its LSN.

use super::bench::{Bench, NoVerbs, PAGE, counter, increment, page};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::{FixError, FlushError, PageGuard, PoolConfig, RedoLog};
use rackweave_base::Duration;
use rackweave_wire::fabric::page::PageHeader;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A log that is durable up to a bound, and records the requests.
#[derive(Default)]
pub(super) struct Log {
    bound: AtomicU64,
    durable: AtomicU64,
    asked: Mutex<Vec<u64>>,
}

impl Log {
    pub fn up_to(bound: u64) -> Arc<Self> {
        let log = Self::default();
        log.allow(bound);
        Arc::new(log)
    }

    pub fn allow(&self, bound: u64) {
        self.bound.store(bound, Ordering::Relaxed);
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }

    fn asked(&self) -> Vec<u64> {
        core::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl RedoLog for Log {
    fn make_durable(&self, lsn: u64) -> u64 {
        self.asked.lock().unwrap().push(lsn);
        let durable = lsn.min(self.bound.load(Ordering::Relaxed));
        self.durable.fetch_max(durable, Ordering::Relaxed);
        self.durable()
    }
}

fn bench(nodes: usize, log: &Arc<Log>) -> Bench {
    let mut bench = Bench::new(7, nodes, 1, 8, 100);
    bench.start(nodes, 1, |node| PoolConfig {
        patience: Duration::from_millis(5),
        ..PoolConfig::new(node, PAGE as u32, 8)
    });
    for pool in &bench.pools {
        pool.set_log(log.clone());
    }
    bench
}

/// Fixes a page at node 0 and changes it under an LSN.
fn changed(bench: &mut Bench, number: u64, lsn: u64) -> PageGuard {
    let mut guard = bench.fix(0, number, Exclusive).unwrap();
    increment(&mut guard);
    guard.set_lsn(lsn);
    assert_eq!(guard.lsn(), lsn);
    guard
}

fn idle(bench: &mut Bench) {
    for _ in 0..500 {
        bench.step();
    }
}

fn home(bench: &Bench, number: u64) -> Option<PageHeader> {
    let model = bench.rack.model();
    PageHeader::parse(model.homes.get(&page(number))?)
}

#[test]
fn no_node_sees_a_change_before_the_log_has_it() {
    let log = Log::up_to(9);
    let mut bench = bench(2, &log);
    drop(changed(&mut bench, 3, 10));
    let there = bench.workers[1].fix(page(3), Shared);
    idle(&mut bench);
    assert!(bench.workers[1].take(there).is_none());
    let entry = bench.rack.entry(page(3));
    assert_eq!((entry.holder, entry.latch.version()), (Some(0), 0));
    assert!(log.asked().iter().all(|&lsn| lsn == 10));
    assert!(bench.statistics().log_behind > 2);
    log.allow(10);
    let guard = bench.take(1, there).unwrap();
    assert_eq!((counter(&guard), guard.lsn()), (1, 10));
    drop(guard);
    assert_eq!(home(&bench, 3), None);
    bench.flush(0).unwrap();
    assert_eq!(home(&bench, 3).unwrap().lsn, 10);
}

#[test]
fn one_call_for_all_that_leaves() {
    let log = Log::up_to(u64::MAX);
    let mut bench = bench(1, &log);
    let guards: Vec<_> = (1..=5)
        .map(|lsn| changed(&mut bench, lsn, 10 - lsn))
        .collect();
    drop(guards);
    bench.workers[0].poll(bench.now, &mut NoVerbs);
    assert_eq!(log.asked(), [9]);
    bench.settle();
    // A confirmed LSN is not requested again: not for its writes, not for older changes.
    drop(changed(&mut bench, 6, 8));
    bench.settle();
    bench.flush(0).unwrap();
    assert_eq!((log.asked(), bench.statistics().log_behind), (vec![], 0));
}

#[test]
fn only_those_wait_that_the_log_does_not_have() {
    let log = Log::up_to(5);
    let mut bench = bench(2, &log);
    let guards = [changed(&mut bench, 1, 5), changed(&mut bench, 2, 6)];
    let mut without = bench.fix(0, 3, Exclusive).unwrap();
    increment(&mut without);
    let unchanged = bench.fix(0, 4, Exclusive).unwrap();
    drop((guards, without, unchanged));
    for number in [1, 3, 4] {
        drop(bench.fix(1, number, Exclusive).unwrap());
    }
    let late = bench.workers[1].fix(page(2), Exclusive);
    idle(&mut bench);
    assert!(bench.workers[1].take(late).is_none());
    log.allow(6);
    assert_eq!(counter(&bench.take(1, late).unwrap()), 1);
}

#[test]
fn a_change_without_an_lsn_waits_for_no_log_whoever_gave_the_page_one_before() {
    let log = Log::up_to(10);
    let mut bench = bench(2, &log);
    drop(changed(&mut bench, 3, 10));
    bench.settle();
    // The other node's own log never had that record.
    let other = Log::up_to(0);
    bench.pools[1].set_log(other.clone());
    assert_eq!(bench.change(1, 3), Ok(2));
    let guard = bench.fix(0, 3, Shared).unwrap();
    assert_eq!((counter(&guard), guard.lsn()), (2, 10));
    assert_eq!(other.asked(), []);
}

#[test]
fn a_flush_does_not_wait_for_ever_for_the_log() {
    let log = Log::up_to(5);
    let mut bench = bench(2, &log);
    drop(changed(&mut bench, 1, 5));
    drop(changed(&mut bench, 2, 6));
    let error = bench.flush(0).unwrap_err();
    let (pages, failed) = (2, 1);
    let source = FixError::NotLogged(page(2));
    let expected = FlushError::Pages {
        pages,
        failed,
        page: page(2),
        source,
    };
    assert_eq!(error, expected);
    assert_eq!(home(&bench, 1).unwrap().lsn, 5);
    assert_eq!(home(&bench, 2), None);
    log.allow(6);
    assert_eq!(bench.flush(0), Ok(1));
    assert_eq!(home(&bench, 2).unwrap().lsn, 6);
}

#[test]
fn what_was_changed_before_there_was_a_log_is_not_written_home_without_it() {
    let mut bench = Bench::new(7, 1, 1, 8, 100);
    bench.start(1, 1, |node| PoolConfig {
        patience: Duration::from_millis(5),
        ..PoolConfig::new(node, PAGE as u32, 8)
    });
    drop(changed(&mut bench, 1, 5));
    bench.settle();
    let log = Log::up_to(0);
    bench.pools[0].set_log(log.clone());
    let cause = bench.flush(0).unwrap_err().cause();
    assert_eq!(cause, FixError::NotLogged(page(1)));
    assert_eq!(home(&bench, 1), None);
    log.allow(5);
    assert_eq!(bench.flush(0), Ok(1));
}

/// Two nodes change pages at random under one log that is always behind; their pools are small, so
/// pages are constantly written home. Neither a home nor a page that other nodes may fetch is ever
/// ahead of the log. Returns the page to which each LSN, from 1 on, was given.
fn play(bench: &mut Bench, log: &Log) -> Vec<u64> {
    let (mut changes, mut fixes) = (Vec::new(), [None; 2]);
    for round in 0..60_000 {
        let worker = round % 2;
        let number = bench.rng.below(40);
        let workers = &mut bench.workers;
        let begin = || (number, workers[worker].fix_in_turn(page(number), Exclusive));
        let (number, fix) = *fixes[worker].get_or_insert_with(begin);
        if let Some(guard) = bench.workers[worker].take(fix) {
            let mut guard = guard.unwrap();
            increment(&mut guard);
            changes.push(number);
            guard.set_lsn(changes.len() as u64);
            fixes[worker] = None;
        }
        let behind = bench.rng.below(8);
        log.allow((changes.len() as u64).saturating_sub(behind));
        bench.step();
        let model = bench.rack.model();
        for bytes in model.homes.values() {
            assert!(PageHeader::parse(bytes).unwrap().lsn <= log.durable());
        }
        let free = model.entries.values().filter(|e| e.holder.is_none());
        for (node, frame) in free.filter_map(|entry| entry.place.cached()) {
            assert!(model.header(node, frame).lsn <= log.durable());
        }
    }
    changes
}

#[test]
fn nothing_is_ever_ahead_of_the_log() {
    let log = Log::up_to(0);
    let mut bench = bench(2, &log);
    let changes = play(&mut bench, &log);
    assert!(changes.len() > 400 && bench.statistics().written > 100);
    assert!(bench.statistics().log_behind > 100);
}

#[test]
fn after_a_power_cut_a_page_has_the_changes_up_to_its_lsn_and_no_others() {
    let log = Log::up_to(0);
    let mut bench = bench(2, &log);
    let changes = play(&mut bench, &log);
    let flush = bench.workers[0].flush();
    let _some_are_written = (0..2000).any(|_| {
        bench.step();
        bench.workers[0].take_flush(flush).is_some()
    });
    bench.rack.cut_power();
    bench.start(1, 1, |node| PoolConfig::new(node, PAGE as u32, 8));
    let mut replayed = 0;
    for number in 0..40 {
        let guard = bench.fix(0, number, Shared).unwrap();
        assert!(guard.lsn() <= log.durable());
        let (mut had, mut lost) = (0, 0);
        for (lsn, _) in (1..).zip(&changes).filter(|(_, page)| **page == number) {
            had += u64::from(lsn <= guard.lsn());
            lost += u64::from(lsn > guard.lsn() && lsn <= log.durable());
        }
        assert_eq!(counter(&guard), had, "page {number}");
        replayed += lost;
    }
    assert!(replayed > 0, "the log was of no use");
}

#[test]
#[should_panic(expected = "fixed shared")]
fn a_shared_guard_gets_no_lsn() {
    let mut bench = Bench::new(7, 1, 1, 8, 100);
    bench.fix(0, 3, Shared).unwrap().set_lsn(1);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "LSN 4 after 5"))]
fn lsns_do_not_go_backwards() {
    let mut bench = Bench::new(7, 1, 1, 8, 100);
    drop(changed(&mut bench, 3, 5));
    drop(changed(&mut bench, 3, 4));
}
