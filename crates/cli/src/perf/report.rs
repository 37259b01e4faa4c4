//! The report of a measurement. The fields are described in docs/JSON.md.

use super::args::Test;
use crate::globals::Globals;
use crate::mode::{EMBEDDED, HOSTED, NO_RACK};
use crate::outcome::{CliError, Verdict};
use crate::report::Text;
use rackweave_rack::RackConfig;
use rackweave_rack::config::NodeConfig;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The test, its rack, and its results.
#[derive(Serialize)]
struct PerfReport<'a> {
    test: &'static str,
    /// `embedded`, `simulated`, `hosted`, or `none` where the test needs no rack.
    rack: &'static str,
    seed: u64,
    /// Driver threads of an embedded rack.
    driver_threads: u32,
    /// How the packets of each node of a hosted rack reach the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<BTreeMap<String, &'static str>>,
    verified: bool,
    interrupted: bool,
    #[serde(flatten)]
    found: &'a Value,
}

/// Prints the results of `test`, an object, on a rack of `config` of the kind `rack`.
///
/// # Errors
/// If standard output cannot be written.
pub fn finish(
    globals: &Globals,
    test: &Test,
    (rack, config): (&'static str, &RackConfig),
    verified: bool,
    found: &Value,
) -> Result<Verdict, CliError> {
    let hosted = config.hosted();
    let link = |node: &NodeConfig| (node.name.clone(), node.link_kind(&hosted).name());
    let report = PerfReport {
        test: test.name,
        rack,
        seed: config.seed,
        driver_threads: match rack {
            EMBEDDED => config.driver_threads,
            _ => 0,
        },
        links: (rack == HOSTED).then(|| config.node.iter().map(link).collect()),
        verified,
        interrupted: globals.interrupt.is_set(),
        found,
    };
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(verified))
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

impl fmt::Display for PerfReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.links {
            // A hosted rack takes its random numbers from the system: it has no seed to report.
            Some(links) => {
                let kinds: BTreeSet<_> = links.values().copied().collect();
                let kinds: Vec<_> = kinds.into_iter().collect();
                write!(f, "{}, hosted rack over {}", self.test, kinds.join(" and "))?;
            }
            None if self.rack == NO_RACK => write!(f, "{}, no rack", self.test)?,
            None => write!(f, "{}, {} rack, seed {}", self.test, self.rack, self.seed)?,
        }
        if self.rack == EMBEDDED {
            write!(f, ", {} driver threads", self.driver_threads)?;
        }
        writeln!(f)?;
        if let Value::Object(found) = self.found {
            write!(f, "{}", Text(found))?;
        }
        if self.interrupted {
            writeln!(f, "interrupted: what was to come was not measured")?;
        }
        writeln!(f, "verified: {}", self.verified)
    }
}
