//! Storage that is full, fails or returns wrong data; nodes that are declared dead; directories
//! that do not respond.

use super::bench::{Bench, counter, increment, page};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::{CommitError, FixError, FlushError, Loss, PageGuard, PoolConfig};
use rackweave_wire::fabric::page::{LatchWord, PageHeader};

fn bench(nodes: usize, workers: usize) -> Bench {
    Bench::new(11, nodes, workers, 8, 200)
}

#[test]
fn a_full_device_fails_fixes_and_loses_nothing() {
    let mut bench = bench(1, 1);
    bench.rack.model().room = 3;
    let mut changed = 0;
    let error = loop {
        match bench.change(0, changed) {
            Ok(_) => changed += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, FixError::StorageFull);
    assert!(changed >= 8, "the pool was not full after {changed} pages");
    assert!(bench.statistics().write_failures > 0);
    let flush = bench.flush(0).unwrap_err();
    let FlushError::Pages {
        pages,
        failed,
        source: FixError::StorageFull,
        ..
    } = flush
    else {
        panic!("{flush}");
    };
    assert_eq!(pages, failed);
    // Pages in the pool are still available, and can be changed.
    let kept = (0..changed).find(|n| !bench.rack.model().homes.contains_key(&page(*n)));
    assert_eq!(bench.change(0, kept.unwrap()), Ok(2));
    bench.rack.model().room = usize::MAX;
    for number in 0..changed {
        let guard = bench.fix(0, number, Shared).unwrap();
        assert_eq!(
            counter(&guard),
            1 + u64::from(Some(number) == kept),
            "page {number}"
        );
    }
    assert_eq!(bench.change(0, 100), Ok(1));
    bench.flush(0).unwrap();
}

#[test]
fn storage_that_fails_is_reported_with_its_status() {
    let mut bench = bench(1, 1);
    bench.change(0, 1).unwrap();
    bench.rack.model().fault = Some(0x281);
    let failed = FixError::Storage { status: 0x281 };
    assert_eq!(bench.fix(0, 2, Shared).unwrap_err(), failed);
    assert_eq!(bench.fix(0, 2, Exclusive).unwrap_err(), failed);
    let error = FlushError::Pages {
        pages: 1,
        failed: 1,
        page: page(1),
        source: failed,
    };
    assert_eq!(bench.flush(0), Err(error));
    bench.rack.model().fault = None;
    assert_eq!(bench.flush(0), Ok(1));
    assert_eq!(bench.flush(0), Ok(0), "they are the same at home now");
    assert_eq!(bench.change(0, 2), Ok(1));
}

#[test]
fn a_flush_outlives_a_power_cut_and_an_eviction_alone_does_not() {
    let mut bench = bench(1, 1);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    assert_eq!(bench.rack.model().flushes, 1);
    assert_eq!(bench.flush(0), Ok(0));
    assert_eq!(bench.rack.model().flushes, 2, "others may have written");
    bench.change(0, 2).unwrap();
    // Page 2 is evicted to free a frame.
    for number in 10..40 {
        bench.change(0, number).unwrap();
    }
    assert!(bench.rack.model().homes.contains_key(&page(2)));
    assert!(!bench.rack.model().durable.contains_key(&page(2)));
    bench.flush(0).unwrap();
    let model = bench.rack.model();
    assert_eq!(model.durable.len(), 32, "evictions of before are covered");
    assert_eq!(model.durable, model.homes);
}

#[test]
fn a_flush_covers_what_another_node_has_written_home() {
    let mut bench = bench(2, 1);
    // Page 2 is evicted to free a frame, and its node does nothing more.
    for number in [2].into_iter().chain(10..40) {
        bench.change(0, number).unwrap();
    }
    assert!(bench.rack.model().homes.contains_key(&page(2)));
    drop(bench.fix(1, 60, Shared).unwrap());
    bench.flush(1).unwrap();
    assert!(bench.rack.model().durable.contains_key(&page(2)));
}

#[test]
fn a_flush_that_the_device_does_not_confirm_fails() {
    let mut bench = bench(1, 1);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    bench.change(0, 1).unwrap();
    let flush = bench.workers[0].flush();
    // The page is written, and the device fails before it confirms.
    bench.wait(|bench| (bench.statistics().written == 2).then_some(()));
    bench.rack.model().fault = Some(0x280);
    let error = bench
        .wait(|bench| bench.workers[0].take_flush(flush))
        .unwrap_err();
    let source = FixError::Storage { status: 0x280 };
    assert_eq!(error, FlushError::Store { store: 1, source });
    assert_eq!(error.cause(), source);
    bench.rack.model().fault = None;
    assert_eq!(bench.flush(0), Ok(0), "the page is home, and now durable");
    assert_eq!(bench.rack.model().flushes, 2);
}

#[test]
fn a_single_page_is_written_and_made_durable() {
    let mut bench = bench(2, 1);
    bench.change(0, 1).unwrap();
    bench.change(0, 2).unwrap();
    let flush = |bench: &mut Bench, number| {
        let flush = bench.workers[0].flush_page(page(number));
        bench.wait(|bench| bench.workers[0].take_flush(flush))
    };
    assert_eq!(flush(&mut bench, 1).unwrap().written, 1);
    assert_eq!(
        flush(&mut bench, 1).unwrap().written,
        0,
        "it is the same at home"
    );
    assert_eq!(bench.rack.model().durable.len(), 1);
    // The other node has a newer version, and is responsible for writing it.
    bench.change(1, 2).unwrap();
    assert_eq!(flush(&mut bench, 2).unwrap().written, 0);
    assert_eq!(bench.rack.model().durable.len(), 1);
}

#[test]
fn all_buffer_frames_fixed_is_no_reason_to_wait_for_ever() {
    let mut bench = bench(1, 1);
    let guards: Vec<_> = (0..8)
        .map(|number| bench.fix(0, number, Shared).unwrap())
        .collect();
    let error = bench.fix(0, 8, Shared).unwrap_err();
    assert_eq!(error, FixError::PoolTooSmall { frames: 8 });
    drop(guards);
    bench.fix(0, 8, Shared).unwrap();
}

#[test]
fn damage_on_storage_is_found() {
    let mut bench = bench(1, 2);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    let good = bench.rack.model().homes[&page(1)].clone();
    assert_ne!(PageHeader::parse(&good).unwrap().checksum, 0);
    for byte in [24, 32, 40, 2000, 4095] {
        bench.start(1, 2, |node| PoolConfig::new(node, 4096, 8));
        let mut bad = good.clone();
        bad[byte] ^= 0x10;
        bench.rack.model().homes.insert(page(1), bad);
        let shared = bench.fix(0, 1, Shared).unwrap_err();
        assert!(matches!(shared, FixError::Corrupt { page: p, .. } if p == page(1)));
        let exclusive = bench.fix(1, 1, Exclusive).unwrap_err();
        assert!(matches!(exclusive, FixError::Corrupt { .. }));
        bench.settle();
        assert_eq!(bench.rack.entry(page(1)).holder, None, "the latch was kept");
        assert_eq!(bench.statistics().checksum_failures, 2);
        bench.rack.model().homes.insert(page(1), good.clone());
        assert_eq!(counter(&bench.fix(0, 1, Shared).unwrap()), 1);
    }
}

#[test]
fn what_nobody_has_looked_at_yet_is_looked_at_by_who_takes_it_from_a_buffer_frame() {
    let mut bench = bench(1, 2);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    let good = bench.rack.model().homes[&page(1)].clone();
    let mut bad = good.clone();
    bad[2000] ^= 0x10;
    for (bytes, is_damaged) in [(good, false), (bad, true)] {
        bench.start(2, 1, |node| PoolConfig::new(node, 4096, 8));
        drop(bench.fix(0, 1, Shared).unwrap());
        let (_, frame) = bench.rack.entry(page(1)).place.cached().unwrap();
        let looked_at = bench.rack.model().header(0, frame);
        assert_eq!(looked_at.checksum, 0, "others need not look");
        bench.rack.model().arrived(0, frame, &bytes);
        // A page that is not damaged belongs to the store that was on the device before.
        bench.pools[1].set_identity(page(1).store(), 5);
        match bench.fix(1, 1, Shared) {
            Ok(guard) => assert_eq!((is_damaged, counter(&guard)), (false, 0)),
            Err(FixError::Corrupt { .. }) => assert!(is_damaged),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(bench.statistics().memory_fallback, 1);
    }
}

#[test]
fn a_header_of_zeroes_alone_is_damage_and_so_is_a_missing_checksum() {
    let mut bench = bench(1, 1);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    let good = bench.rack.model().homes[&page(1)].clone();
    let damaged = |bytes: core::ops::Range<usize>| {
        let mut bad = good.clone();
        bad[bytes].fill(0);
        bad
    };
    for bad in [damaged(0..40), damaged(0..512), damaged(16..24)] {
        bench.start(1, 1, |node| PoolConfig::new(node, 4096, 8));
        bench.rack.model().homes.insert(page(1), bad);
        let error = bench.fix(0, 1, Shared).unwrap_err();
        assert!(
            matches!(error, FixError::Corrupt { .. } | FixError::WrongPage { .. }),
            "{error}"
        );
    }
    bench.start(1, 1, |node| PoolConfig::new(node, 4096, 8));
    bench.rack.model().homes.insert(page(1), vec![0; 4096]);
    assert_eq!(counter(&bench.fix(0, 1, Shared).unwrap()), 0, "it is blank");
}

#[test]
fn another_page_in_a_pages_place_is_found() {
    let mut bench = bench(1, 1);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    bench.start(1, 1, |node| PoolConfig::new(node, 4096, 8));
    let other = bench.rack.model().homes[&page(1)].clone();
    bench.rack.model().homes.insert(page(2), other);
    let error = bench.fix(0, 2, Shared).unwrap_err();
    let wrong = FixError::WrongPage {
        page: page(2),
        found: page(1).tag(),
        store: 0,
    };
    assert_eq!(error, wrong);
    assert_eq!(bench.statistics().wrong_pages, 1);
}

#[test]
fn without_checksums_nothing_is_sealed_or_checked() {
    let mut bench = bench(1, 1);
    let config = |node| PoolConfig {
        checksums: false,
        ..PoolConfig::new(node, 4096, 8)
    };
    bench.start(1, 1, config);
    bench.change(0, 1).unwrap();
    bench.flush(0).unwrap();
    let home = bench.rack.model().homes[&page(1)].clone();
    assert_eq!(PageHeader::parse(&home).unwrap().checksum, 0);
}

#[test]
fn a_node_taken_for_dead_is_told_what_it_lost() {
    let mut bench = bench(2, 1);
    bench.change(0, 2).unwrap();
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    bench.rack.presume_dead(0);
    assert_eq!(bench.change(1, 1), Ok(1));
    increment(&mut guard);
    drop(guard);
    bench.settle();
    let loss = Loss {
        page: page(1),
        version: 1,
    };
    assert_eq!(bench.workers[0].losses(), [loss]);
    assert_eq!(bench.workers[0].losses(), []);
    let guard = bench.fix(0, 1, Shared).unwrap();
    assert_eq!((counter(&guard), guard.version()), (1, 1));
    drop(guard);
    // Its earlier unwritten changes are lost; no node gets home's old version.
    for worker in 0..2 {
        for mode in [Shared, Exclusive] {
            let error = bench.fix(worker, 2, mode).unwrap_err();
            assert_eq!(error, FixError::Lost(page(2)));
        }
    }
}

/// Starts to release a changed page's latch, and waits for the outcome of the change.
fn committed(bench: &mut Bench, guard: PageGuard) -> Result<(), CommitError> {
    let commit = guard.commit();
    assert_eq!(commit.outcome(), None, "nobody was asked yet");
    bench.wait(|_| commit.outcome())
}

#[test]
fn who_commits_hears_whether_the_change_was_taken() {
    let mut bench = bench(2, 1);
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    increment(&mut guard);
    assert_eq!(committed(&mut bench, guard), Ok(()));
    assert_eq!(counter(&bench.fix(1, 1, Shared).unwrap()), 1);
    // For a page released unchanged, and for one that was only read.
    let guard = bench.fix(0, 1, Exclusive).unwrap();
    assert_eq!(committed(&mut bench, guard), Ok(()));
    let guard = bench.fix(0, 1, Shared).unwrap();
    assert_eq!(guard.commit().outcome(), Some(Ok(())));
    bench.flush(0).unwrap();
    // Another node has changed the page since the latch was revoked.
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    increment(&mut guard);
    let mut forgotten = bench.fix(0, 3, Exclusive).unwrap();
    increment(&mut forgotten);
    bench.rack.presume_dead(0);
    bench.change(1, 1).unwrap();
    bench.change(1, 3).unwrap();
    let superseded = Err(CommitError::Superseded(page(1)));
    assert_eq!(committed(&mut bench, guard), superseded);
    assert_eq!(bench.workers[0].losses(), [], "who committed was told");
    drop(forgotten.commit());
    bench.settle();
    let loss = Loss {
        page: page(3),
        version: 1,
    };
    assert_eq!(bench.workers[0].losses(), [loss]);
}

#[test]
fn a_change_of_a_page_that_is_lost_is_an_error() {
    let mut bench = bench(2, 1);
    bench.change(0, 1).unwrap();
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    increment(&mut guard);
    // Its newest version was in this node's memory, and is no longer valid.
    bench.rack.presume_dead(0);
    let superseded = Err(CommitError::Superseded(page(1)));
    assert_eq!(committed(&mut bench, guard), superseded);
    let error = bench.fix(1, 1, Shared).unwrap_err();
    assert_eq!(error, FixError::Lost(page(1)));
}

#[test]
fn a_change_that_was_taken_although_nobody_answered_is_committed() {
    let mut bench = bench(2, 1);
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    increment(&mut guard);
    let commit = guard.commit();
    bench.rack.model().is_mute = true;
    bench.wait(|bench| bench.rack.entry(page(1)).holder.is_none().then_some(()));
    for _ in 0..20 {
        bench.step();
    }
    assert_eq!(commit.outcome(), None);
    assert_eq!(commit.late(), CommitError::TimedOut(page(1)));
    bench.rack.model().is_mute = false;
    assert_eq!(bench.wait(|_| commit.outcome()), Ok(()));
}

#[test]
fn a_directory_that_is_gone_is_waited_for_but_not_for_ever() {
    let mut bench = bench(1, 1);
    let config = |node| PoolConfig {
        patience: rackweave_base::Duration::from_millis(2),
        ..PoolConfig::new(node, 4096, 8)
    };
    bench.start(1, 1, config);
    bench.change(0, 1).unwrap();
    let guard = bench.fix(0, 2, Exclusive).unwrap();
    bench.rack.model().is_gone = true;
    for (number, mode) in [(1, Shared), (1, Exclusive), (3, Shared), (3, Exclusive)] {
        assert_eq!(bench.fix(0, number, mode).unwrap_err(), FixError::Gone);
    }
    drop(guard);
    for _ in 0..20_000 {
        bench.step();
    }
    assert!(!bench.workers[0].is_idle(), "the latch has to go back");
    bench.rack.model().is_gone = false;
    bench.settle();
    assert_eq!(bench.rack.entry(page(2)).holder, None);
    assert_eq!(
        bench.change(0, 1),
        Ok(2),
        "the copy that was there was kept"
    );
}

#[test]
fn what_was_done_although_nobody_answered_is_not_undone() {
    let mut bench = bench(2, 1);
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    increment(&mut guard);
    drop(guard);
    bench.rack.model().is_mute = true;
    bench.wait(|bench| bench.rack.entry(page(1)).holder.is_none().then_some(()));
    for _ in 0..20 {
        bench.step();
    }
    bench.rack.model().is_mute = false;
    bench.settle();
    assert_eq!(bench.workers[0].losses(), []);
    assert_eq!(counter(&bench.fix(1, 1, Shared).unwrap()), 1);
    // It was written home without a confirmation, and a power failure may revert it.
    let flush = bench.workers[0].flush();
    bench.rack.model().is_mute = true;
    bench.wait(|bench| {
        bench
            .rack
            .model()
            .homes
            .contains_key(&page(1))
            .then_some(())
    });
    for _ in 0..20 {
        bench.step();
    }
    bench.rack.model().is_mute = false;
    bench
        .wait(|bench| bench.workers[0].take_flush(flush))
        .unwrap();
    assert!(bench.rack.model().durable.contains_key(&page(1)));
}

/// As a member of the store can do with an entry in a memory server.
#[test]
fn a_version_that_another_node_sets_back_under_the_latch_is_taken_over() {
    let mut bench = bench(2, 1);
    for count in 1..4 {
        assert_eq!(bench.change(0, 1), Ok(count));
    }
    let mut guard = bench.fix(0, 1, Exclusive).unwrap();
    assert_eq!(increment(&mut guard), 4);
    let back = LatchWord::open(0).locked();
    bench.rack.model().forged.insert(page(1));
    bench.rack.model().entries.get_mut(&page(1)).unwrap().latch = back;
    drop(guard);
    bench.settle();
    for node in [1, 0] {
        let guard = bench.fix(node, 1, Shared).unwrap();
        assert_eq!((counter(&guard), guard.version()), (4, 1), "node {node}");
    }
    assert_eq!(bench.change(1, 1), Ok(5));
}
