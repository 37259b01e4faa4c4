//! Latencies: histograms of nanoseconds, and what is reported of them.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Latencies above this many nanoseconds, an hour, are not distinguished.
const LATENCY_MAX: u64 = 3_600_000_000_000;

/// A histogram of latencies in nanoseconds, with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are sound")
}

/// Latencies of messages, in nanoseconds.
pub fn latency(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "samples": histogram.len(),
        "min": if histogram.is_empty() { 0 } else { histogram.min() },
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p99.9": at(0.999),
        "max": histogram.max(),
        "mean": histogram.mean(),
    })
}
