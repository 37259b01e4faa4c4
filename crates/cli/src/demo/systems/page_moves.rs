//! What the pages that a run moves would cost without a rack.

use super::yardstick::MediumRates;
use rackweave_endpoint::page_store::Statistics;

/// The cost of a run's pages without a rack, in seconds.
pub struct Moves {
    store: f64,
    memory: f64,
}

impl Moves {
    /// The cost of these pages, read and written by a medium alone at `alone`, and copied at
    /// `copied` pages per second.
    pub fn of(counts: &Statistics, alone: MediumRates, copied: f64) -> Self {
        let read = counts.storage_indexed + counts.storage_fallback;
        let copies = counts.memory_indexed + counts.memory_fallback;
        Self {
            store: read as f64 / alone.reads + counts.written as f64 / alone.writes,
            memory: copies as f64 / copied,
        }
    }

    /// The operations per second that the slower of both would allow, because both can overlap.
    pub fn limit(&self, operations: u64) -> (&'static str, f64) {
        let rate = |seconds: f64| operations as f64 / seconds;
        if self.store >= self.memory {
            ("store", rate(self.store))
        } else {
            ("copies", rate(self.memory))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longest_is_the_limit() {
        let counts = Statistics {
            memory_indexed: 1000,
            storage_indexed: 500,
            written: 100,
            ..Statistics::default()
        };
        let slow = MediumRates {
            reads: 1000.0,
            writes: 1000.0,
        };
        let (name, limit) = Moves::of(&counts, slow, 100_000.0).limit(6000);
        assert_eq!((name, limit.round()), ("store", 10_000.0));
        let (name, limit) = Moves::of(&counts, slow, 1000.0).limit(6000);
        assert_eq!((name, limit.round()), ("copies", 6000.0));
    }
}
