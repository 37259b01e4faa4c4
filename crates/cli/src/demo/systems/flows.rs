//! TPC-H over flows: shuffle, balance, replicate.

use super::report::{Measure, SystemReport};
use super::{SystemName, SystemRun};
use crate::demo::report::DemoReport;
use crate::demo::run as flows;
use crate::outcome::CliError;
use crate::tpch::reference;
use serde_json::{Value, json};

/// Runs the flows, and fills `report`.
///
/// # Errors
/// If the rack has no capacity for the flows.
pub fn run(run: &SystemRun<'_>, report: &mut DemoReport) -> Result<SystemReport, CliError> {
    let mut rack = run.rack.clone().into();
    flows::run(&mut rack, run.plan, run.globals, report)?;
    let interrupted = run.globals.interrupt.is_set();
    if !interrupted && report.result.is_some() {
        run.globals.live.phase("flows: the check");
        let reference = reference(run.plan.scale, run.globals);
        report.judge_balanced(&reference);
        report.judge(&reference, run.plan.scale);
    }
    if interrupted {
        // Drops the errors of flows that were closed while running: the user knows.
        report.problems.clear();
    }
    let rows = report.rows_orders + report.rows_lineitem;
    let many = match rows {
        1_000_000.. => format!("{:.1} M", rows as f64 / 1e6),
        _ => format!("{:.0} k", rows as f64 / 1e3),
    };
    let memcpy = report.memcpy_gigabytes_per_second.unwrap_or_default();
    let beside = |did: String, rate| Measure::alone(did, rate, "GB/s").beside("memcpy", memcpy);
    let rate = |run: &Value| run["gigabytes_per_second"].as_f64().unwrap_or_default();
    let (balanced, replicated) = (&report.balanced, &report.replicated);
    let shuffled = report.result.as_ref().map(|_| {
        let did = format!("TPC-H shuffle, {many} rows");
        beside(did, report.gigabytes_per_second)
    });
    let balanced_rate = balanced
        .as_ref()
        .map(|run| beside("balanced, one node slow".into(), rate(run)));
    let replicated_rate = replicated.as_ref().map(|run| {
        let nodes = run["replicas"].as_array().map_or(0, Vec::len);
        beside(format!("replicated to {nodes} nodes"), rate(run))
    });
    let rates = [shuffled, balanced_rate, replicated_rate];
    let mut system = SystemReport::found(SystemName::Flows, run, rates.into_iter().flatten());
    // Verified, and both runs followed the shuffle.
    let all = balanced.is_some() && replicated.is_some();
    system.verified = report.verified && all;
    system.problems.clone_from(&report.problems);
    system.details = json!({
        "scale_factor": report.scale_factor,
        "rows": rows,
        "bytes": report.bytes,
        "generate_seconds": report.generate_seconds,
        "shuffle_seconds": report.shuffle_seconds,
    });
    if report.matches_published_q1 == Some(true) {
        let remark = "Q1 is what the TPC-H specification publishes.";
        system.remark = Some(remark.into());
    }
    Ok(system)
}
