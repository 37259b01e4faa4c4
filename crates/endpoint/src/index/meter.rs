//! Counters of one server thread, for statistics and for the rebalancer.

use super::statistics::ShardStatistics;
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::Duration;

/// Number of keys that a meter remembers.
const KEYS: usize = 512;
/// One operation in this many has its key remembered: a power of two.
const EVERY: u64 = 4;

/// The kinds of operations that a meter counts, as in [`ShardStatistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    Gets,
    Writes,
    Scans,
    Moved,
    Busy,
    Malformed,
    Full,
}

/// Counters of one server thread, which other threads may read.
#[derive(Debug)]
pub struct Meter {
    counts: [AtomicU64; 7],
    busy: AtomicU64,
    queue: AtomicU64,
    operations: AtomicU64,
    remembered: AtomicU64,
    keys: [AtomicU64; KEYS],
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            counts: Default::default(),
            busy: AtomicU64::new(0),
            queue: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
            keys: [const { AtomicU64::new(0) }; KEYS],
        }
    }
}

/// Adds to a counter; only one thread does.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

impl Meter {
    /// Records that the thread has worked for `busy`, and that `queue` requests wait for it now.
    pub fn note_busy(&self, busy: Duration, queue: u32) {
        add(&self.busy, busy.as_nanos());
        self.queue.store(queue.into(), Ordering::Relaxed);
    }

    /// Counts an executed operation on a key.
    #[inline]
    pub(super) fn count_key(&self, what: Count, key: u64) {
        self.count(what);
        let number = self.operations.load(Ordering::Relaxed);
        self.operations.store(number + 1, Ordering::Relaxed);
        // Not every fourth: clients may alternate in a pattern.
        if number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 & (EVERY - 1) == 0 {
            let at = self.remembered.load(Ordering::Relaxed);
            self.keys[at as usize % KEYS].store(key, Ordering::Relaxed);
            self.remembered.store(at + 1, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn count(&self, what: Count) {
        add(&self.counts[what as usize], 1);
    }

    /// Time that the thread has worked.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }

    /// Requests that waited for the thread at its last report.
    pub fn queue(&self) -> u32 {
        self.queue.load(Ordering::Relaxed) as u32
    }

    /// Appends the keys of recent operations, a sample of them.
    pub fn keys(&self, keys: &mut Vec<u64>) {
        let count = self.remembered.load(Ordering::Acquire).min(KEYS as u64);
        let remembered = self.keys[..count as usize].iter();
        keys.extend(remembered.map(|key| key.load(Ordering::Relaxed)));
    }

    /// Appends the keys remembered since `before`, as far as they are still stored; returns what to
    /// pass the next time.
    pub(super) fn keys_since(&self, before: u64, keys: &mut Vec<u64>) -> u64 {
        let now = self.remembered.load(Ordering::Acquire);
        let first = before.max(now.saturating_sub(KEYS as u64));
        let remembered = (first..now).map(|at| &self.keys[at as usize % KEYS]);
        keys.extend(remembered.map(|key| key.load(Ordering::Relaxed)));
        now
    }

    /// The counters.
    pub fn statistics(&self) -> ShardStatistics {
        let get = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        ShardStatistics {
            gets: get(Count::Gets),
            writes: get(Count::Writes),
            scans: get(Count::Scans),
            moved: get(Count::Moved),
            busy: get(Count::Busy),
            malformed: get(Count::Malformed),
            full: get(Count::Full),
            ..ShardStatistics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_a_fair_share_of_the_last_keys() {
        let meter = Meter::default();
        for key in 0..1_000_000 {
            meter.count_key(Count::Gets, key % 10);
        }
        let mut keys = Vec::new();
        meter.keys(&mut keys);
        assert_eq!(keys.len(), KEYS);
        for key in 0..10 {
            let share = keys.iter().filter(|&&k| k == key).count();
            assert!((25..=80).contains(&share), "{share} of {KEYS} are {key}");
        }
        assert_eq!(meter.statistics().gets, 1_000_000);
        assert_eq!(meter.statistics().served(), 1_000_000);
    }

    #[test]
    fn keys_are_given_once_and_the_last_ones_at_least() {
        let meter = Meter::default();
        let mut keys = Vec::new();
        (0..400).for_each(|key| meter.count_key(Count::Gets, key));
        let first = meter.keys_since(0, &mut keys);
        assert!((80..=120).contains(&keys.len()) && keys.is_sorted());
        assert_eq!(meter.keys_since(first, &mut Vec::new()), first);
        (400..100_000).for_each(|key| meter.count_key(Count::Gets, key));
        keys.clear();
        assert!(meter.keys_since(first, &mut keys) > first + KEYS as u64);
        assert!(keys.len() == KEYS && keys.is_sorted() && keys[0] > 90_000);
    }
}
