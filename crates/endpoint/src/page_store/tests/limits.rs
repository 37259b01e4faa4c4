//! Every call ends within its time limit, whichever peer does not respond, and returns why.

use super::bench::{NoVerbs, PAGE, counter, increment, page, pool};
use super::fake::{FakeDirectory, Rack};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::*;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{Progress, Verbs};
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const STORE: u8 = 1;
const PATIENCE: Duration = Duration::from_millis(2);
/// No call takes longer, however many steps it has.
const LIMIT: Duration = Duration::from_millis(40);
/// The store's only map.
const MAP: u64 = 1;
const GONE: FixError = FixError::Gone;

/// Each reading takes 300 ns. A call that takes longer than [`LIMIT`] panics.
#[derive(Default)]
struct Clock {
    now: AtomicU64,
    began: AtomicU64,
}

impl Clock {
    fn begin(&self) {
        self.began
            .store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Progress for Clock {
    fn drive(&self) -> bool {
        false
    }
    fn relax(&self, _: u32) {}
}

impl NodeAccess for Clock {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        act(&mut NoVerbs);
    }
    fn now(&self) -> Instant {
        let now = self.now.fetch_add(300, Ordering::Relaxed);
        let took = now - self.began.load(Ordering::Relaxed);
        assert!(took < LIMIT.as_nanos(), "the call does not end");
        Instant::from_nanos(now)
    }
}

/// Two nodes with two workers each, which have a store of 150 pages open.
struct Rig {
    rack: Rack,
    clock: Arc<Clock>,
    stores: Vec<PageStore<FakeDirectory>>,
}

/// The first worker of the first node, the second, and the first worker of the second node.
const HERE: usize = 0;
const BESIDE: usize = 1;
const THERE: usize = 2;

impl Rig {
    fn new(frames: u32) -> Self {
        let rack = Rack::new(3, PAGE, 150);
        let clock: Arc<Clock> = Arc::default();
        let mut stores = Vec::new();
        for node in 0..2 {
            let config = PoolConfig {
                patience: PATIENCE,
                ..PoolConfig::new(node, PAGE as u32, frames)
            };
            let pool = pool(&rack, config);
            for _ in 0..2 {
                let worker = Worker::new(Arc::clone(&pool), rack.directory(node));
                stores.push(PageStore::new(worker, clock.clone()));
            }
        }
        let mut rig = Self {
            rack,
            clock,
            stores,
        };
        let options = FormatOptions {
            store: STORE,
            capacity: 150,
            identity: 77,
        };
        rig.call(HERE, |store| store.format(options)).unwrap();
        rig.call(HERE, PageStore::settle).unwrap();
        for store in [BESIDE, THERE] {
            rig.call(store, |store| store.open(STORE)).unwrap();
            rig.call(store, PageStore::settle).unwrap();
        }
        rig
    }

    /// One call, whose time counts from now.
    fn call<T>(
        &mut self,
        store: usize,
        call: impl FnOnce(&mut PageStore<FakeDirectory>) -> T,
    ) -> T {
        self.clock.begin();
        call(&mut self.stores[store])
    }

    fn set_gone(&self, is_gone: bool) {
        self.rack.model().is_gone = is_gone;
    }

    fn fix(&mut self, store: usize, number: u64, mode: Mode) -> Result<PageGuard, FixError> {
        self.call(store, |store| store.fix(page(number), mode))
    }

    /// A guard of a page that was changed.
    fn changed(&mut self, store: usize, number: u64) -> PageGuard {
        let mut guard = self.fix(store, number, Exclusive).unwrap();
        increment(&mut guard);
        guard
    }

    fn holder(&self, number: u64) -> Option<u16> {
        self.rack.entry(page(number)).holder
    }

    /// The worker settles once the directory responds again, and no latch is left.
    fn recovers(&mut self, store: usize, number: u64) {
        self.set_gone(false);
        assert_eq!(self.call(store, PageStore::settle), Ok(()));
        assert_eq!(self.holder(number), None);
    }
}

#[test]
fn commit_ends_when_the_directory_is_gone_and_the_latch_goes_back_later() {
    let mut rig = Rig::new(16);
    let guard = rig.changed(HERE, 7);
    rig.set_gone(true);
    let late = CommitError::TimedOut(page(7));
    assert_eq!(rig.call(HERE, |store| store.commit(guard)), Err(late));
    assert_eq!(rig.holder(7), Some(0));
    // Whichever worker of the node is polled.
    drop(rig.stores.remove(HERE));
    rig.set_gone(false);
    assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    assert_eq!(rig.holder(7), None);
    assert_eq!(counter(&rig.fix(HERE, 7, Shared).unwrap()), 1);
}

#[test]
fn settle_ends_when_the_directory_is_gone() {
    let mut rig = Rig::new(16);
    drop(rig.fix(HERE, 7, Exclusive).unwrap());
    rig.set_gone(true);
    assert_eq!(rig.call(HERE, PageStore::settle), Err(GONE));
    assert_eq!(rig.call(HERE, PageStore::settle), Err(GONE));
    rig.recovers(HERE, 7);
}

#[test]
fn settle_ends_when_the_log_stands_still() {
    struct Still;
    impl RedoLog for Still {
        fn make_durable(&self, _: u64) -> u64 {
            0
        }
    }
    let mut rig = Rig::new(16);
    rig.stores[HERE].pool().set_log(Arc::new(Still));
    let mut guard = rig.changed(HERE, 7);
    guard.set_lsn(5);
    let late = rig.call(HERE, |store| store.commit(guard));
    assert_eq!(late, Err(CommitError::NotLogged(page(7))));
    let settled = rig.call(HERE, PageStore::settle);
    assert_eq!(settled, Err(FixError::NotLogged(page(7))));
}

#[test]
fn a_flush_ends_when_the_directory_is_gone() {
    let mut rig = Rig::new(16);
    drop(rig.changed(HERE, 7));
    rig.set_gone(true);
    // For a page whose latch is being released, and for one that is already home.
    let error = rig.call(HERE, PageStore::flush).unwrap_err();
    assert_eq!(error.cause(), GONE);
    rig.recovers(HERE, 7);
    rig.set_gone(true);
    let error = rig.call(HERE, PageStore::flush).unwrap_err();
    assert_eq!(error.cause(), GONE);
    rig.set_gone(false);
    rig.call(HERE, PageStore::flush).unwrap();
}

#[test]
fn a_flush_of_many_pages_does_not_wait_for_each() {
    let mut rig = Rig::new(512);
    for number in 2..150 {
        drop(rig.changed(HERE, number));
        rig.call(HERE, PageStore::settle).unwrap();
    }
    rig.set_gone(true);
    let error = rig.call(HERE, PageStore::flush).unwrap_err();
    let FlushError::Pages {
        pages: 148..,
        failed,
        source: GONE,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(failed >= 148, "{error}");
    rig.set_gone(false);
    assert!(rig.call(HERE, PageStore::flush).unwrap().written >= 148);
}

#[test]
fn a_flush_does_not_wait_for_another_workers_guard_or_write_for_ever() {
    let mut rig = Rig::new(16);
    drop(rig.changed(HERE, 7));
    drop(rig.changed(HERE, 8));
    rig.call(HERE, PageStore::settle).unwrap();
    let guard = rig.fix(BESIDE, 7, Exclusive).unwrap();
    let error = rig.call(HERE, PageStore::flush).unwrap_err();
    let expected = FlushError::Pages {
        pages: 2,
        failed: 1,
        page: page(7),
        source: FixError::TimedOut(page(7)),
    };
    assert_eq!(error, expected);
    drop(guard);
    // According to the directory an older version is being written home.
    rig.call(HERE, PageStore::settle).unwrap();
    let entry = rig.rack.entry(page(7));
    let is_writing = |place| {
        let mut model = rig.rack.model();
        model.entries.get_mut(&page(7)).unwrap().place = place;
    };
    is_writing(entry.place.writing());
    drop(rig.changed(HERE, 9));
    rig.call(HERE, PageStore::settle).unwrap();
    let error = rig.call(HERE, PageStore::flush).unwrap_err();
    let FlushError::Pages { failed: 1, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(error.cause(), FixError::TimedOut(page(7)));
    rig.rack.model().entries.get_mut(&page(7)).unwrap().place = entry.place;
    assert_eq!(rig.call(HERE, PageStore::flush).unwrap().written, 1);
}

#[test]
fn a_validation_ends_when_the_directory_is_gone() {
    let mut rig = Rig::new(16);
    let guard = rig.fix(HERE, 7, Shared).unwrap();
    // A thread that rested for long asks at once.
    rig.clock.now.fetch_add(1_000_000_000, Ordering::Relaxed);
    rig.rack.model().breaks = 0.0;
    assert_eq!(rig.call(HERE, |store| store.validate(&guard)), Ok(true));
    rig.set_gone(true);
    let began = rig.clock.now.load(Ordering::Relaxed);
    let valid = rig.call(HERE, |store| store.validate(&guard));
    assert_eq!(valid, Err(GONE));
    let took = rig.clock.now.load(Ordering::Relaxed) - began;
    assert!(took >= PATIENCE.as_nanos(), "it gave up after {took} ns");
}

#[test]
fn allocate_and_free_end_when_the_directory_is_gone() {
    let mut rig = Rig::new(16);
    let had = rig.call(HERE, PageStore::allocate).unwrap();
    rig.call(HERE, PageStore::settle).unwrap();
    rig.set_gone(true);
    let freed = rig.call(HERE, |store| store.free(had));
    assert_eq!(freed, Err(AllocateError::Fix(GONE)));
    // The second worker has reserved nothing.
    let allocated = rig.call(BESIDE, PageStore::allocate);
    assert_eq!(allocated, Err(AllocateError::Fix(GONE)));
    rig.recovers(HERE, MAP);
    assert_eq!(rig.call(HERE, |store| store.free(had)), Ok(()));
    rig.call(BESIDE, PageStore::allocate).unwrap();
}

#[test]
fn allocate_ends_when_its_map_is_changed_and_cannot_be_given_back() {
    let mut rig = Rig::new(16);
    let store = &mut rig.stores[HERE];
    let mut allocator = Allocator::new(*store.layout().unwrap(), store.pool());
    // As soon as it has the map.
    let mut ended = None;
    rig.clock.begin();
    while ended.is_none() {
        rig.stores[HERE].poll();
        ended = allocator.poll(rig.stores[HERE].worker_mut());
        let has_map = rig.holder(MAP).is_some();
        rig.rack.model().is_gone |= has_map;
    }
    assert_eq!(ended, Some(Err(AllocateError::Fix(GONE))));
    assert_eq!(rig.holder(MAP), Some(0));
    rig.recovers(HERE, MAP);
}

#[test]
fn open_format_close_and_retire_end_when_the_directory_is_gone() {
    let mut rig = Rig::new(16);
    let options = FormatOptions {
        store: STORE,
        capacity: 150,
        identity: 78,
    };
    rig.call(HERE, PageStore::allocate).unwrap();
    rig.call(HERE, PageStore::settle).unwrap();
    rig.set_gone(true);
    let retired = rig.call(HERE, PageStore::retire);
    assert_eq!(retired, Err(AllocateError::Fix(GONE)));
    assert!(rig.call(HERE, PageStore::close).is_err());
    let formatted = rig.call(HERE, |store| store.format(options));
    assert_eq!(formatted, Err(OpenError::Fix(GONE)));
    let opened = rig.call(HERE, |store| store.open(STORE)).map(|_| ());
    assert_eq!(opened, Err(OpenError::Fix(GONE)));
    rig.recovers(HERE, 0);
    rig.call(HERE, |store| store.open(STORE)).unwrap();
    rig.call(HERE, PageStore::close).unwrap();
}

#[test]
fn open_ends_when_its_superblock_is_changed_and_cannot_be_given_back() {
    let mut rig = Rig::new(16);
    rig.call(HERE, PageStore::close).unwrap();
    let mut opening = Opening::new(STORE);
    let mut ended = None;
    rig.clock.begin();
    while ended.is_none() {
        rig.stores[HERE].poll();
        ended = opening.poll(rig.stores[HERE].worker_mut());
        let has_superblock = rig.holder(0).is_some();
        rig.rack.model().is_gone |= has_superblock;
    }
    let error = ended.unwrap().unwrap_err();
    assert!(matches!(error, OpenError::Flush(flush) if flush.cause() == GONE));
    rig.recovers(HERE, 0);
}

#[test]
fn a_latch_that_another_node_keeps_ends_every_wait() {
    let mut rig = Rig::new(16);
    let had = rig.call(HERE, PageStore::allocate).unwrap();
    rig.call(HERE, PageStore::settle).unwrap();
    let late = |number| FixError::TimedOut(page(number));
    let guards: Vec<_> = [0, MAP, 7]
        .map(|number| rig.fix(THERE, number, Exclusive).unwrap())
        .into();
    for mode in [Shared, Exclusive] {
        assert_eq!(rig.fix(HERE, 7, mode).unwrap_err(), late(7));
    }
    let restored = rig.call(HERE, |store| store.restore(page(7))).map(|_| ());
    assert_eq!(restored, Err(late(7)));
    let freed = rig.call(HERE, |store| store.free(had));
    assert_eq!(freed, Err(late(MAP).into()));
    let allocated = rig.call(BESIDE, PageStore::allocate);
    assert!(allocated.is_err(), "{allocated:?}");
    let opened = rig.call(BESIDE, |store| store.open(STORE)).map(|_| ());
    assert_eq!(opened, Err(late(0).into()));
    assert!(rig.call(HERE, PageStore::close).is_err());
    // Abandoned operations are no longer in flight.
    for store in [HERE, BESIDE] {
        assert_eq!(rig.call(store, PageStore::settle), Ok(()));
    }
    drop(guards);
    assert_eq!(rig.call(THERE, PageStore::settle), Ok(()));
    for number in [0, MAP, 7] {
        assert_eq!(rig.holder(number), None, "page {number}");
        drop(rig.fix(HERE, number, Exclusive).unwrap());
        assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    }
}

#[test]
fn nobody_waits_for_a_prefetch_or_a_fix_that_was_given_up() {
    let mut rig = Rig::new(16);
    let guards = [7, 8].map(|number| rig.changed(THERE, number));
    rig.call(HERE, |store| store.prefetch(page(7)));
    assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    for mode in [Shared, Exclusive] {
        let fix = rig.stores[HERE].worker_mut().fix(page(8), mode);
        for _ in 0..50 {
            rig.stores[HERE].poll();
        }
        rig.stores[HERE].worker_mut().abandon(fix);
        assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    }
    drop(guards);
    assert_eq!(rig.call(THERE, PageStore::settle), Ok(()));
    rig.set_gone(true);
    rig.call(HERE, |store| store.prefetch(page(9)));
    assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    rig.set_gone(false);
    // More than there are slots; all of them arrive.
    let pages: Vec<PageId> = (20..28).map(page).collect();
    rig.stores[HERE].worker_mut();
    for page in &pages {
        rig.call(HERE, |store| store.prefetch(*page));
    }
    assert_eq!(rig.call(HERE, PageStore::settle), Ok(()));
    let fetched = rig.stores[HERE].worker().statistics().local_hits;
    for page in pages {
        drop(rig.call(HERE, |store| store.fix(page, Shared)).unwrap());
    }
    let hits = rig.stores[HERE].worker().statistics().local_hits - fetched;
    assert!(hits >= 7, "{hits} of 8 pages were prefetched");
}
