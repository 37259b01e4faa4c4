//! The report of a measurement. The fields are described in docs/JSON.md.

use super::args::Test;
use crate::mode::{EMBEDDED, NO_RACK};
use rackweave_rack::RackConfig;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the heading has.
pub const HEAD: [&str; 5] = ["test", "rack", "seed", "driver_threads", "links"];

/// The test, and its rack.
pub fn heading(
    test: &Test,
    (rack, config): (&'static str, &RackConfig),
    links: Option<&BTreeMap<String, &'static str>>,
) -> String {
    let (test, seed) = (test.name, config.seed);
    match links {
        // A hosted rack takes its random numbers from the system: it has no seed to report.
        Some(links) => {
            let kinds: BTreeSet<_> = links.values().copied().collect();
            let kinds: Vec<_> = kinds.into_iter().collect();
            format!("{test}, hosted rack over {}", kinds.join(" and "))
        }
        None if rack == NO_RACK => format!("{test}, no rack"),
        None if rack == EMBEDDED => {
            let drivers = config.driver_threads;
            format!("{test}, {rack} rack, seed {seed}, {drivers} driver threads")
        }
        None => format!("{test}, {rack} rack, seed {seed}"),
    }
}

/// The rate of `count` in `nanos`.
pub fn per_second(count: u64, nanos: u64) -> f64 {
    count as f64 * 1e9 / nanos.max(1) as f64
}

/// The rate of `count` of `what` in `nanos`.
pub fn rate(what: &str, count: u64, nanos: u64) -> Value {
    json!({
        what: count,
        "elapsed_s": nanos as f64 / 1e9,
        (format!("{what}_per_s")): per_second(count, nanos),
    })
}

/// The share of `part` in `whole`; zero if both are zero.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
