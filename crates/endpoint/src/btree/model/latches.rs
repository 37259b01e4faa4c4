//! The latch under every order of accesses with up to two preemptions.

use super::super::latch::Latch;
use super::super::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

#[test]
fn a_reader_sees_all_of_a_change_or_nothing() {
    explore(|| {
        let shared = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (latch, a, b) = &*shared;
                    Latch(latch).lock();
                    let next = a.load(Ordering::Relaxed) + 1;
                    a.store(next, Ordering::Relaxed);
                    b.store(next, Ordering::Relaxed);
                    Latch(latch).unlock();
                })
            })
            .collect();
        let (latch, a, b) = &*shared;
        let word = Latch(latch).read();
        let seen = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        if Latch(latch).is_still(word) {
            assert_eq!(seen.0, seen.1);
            assert_eq!(word, seen.0 * 2);
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(a.load(Ordering::Relaxed), 2, "no change is lost");
    });
}

#[test]
fn only_who_saw_the_last_change_becomes_the_writer() {
    explore(|| {
        let shared = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let add = |shared: &(AtomicU64, AtomicU64)| {
            let latch = Latch(&shared.0);
            let word = latch.read();
            let seen = shared.1.load(Ordering::Relaxed);
            if latch.upgrade(word) {
                assert_eq!(shared.1.load(Ordering::Relaxed), seen);
                shared.1.store(seen + 1, Ordering::Relaxed);
                latch.unlock();
                1
            } else {
                0
            }
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        };
        let mine = add(&shared);
        let theirs = other.join().unwrap();
        assert!(mine + theirs >= 1);
        assert_eq!(shared.1.load(Ordering::Relaxed), mine + theirs);
    });
}
