//! Stores: created, opened, filled, closed.

use super::bench::{Bench, NoVerbs, counter, increment, page, pool};
use super::fake::{FakeDirectory, Rack};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::*;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{Progress, Verbs};
use rackweave_wire::fabric::page::HEADER_LEN;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const STORE: u8 = 1;
const OPTIONS: FormatOptions = FormatOptions {
    store: STORE,
    capacity: 150,
    identity: 77,
};

/// Time advances with each reading.
#[derive(Default)]
struct Clock(AtomicU64);

impl Progress for Clock {
    fn drive(&self) -> bool {
        false
    }
    fn relax(&self, idle_rounds: u32) {
        assert!(
            idle_rounds < 1_000_000,
            "somebody waits for what never comes"
        );
    }
}

impl NodeAccess for Clock {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        act(&mut NoVerbs);
    }
    fn now(&self) -> Instant {
        let nanos = Duration::from_nanos(300).as_nanos();
        Instant::from_nanos(self.0.fetch_add(nanos, Ordering::Relaxed))
    }
}

fn stores(rack: &Rack, config: PoolConfig, count: usize) -> Vec<PageStore<FakeDirectory>> {
    rack.restart();
    let pool = pool(rack, config);
    let access: Arc<Clock> = Arc::default();
    let store = |_| {
        let worker = Worker::new(Arc::clone(&pool), rack.directory(0));
        PageStore::new(worker, access.clone())
    };
    (0..count).map(store).collect()
}

fn config() -> PoolConfig {
    PoolConfig::new(0, 4096, 16)
}

fn one(rack: &Rack) -> PageStore<FakeDirectory> {
    stores(rack, config(), 1).pop().unwrap()
}

#[test]
fn all_pages_can_be_used_once_and_come_back() {
    let rack = Rack::new(1, 4096, 150);
    let mut stores = stores(&rack, config(), 2);
    stores[0].format(OPTIONS).unwrap();
    assert_eq!(stores[1].open(STORE).unwrap().capacity, 150);
    let mut pages = HashSet::new();
    let mut at = 0;
    // Both allocate pages in turn; each reserves several at a time.
    loop {
        at = 1 - at;
        match stores[at].allocate() {
            Ok(page) => {
                assert!(pages.insert(page), "{page} was given out twice");
                let mut guard = stores[at].fix(page, Exclusive).unwrap();
                assert_eq!(counter(&guard), 0, "{page} is not blank");
                increment(&mut guard);
                stores[at].commit(guard).unwrap();
            }
            Err(AllocateError::StoreFull { capacity: 150 }) => {
                // The other may have some left.
                if stores[1 - at]
                    .allocate()
                    .map(|page| pages.insert(page))
                    .is_err()
                {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(pages.len(), 148, "all but superblock and map");
    for page in &pages {
        stores[1].free(*page).unwrap();
        stores[1].settle().unwrap();
    }
    let usage = stores[0].usage().unwrap();
    assert_eq!((usage.free, usage.in_use), (148, 0));
    let twice = *pages.iter().next().unwrap();
    assert_eq!(stores[0].free(twice), Err(AllocateError::NotInUse(twice)));
    stores[0].settle().unwrap();
    let no_page = |number| AllocateError::NoSuchPage(page(number), 150);
    assert_eq!(stores[0].free(page(0)), Err(no_page(0)));
    assert_eq!(stores[0].free(page(1)), Err(no_page(1)));
    assert_eq!(stores[0].free(page(150)), Err(no_page(150)));
    let mut again = HashSet::new();
    while let Ok(page) = stores[0].allocate() {
        let guard = stores[0].fix(page, Shared).unwrap();
        assert_eq!(counter(&guard), 0, "{page} is not blank");
        assert!(again.insert(page));
    }
    assert_eq!(again, pages);
}

#[test]
fn a_store_that_was_closed_has_everything_and_no_page_is_lost() {
    let rack = Rack::new(2, 4096, 150);
    let mut open = stores(&rack, config(), 2);
    open[0].format(OPTIONS).unwrap();
    open[1].open(STORE).unwrap();
    let mut pages = Vec::new();
    for at in [0, 1, 0, 1, 1] {
        let page = open[at].allocate().unwrap();
        for _ in 0..pages.len() {
            let mut guard = open[at].fix(page, Exclusive).unwrap();
            increment(&mut guard);
            open[at].commit(guard).unwrap();
        }
        pages.push(page);
    }
    open[0].retire().unwrap();
    open[1].close().unwrap();
    drop(open);
    let mut store = one(&rack);
    let superblock = store.open(STORE).unwrap();
    assert_eq!((superblock.generation, superblock.identity), (1, 77));
    assert!(superblock.clean);
    let usage = store.usage().unwrap();
    assert_eq!((usage.unused, usage.in_use, usage.free), (148 - 5, 5, 0));
    for (value, page) in pages.into_iter().enumerate() {
        let guard = store.fix(page, Shared).unwrap();
        assert_eq!(counter(&guard), value as u64, "{page}");
    }
}

#[test]
fn what_is_no_such_store_is_not_opened() {
    let rack = Rack::new(3, 4096, 150);
    let mut blank = one(&rack);
    assert_eq!(blank.open(STORE), Err(OpenError::Blank(STORE)));
    assert_eq!(blank.allocate(), Err(AllocateError::NotOpen));
    for capacity in [0, 1, 2, u64::MAX] {
        let options = FormatOptions {
            capacity,
            ..OPTIONS
        };
        assert_eq!(blank.format(options), Err(OpenError::Capacity(capacity)));
    }
    blank.format(OPTIONS).unwrap();
    blank.close().unwrap();
    let other = PoolConfig {
        store_id: 5,
        ..config()
    };
    let identity = OpenError::Identity {
        store: STORE,
        found: 77,
        configured: 5,
    };
    assert_eq!(stores(&rack, other, 1)[0].open(STORE), Err(identity));
    let home = rack.model().homes[&page(0)].clone();
    let damaged = |at: usize| {
        let mut bytes = home.clone();
        bytes[at] ^= 1;
        rack.model().homes.insert(page(0), bytes);
        one(&rack).open(STORE).unwrap_err()
    };
    assert!(matches!(damaged(HEADER_LEN), OpenError::NoStore { .. }));
    assert_eq!(
        damaged(HEADER_LEN + 8),
        OpenError::Format {
            store: STORE,
            found: 3
        }
    );
    assert_eq!(damaged(64), OpenError::Damaged(STORE));
    let half = [vec![0; 2048], vec![1; 2048]].concat();
    rack.model().homes.insert(page(0), half);
    assert_eq!(one(&rack).open(STORE), Err(OpenError::Damaged(STORE)));
    let header = [vec![1; 40], vec![0; 4056]].concat();
    rack.model().homes.insert(page(0), header);
    assert_eq!(one(&rack).open(STORE), Err(OpenError::Damaged(STORE)));
    rack.model().homes.insert(page(0), home);
    one(&rack).open(STORE).unwrap();
    rack.model().pages = 100;
    let truncated = OpenError::Truncated {
        store: STORE,
        capacity: 150,
        source: FixError::NoSuchPage(page(149)),
    };
    assert_eq!(one(&rack).open(STORE), Err(truncated));
}

#[test]
fn a_store_of_another_page_size_says_so() {
    let rack = Rack::new(4, 4096, 150);
    let mut store = one(&rack);
    store.format(OPTIONS).unwrap();
    store.close().unwrap();
    drop(store);
    // What a pool of larger pages would read.
    let wide = Rack::new(4, 8192, 150);
    let mut home = rack.model().homes[&page(0)].clone();
    home.resize(8192, 7);
    wide.model().homes.insert(page(0), home);
    let config = PoolConfig::new(0, 8192, 16);
    let error = stores(&wide, config, 1)[0].open(STORE).unwrap_err();
    let expect = OpenError::PageSize {
        store: STORE,
        found: 4096,
        configured: 8192,
    };
    assert_eq!(error, expect);
    assert!(error.to_string().contains("4096") && error.to_string().contains("8192"));
}

#[test]
fn a_store_that_was_there_before_reads_as_zeroes() {
    let rack = Rack::new(5, 4096, 150);
    let mut first = one(&rack);
    first.format(OPTIONS).unwrap();
    let page = first.allocate().unwrap();
    increment(&mut first.fix(page, Exclusive).unwrap());
    first.close().unwrap();
    let mut second = one(&rack);
    let identity = 78;
    second
        .format(FormatOptions {
            identity,
            ..OPTIONS
        })
        .unwrap();
    assert_eq!(second.allocate(), Ok(page));
    assert_eq!(counter(&second.fix(page, Shared).unwrap()), 0);
    let worker = second.worker();
    let read = worker.read_optimistic(page, |peek| peek.word(0));
    assert_eq!(read.map(|(word, _)| word), Some(0));
}

#[test]
fn a_pool_many_times_smaller_than_its_store() {
    let mut bench = Bench::new(6, 1, 1, 6, 500);
    for round in 1..=3 {
        for number in 0..500 {
            assert_eq!(bench.change(0, number), Ok(round));
        }
    }
    let seen = bench.statistics();
    assert!(
        seen.evicted_dirty > 1400 && seen.quiesce_rounds > 0,
        "{seen:#?}"
    );
}

#[test]
fn a_damaged_page_is_restored() {
    let rack = Rack::new(7, 4096, 150);
    let mut store = one(&rack);
    store.format(OPTIONS).unwrap();
    let mut guard = store.fix(page(9), Exclusive).unwrap();
    increment(&mut guard);
    guard.set_lsn(5);
    store.commit(guard).unwrap();
    store.flush().unwrap();
    drop(store);
    // Damage in the header, its LSN included, and behind it.
    for at in [0, 17, 25, 39, 40, 4095] {
        rack.model().homes.get_mut(&page(9)).unwrap()[at] ^= 1;
        let mut store = one(&rack);
        store.open(STORE).unwrap();
        let error = store.fix(page(9), Exclusive).unwrap_err();
        assert!(
            matches!(error, FixError::Corrupt { .. } | FixError::WrongPage { .. }),
            "byte {at}: {error}"
        );
        let mut guard = store.restore(page(9)).unwrap();
        let conflict = Err(FixError::Conflict(page(9)));
        assert_eq!(store.restore(page(9)).map(drop), conflict);
        assert_eq!((counter(&guard), guard.lsn()), (0, 0));
        increment(&mut guard);
        guard.set_lsn(3);
        store.commit(guard).unwrap();
        store.flush().unwrap();
        let mut store = one(&rack);
        store.open(STORE).unwrap();
        let guard = store.fix(page(9), Shared).unwrap();
        assert_eq!((counter(&guard), guard.lsn()), (1, 3), "byte {at}");
    }
}

#[test]
fn a_page_that_is_allocated_again_keeps_its_lsn() {
    let rack = Rack::new(8, 4096, 150);
    let mut store = one(&rack);
    store.format(OPTIONS).unwrap();
    let mut pages = Vec::new();
    while let Ok(page) = store.allocate() {
        let mut guard = store.fix(page, Exclusive).unwrap();
        increment(&mut guard);
        guard.set_lsn(7);
        store.commit(guard).unwrap();
        pages.push(page);
    }
    store.free(pages[3]).unwrap();
    store.settle().unwrap();
    assert_eq!(store.allocate(), Ok(pages[3]));
    let guard = store.fix(pages[3], Shared).unwrap();
    assert_eq!((counter(&guard), guard.lsn()), (0, 7));
}

#[test]
fn a_store_that_is_open_is_durable_though_its_format_failed() {
    let rack = Rack::new(9, 4096, 150);
    let mut store = one(&rack);
    // It is in the pool, so writing it fails and reading it does not.
    drop(store.fix(page(0), Shared).unwrap());
    rack.model().fault = Some(0x281);
    let failed = store.format(OPTIONS);
    assert!(matches!(failed, Err(OpenError::Flush(_))), "{failed:?}");
    rack.model().fault = None;
    store.open(STORE).unwrap();
    let page = store.allocate().unwrap();
    drop(store);
    rack.cut_power();
    let mut store = one(&rack);
    assert!(!store.open(STORE).unwrap().clean);
    assert_ne!(store.allocate(), Ok(page));
}

/// The store could not be created on a full device, and its superblock exists only in memory. A
/// node that opens it there makes it durable; if its loss is accepted meanwhile, it does not exist.
#[test]
fn a_superblock_that_is_lost_while_it_is_opened_is_not_there() {
    let (mut opened, mut blank) = (0, 0);
    for steps in 0..100 {
        let mut bench = Bench::new(steps, 1, 1, 8, OPTIONS.capacity);
        bench.rack.model().room = 0;
        let mut formatting = Formatting::new(OPTIONS, 4096).unwrap();
        let made = bench.wait(|bench| formatting.poll(&mut bench.workers[0]));
        assert!(matches!(made, Err(OpenError::Flush(_))), "{made:?}");
        bench.rack.model().room = usize::MAX;
        let superblock = page(0);
        let mut opening = Opening::new(STORE);
        let mut result = None;
        for _ in 0..steps {
            bench.step();
            result = result.or_else(|| opening.poll(&mut bench.workers[0]));
        }
        bench.wait(|bench| {
            let mut model = bench.rack.model();
            let entry = model.entries.get_mut(&superblock).unwrap();
            let is_free = !entry.latch.is_locked();
            if is_free && entry.place.is_dirty() && !entry.place.is_writing() {
                entry.place = entry.place.died(0);
            }
            is_free.then_some(())
        });
        bench.rack.accept_loss(superblock);
        let result =
            result.unwrap_or_else(|| bench.wait(|bench| opening.poll(&mut bench.workers[0])));
        match result {
            Ok(_) => opened += 1,
            Err(OpenError::Blank(STORE)) => blank += 1,
            Err(error) => panic!("{error} after {steps} steps"),
        }
        let is_home = bench.rack.model().homes.contains_key(&superblock);
        assert_eq!(result.is_ok(), is_home, "after {steps} steps");
    }
    assert!(opened > 5 && blank > 5, "{opened} {blank}");
}
