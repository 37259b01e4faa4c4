//! Reports of campaigns as text.

use crate::report::{object, titled};
use rackweave_chaos::{CampaignReport, hosted};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The results of a simulated system, without the counters of other systems.
pub fn simulated(report: &CampaignReport) -> String {
    let found = counted(report, &report.counts, report.counts_of_system());
    let (name, last) = (report.name(), report.first_seed + report.seeds - 1);
    let heading = format!("chaos {name}: seeds {} to {last}", report.first_seed);
    let instead_of = ["system", "access", "first_seed", "seeds"];
    titled(&heading, &instead_of, found)
}

/// The results of racks of processes.
pub fn of_processes(report: &hosted::CampaignReport) -> String {
    let mut found = counted(report, &report.counts, report.counts_in_order());
    if report.slowest.join_ms_max.is_none() {
        found.shift_remove("wait_ms_limit");
    }
    let last = report.first_seed + (report.seeds - 1);
    let heading = format!("chaos hosted: seeds {} to {last}", report.first_seed);
    titled(&heading, &["system", "first_seed", "seeds"], found)
}

/// The object of a report with `some` of its counters instead of `all`, in their order; failures
/// follow them.
fn counted(
    report: &impl Serialize,
    all: &BTreeMap<&'static str, u64>,
    some: impl Iterator<Item = (&'static str, u64)>,
) -> Map<String, Value> {
    let mut found = object(report);
    found.retain(|name, _| !all.contains_key(name.as_str()));
    let failures = found.shift_remove_entry("failures");
    let counts = some.map(|(name, n)| (name.to_owned(), n.into()));
    found.insert("counts".into(), Value::Object(counts.collect()));
    found.extend(failures);
    found
}
