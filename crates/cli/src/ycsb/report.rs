//! The report of a YCSB run.

use super::args::YcsbArgs;
use crate::globals::Globals;
use crate::mode::{EMBEDDED, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::report::object;
use rackweave_bench::ycsb::{Load, Outcome};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Fields that come first, in the order in which a reader wants them; the others follow.
const FIRST: [&str; 16] = [
    "mode",
    "target",
    "access",
    "store",
    "seed",
    "parameters",
    "operations",
    "seconds",
    "operations_per_s",
    "reads_per_lookup",
    "latency",
    "time",
    "shares",
    "pages",
    "heap_to_buffers",
    "written_bytes",
];

/// Prints a run's result. `parameters` and `derived` are those of the table that is called
/// `target`; a parameter that has no meaning for it is null.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn finish<T: Serialize>(
    (args, globals): (&YcsbArgs, &Globals),
    target: &'static str,
    (load, outcome): (&Load, &Outcome<T>),
    parameters: Value,
    derived: Value,
) -> Result<Verdict, CliError> {
    let (ycsb, verified) = (&load.ycsb, outcome.is_verified());
    let mut all = object(json!({
        "workload": ycsb.workload.to_string(),
        "records": outcome.records,
        "operations": ycsb.operations,
        "distribution": ycsb.distribution().to_string(),
        "theta": ycsb.theta,
        "record_size_bytes": ycsb.record_size,
        "threads": load.threads,
        "rate": load.rate,
    }));
    all.extend(object(parameters));
    let mut found = object(json!({
        "mode": if args.simulated { SIMULATED } else { EMBEDDED },
        "target": target,
        "seed": ycsb.seed,
        "parameters": all,
    }));
    found.extend(object(outcome));
    found.extend(object(json!({
        "operations_per_s": outcome.throughput(),
        "problems": outcome.problems(),
        "verified": verified,
    })));
    found.extend(object(derived));
    let mut ordered: Map<_, _> = FIRST
        .iter()
        .filter_map(|key| found.shift_remove_entry(*key))
        .collect();
    ordered.extend(found);
    output::report(globals, "ycsb", &ordered)?;
    Ok(Verdict::of(verified))
}
