//! Latencies of many operations in little memory.

use hdrhistogram::Histogram;
use rackweave_base::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Counts latencies, with three significant digits, up to one hour.
#[derive(Clone, Debug)]
pub struct LatencyRecorder(Histogram<u64>);

/// Recorded latencies, in nanoseconds; all zero if there are none.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// Operations.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p99_9_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// An hour; longer latencies count as an hour.
const MAX_NS: u64 = 3600 * 1_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

impl LatencyRecorder {
    /// An empty recorder. It never grows.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS);
        Self(histogram.expect("bounds and digits are within what is allowed"))
    }

    /// Records an operation that was to start at `intended` and ended at `now`. In an open loop,
    /// `intended` is the scheduled time; in a closed one, the actual start.
    pub fn record(&mut self, intended: Instant, now: Instant) {
        self.record_latency(now.since(intended));
    }

    /// Records an operation that took `latency`.
    pub fn record_latency(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_nanos());
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Self) {
        let added = self.0.add(&other.0);
        added.expect("all recorders have the same bounds");
    }

    /// Number of recorded operations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that the fraction `quantile` of the operations, 0 to 1, did not exceed.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// Count, mean, and the usual quantiles.
    pub fn summary(&self) -> LatencySummary {
        let at = |quantile| self.quantile(quantile).as_nanos();
        LatencySummary {
            count: self.count(),
            mean_ns: self.0.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}
