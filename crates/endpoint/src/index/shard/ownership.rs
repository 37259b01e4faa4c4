//! The keys that a shard owns: read by every operation and changed rarely.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{RwLock, RwLockReadGuard};

/// Keys from `low` to `last`; empty if `low` is above `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub low: u64,
    pub last: u64,
}

impl Span {
    /// No keys.
    pub const NONE: Self = Self { low: 1, last: 0 };

    pub fn contains(self, key: u64) -> bool {
        (self.low..=self.last).contains(&key)
    }

    pub fn is_none(self) -> bool {
        self.low > self.last
    }

    /// The intersection of two ranges.
    pub fn and(self, other: Self) -> Self {
        let both = Self {
            low: self.low.max(other.low),
            last: self.last.min(other.last),
        };
        if both.is_none() { Self::NONE } else { both }
    }

    /// The least range with both; they are adjacent, or one is empty.
    pub fn or(self, other: Self) -> Self {
        match (self.is_none(), other.is_none()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self {
                low: self.low.min(other.low),
                last: self.last.max(other.last),
            },
        }
    }
}

/// The range that a shard owns at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    /// Odd while a change is in progress; grows with every change.
    generation: u64,
    /// The keys.
    pub keys: Span,
    /// The subset that must not be written, because it is about to leave.
    pub leaving: Span,
}

/// Number of locks that writers share; up to as many cores can write concurrently without
/// contention.
const STRIPES: usize = 16;

/// On its own pair of cache lines, which prefetchers load together.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe(RwLock<()>);

/// The range that a shard owns.
///
/// A sequence lock: a reader checks the generation again when it is done; its result counts only if
/// the generation is unchanged. Writers also hold a stripe, and a change waits for all writes in
/// progress.
#[derive(Debug)]
pub(super) struct Ownership {
    generation: AtomicU64,
    keys: [AtomicU64; 2],
    leaving: [AtomicU64; 2],
    /// The subset whose writes go to a replica first. Reads do not load it.
    covered: [AtomicU64; 2],
    stripes: [Stripe; STRIPES],
}

fn load(span: &[AtomicU64; 2]) -> Span {
    Span {
        low: span[0].load(Ordering::Relaxed),
        last: span[1].load(Ordering::Relaxed),
    }
}

fn store(span: &[AtomicU64; 2], to: Span) {
    span[0].store(to.low, Ordering::Relaxed);
    span[1].store(to.last, Ordering::Relaxed);
}

impl Ownership {
    pub fn new(keys: Span) -> Self {
        let words = |span: Span| [AtomicU64::new(span.low), AtomicU64::new(span.last)];
        Self {
            generation: AtomicU64::new(0),
            keys: words(keys),
            leaving: words(Span::NONE),
            covered: words(Span::NONE),
            stripes: Default::default(),
        }
    }

    /// The current range.
    #[inline]
    pub fn read(&self) -> Owned {
        loop {
            let owned = Owned {
                generation: self.generation.load(Ordering::Acquire),
                keys: load(&self.keys),
                leaving: load(&self.leaving),
            };
            if owned.generation & 1 == 0 && self.is_still(&owned) {
                return owned;
            }
            core::hint::spin_loop();
        }
    }

    /// The subset whose writes go to a replica first.
    #[inline]
    pub fn covered(&self) -> Span {
        loop {
            let owned = self.read();
            let covered = load(&self.covered);
            if self.is_still(&owned) {
                return covered;
            }
        }
    }

    /// Whether nothing has changed since `owned` was read.
    #[inline]
    pub fn is_still(&self, owned: &Owned) -> bool {
        // Orders earlier reads before the load of the generation.
        fence(Ordering::Acquire);
        self.generation.load(Ordering::Relaxed) == owned.generation
    }

    /// Blocks changes until the guard is dropped. A writer must call it before [`Self::read`].
    #[inline]
    pub fn write(&self, key: u64) -> RwLockReadGuard<'_, ()> {
        // Different threads are as likely to write neighbouring keys as any others.
        let stripe = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        let stripe = &self.stripes[stripe as usize % STRIPES];
        stripe.0.read().expect("no holder of this lock panics")
    }

    /// Changes the range, and waits until every write that began before has ended. What is covered
    /// stays so, as far as it is owned. Only one thread at a time may call it.
    pub fn change(&self, keys: Span, leaving: Span) {
        self.change_covered(keys, leaving, self.covered());
    }

    /// As [`Self::change`], with another subset covered.
    pub fn change_covered(&self, keys: Span, leaving: Span, covered: Span) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        store(&self.keys, keys);
        store(&self.leaving, leaving);
        store(&self.covered, covered.and(keys));
        self.generation.store(generation + 2, Ordering::Release);
        for stripe in &self.stripes {
            drop(stripe.0.write().expect("no holder of this lock panics"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn spans_meet() {
        let span = |low, last| Span { low, last };
        assert_eq!(span(0, 9).and(span(5, 20)), span(5, 9));
        assert!(span(0, 9).and(span(10, 20)).is_none());
        assert!(Span::NONE.and(span(0, u64::MAX)).is_none());
        assert!(!Span::NONE.contains(0) && !Span::NONE.contains(1));
        assert_eq!(span(0, 9).or(span(10, 20)), span(0, 20));
        assert_eq!(Span::NONE.or(span(5, 9)), span(5, 9).or(Span::NONE));
    }

    #[test]
    fn what_is_covered_is_owned() {
        let span = |low, last| Span { low, last };
        let ownership = Ownership::new(span(0, 20));
        ownership.change_covered(span(0, 20), Span::NONE, span(0, 9));
        ownership.change(span(5, 20), span(5, 5));
        assert_eq!(ownership.covered(), span(5, 9));
        ownership.change(span(15, 20), Span::NONE);
        assert!(ownership.covered().is_none());
    }

    #[test]
    fn no_reader_sees_half_a_change_and_no_write_outlasts_one() {
        let ownership = Ownership::new(Span { low: 0, last: 0 });
        ownership.change(Span { low: 0, last: 0 }, Span { low: 1, last: 1 });
        let (stop, active) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
        std::thread::scope(|scope| {
            for (key, active) in active.iter().enumerate() {
                let (ownership, stop) = (&ownership, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let owned = ownership.read();
                        assert_eq!(owned.keys.low, owned.keys.last);
                        assert_eq!(owned.leaving.low, owned.keys.low + 1);
                        let guard = ownership.write(key as u64);
                        active.store(ownership.read().keys.low, Ordering::Release);
                        std::thread::yield_now();
                        active.store(0, Ordering::Release);
                        drop(guard);
                    }
                });
            }
            for at in 1..2000 {
                let span = |at| Span { low: at, last: at };
                ownership.change(span(at), span(at + 1));
                for active in &active {
                    let writes = active.load(Ordering::Acquire);
                    assert!(writes == 0 || writes == at, "{writes} still at {at}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
