//! The cache, step by step.

use super::super::*;
use super::setup::{Setup, numbers};

/// A column of `lines` lines of 64 bytes.
fn lines(first: i64, lines: u64) -> ColumnData {
    numbers(first, lines * 8)
}

fn bring(cache: &ColumnCache, name: &str, size: u64) -> Pinned {
    cache.get(name, || Ok(lines(0, size))).unwrap()
}

/// Names of the cached columns among "a" to "f".
fn held(cache: &ColumnCache) -> String {
    let names = ["a", "b", "c", "d", "e", "f"];
    names
        .into_iter()
        .filter(|name| cache.peek(name).is_some())
        .collect()
}

/// Counters that are not zero.
fn counted(cache: &ColumnCache) -> Vec<(&'static str, u64)> {
    let counters = cache.counters();
    counters.list().filter(|&(_, count)| count > 0).collect()
}

fn refused() -> RequestError {
    RequestError::Refused {
        code: RefusalCode::UNKNOWN_COLUMN,
        text: "no".into(),
    }
}

#[test]
fn what_was_brought_is_found() {
    let cache = ColumnCache::new(1000);
    let Look::Miss(fetch) = cache.look("a") else {
        panic!("nothing is there");
    };
    assert_eq!(fetch.name(), "a");
    let Look::Joined(waiter) = cache.look("a") else {
        panic!("somebody is bringing it");
    };
    assert_eq!(waiter.poll(), None);
    assert_eq!(cache.peek("a"), None);
    let pinned = fetch.complete(lines(1, 2));
    assert_eq!(waiter.poll(), Some(Ok(pinned.clone())));
    assert_eq!(waiter.wait(), Ok(pinned.clone()));
    let Look::Hit(found) = cache.look("a") else {
        panic!("it is there");
    };
    assert!(core::ptr::eq(found.bytes(), pinned.bytes()));
    let never = || panic!("it is there");
    assert_eq!(cache.get("a", never), Ok(pinned));
    let expect = [
        ("hits", 2),
        ("misses", 1),
        ("joined", 1),
        ("brought", 1),
        ("bytes_brought", 128),
        ("columns_held", 1),
        ("bytes_held", 128),
    ];
    assert_eq!(counted(&cache), expect);
}

#[test]
fn a_failure_reaches_everybody_and_is_not_kept() {
    let cache = ColumnCache::new(1000);
    let join = || match cache.look("a") {
        Look::Joined(waiter) => waiter,
        other => panic!("{other:?}"),
    };
    let Look::Miss(fetch) = cache.look("a") else {
        panic!("nothing is there");
    };
    let waiters = [join(), join()];
    fetch.fail(refused());
    for waiter in waiters {
        assert_eq!(waiter.wait(), Err(CacheError::Request(refused())));
    }
    // Dropping a fetch without a report fails it too.
    let Look::Miss(fetch) = cache.look("a") else {
        panic!("failures are not kept");
    };
    let waiter = join();
    drop(fetch);
    assert_eq!(waiter.wait(), Err(CacheError::Abandoned));
    let failed = cache.get("a", || Err(refused()));
    assert_eq!(failed, Err(CacheError::Request(refused())));
    let expect = [("misses", 3), ("joined", 3), ("failures", 3)];
    assert_eq!(counted(&cache), expect);
}

#[test]
fn those_that_nobody_asks_for_go_first() {
    let cache = ColumnCache::new(4 * 64);
    for name in ["a", "b", "c", "d"] {
        drop(bring(&cache, name, 1));
    }
    assert_eq!(held(&cache), "abcd");
    let never = || panic!("it is there");
    drop(cache.get("a", never));
    drop(cache.get("c", never));
    // The hand passes a, which has a second chance, and evicts b.
    drop(bring(&cache, "e", 1));
    assert_eq!(held(&cache), "acde");
    // It passes c and evicts d, then a, which has used its chance.
    drop(bring(&cache, "f", 2));
    assert_eq!(held(&cache), "cef");
    assert_eq!(cache.counters().evictions, 3);
    assert_eq!(cache.counters().bytes_evicted, 192);
    assert_eq!(cache.counters().bytes_held, 256);
}

#[test]
fn what_somebody_has_stays() {
    let cache = ColumnCache::new(3 * 64);
    let a = bring(&cache, "a", 1);
    drop(bring(&cache, "b", 1));
    let c = bring(&cache, "c", 1);
    drop(bring(&cache, "d", 1));
    assert_eq!(held(&cache), "acd");
    // There is no space for two besides a and c, so nothing is evicted in vain.
    let e = bring(&cache, "e", 2);
    assert_eq!(held(&cache), "acd");
    assert_eq!(e.shape().rows, 16);
    drop(a);
    drop(bring(&cache, "e", 2));
    assert_eq!(held(&cache), "ce");
    // Nothing is evicted for a column that exceeds the capacity.
    drop((bring(&cache, "f", 4), c));
    assert_eq!(held(&cache), "ce");
    assert_eq!(cache.counters().bypassed, 2);
    assert_eq!(cache.counters().evictions, 3);
}

#[test]
fn what_has_changed_is_brought_again() {
    let cache = ColumnCache::new(1000);
    assert!(!cache.invalidate("a"));
    let old = bring(&cache, "a", 1);
    assert!(!cache.invalidate_unless("a", old.version()));
    assert_eq!(held(&cache), "a");
    assert!(cache.invalidate_unless("a", old.version() + 1));
    assert_eq!(held(&cache), "");
    // A pinned copy stays valid.
    assert_eq!(old.bytes(), lines(0, 1).bytes());
    let new = cache.put("a", lines(5, 2));
    let newer = cache.put("a", lines(6, 1));
    assert_ne!(new.version(), newer.version());
    assert_eq!(cache.peek("a"), Some(newer));
    let counters = cache.counters();
    assert_eq!((counters.invalidations, counters.columns_held), (2, 1));
    assert_eq!(counters.bytes_held, 64);
}

#[test]
fn what_changes_while_it_comes_is_not_kept() {
    let cache = ColumnCache::new(1000);
    let Look::Miss(first) = cache.look("a") else {
        panic!("nothing is there");
    };
    let Look::Joined(waiter) = cache.look("a") else {
        panic!("it is coming");
    };
    assert!(cache.invalidate("a"));
    // It may be outdated: a later lookup does not join.
    let Look::Miss(second) = cache.look("a") else {
        panic!("what comes is old");
    };
    let old = first.complete(lines(1, 1));
    assert_eq!(waiter.wait(), Ok(old));
    assert_eq!(cache.peek("a"), None);
    let new = second.complete(lines(2, 1));
    assert_eq!(cache.peek("a"), Some(new));
    assert_eq!((cache.counters().stale, cache.counters().brought), (1, 2));
    // A fetch that fails after all does not affect the cached column.
    let Look::Miss(first) = cache.look("b") else {
        panic!("nothing is there");
    };
    let put = cache.put("b", lines(3, 1));
    first.fail(refused());
    assert_eq!(cache.peek("b"), Some(put));
}

#[test]
fn a_client_fills_it() {
    let mut setup = Setup::new();
    setup.serve("a", &lines(1, 100));
    let cache = ColumnCache::new(1 << 20);
    // Two workers of a node share a connection here; the second one joins.
    let Look::Miss(fetch) = cache.look("a") else {
        panic!("nothing is there");
    };
    let Look::Joined(waiter) = cache.look("a") else {
        panic!("it is coming");
    };
    match setup.ask(fetch.name()) {
        Ok(Reply::Column(data)) => drop(fetch.complete(data)),
        other => panic!("{other:?}"),
    }
    let pinned = waiter.wait().unwrap();
    assert_eq!(*pinned, lines(1, 100));
    // The storage node confirms whether it is still valid.
    let version = pinned.version();
    let ticket = setup.client.ask("a", Some(version)).unwrap();
    assert_eq!(setup.answer(ticket), Ok(Reply::Unchanged { version }));
    assert_eq!(setup.server.counters().columns, 1);
    setup.destroy();
}
