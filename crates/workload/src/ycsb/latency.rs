//! Latencies of many operations in little memory.

use hdrhistogram::Histogram;
use rackweave_base::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Counts latencies, with three significant digits, up to one hour.
#[derive(Clone, Debug)]
pub struct LatencyRecorder(Histogram<u64>);

/// What was recorded, in nanoseconds; all zero if nothing was.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// Operations.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// Nine in ten took no longer.
    pub p90_ns: u64,
    /// 99 in 100 took no longer.
    pub p99_ns: u64,
    /// 999 in 1000 took no longer.
    pub p99_9_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// An hour; what took longer counts as an hour.
const MAX_NS: u64 = 3600 * 1_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

impl LatencyRecorder {
    /// An empty recorder. It never grows.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS);
        Self(histogram.expect("bounds and digits are within what is allowed"))
    }

    /// An operation that was to start at `intended` has ended at `now`. In an open loop, `intended`
    /// is what the schedule said; in a closed one, when the operation started.
    pub fn record(&mut self, intended: Instant, now: Instant) {
        self.record_latency(now.since(intended));
    }

    /// An operation took `latency`.
    pub fn record_latency(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_nanos());
    }

    /// Adds what `other` has recorded.
    pub fn merge(&mut self, other: &Self) {
        let added = self.0.add(&other.0);
        added.expect("all recorders have the same bounds");
    }

    /// How many operations were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that the share `quantile` of the operations, 0 to 1, did not exceed.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// The usual numbers.
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
