//! Results of a run of lookups.

use crate::harness::tally::{mean, quantile};
use rackweave_base::Duration;

/// Results of lookups made one after another.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Latency of each lookup, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// READs per lookup, including network queries: round trips.
    pub reads: Vec<u64>,
    /// From the first lookup's beginning to the last one's end.
    pub span: Duration,
}

impl Seen {
    /// Lookups per second.
    pub fn per_second(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.span.as_secs_f64()
    }

    /// Mean latency in microseconds.
    pub fn mean_us(&self) -> f64 {
        mean(&self.latencies_ns) / 1e3
    }

    /// The latency that this share of all does not exceed, in microseconds.
    pub fn quantile_us(&self, part: f64) -> f64 {
        quantile(&self.latencies_ns, part) / 1e3
    }

    /// Mean READs of a lookup.
    pub fn round_trips(&self) -> f64 {
        mean(&self.reads)
    }

    /// The percentage of lookups by number of READs.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut reads = self.reads.clone();
        reads.sort_unstable();
        let all = reads.len() as f64;
        let groups = reads.chunk_by(|a, b| a == b);
        let point = |same: &[u64]| (same[0] as f64, same.len() as f64 / all * 100.0);
        groups.map(point).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn seen(latencies_ns: &[u64], reads: &[u64]) -> Seen {
        Seen {
            latencies_ns: latencies_ns.to_vec(),
            reads: reads.to_vec(),
            span: Duration::from_nanos(latencies_ns.iter().sum()),
        }
    }

    #[test]
    fn latencies_and_round_trips_are_summed_up() {
        let seen = seen(&[4000, 1000, 3000, 2000], &[4, 1, 3, 2]);
        assert_eq!(seen.mean_us(), 2.5);
        assert_eq!((seen.quantile_us(0.0), seen.quantile_us(1.0)), (1.0, 4.0));
        assert!((seen.per_second() / 4e5 - 1.0).abs() < 1e-9);
        assert_eq!(seen.round_trips(), 2.5);
        assert_eq!(seen.distribution()[1], (2.0, 25.0));
    }
}
