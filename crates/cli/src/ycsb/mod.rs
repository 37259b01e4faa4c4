//! The command `ycsb`: the core workloads over the page store or the index, with every read record
//! verified.
//!
//! `bench::ycsb` runs them; this module has the options and the reports.

pub mod args;
mod errors;
mod index;
mod pages;

use crate::globals::{EMBEDDED, Globals, Mode, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::RealRack;
use crate::progress::Progress;
use crate::report::object;
use args::{Target, YcsbArgs};
use rackweave_bench::ycsb::{self as bench, Load, Nodes, Outcome, Phase, YcsbError};
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;
use rackweave_workload::ycsb::YcsbOptions;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Default number of a thread's operations in flight.
const DEPTH: u16 = 8;

/// Runs the command.
///
/// # Errors
/// If the arguments or the configuration are invalid, the rack cannot do what is requested, or the
/// storage of the records cannot be created or opened.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    refuse_foreign(args, globals)?;
    match args.target {
        Target::Pages => pages::run(args, globals),
        Target::Index => index::run(args, globals),
    }
}

/// The options of the page store.
const OF_PAGES: [&str; 10] = [
    "--page-size",
    "--buffer",
    "--indexed",
    "--fallback",
    "--file",
    "--reuse",
    "--memory",
    "--double-write",
    "--leases",
    "--lease-after",
];

/// Those that are about leases.
const OF_LEASES: [&str; 2] = ["--leases", "--lease-after"];

/// The options of the index.
const OF_INDEX: [&str; 7] = [
    "--access",
    "--node-size",
    "--endpoints",
    "--cache",
    "--server-threads",
    "--fan-out",
    "--scan-parts",
];

/// Refuses options of the other target, which would be misunderstood.
fn refuse_foreign(args: &YcsbArgs, globals: &Globals) -> Result<(), CliError> {
    let (foreign, other) = match args.target {
        Target::Pages => (&OF_INDEX[..], "index"),
        Target::Index => (&OF_PAGES[..], "pages"),
    };
    match globals.first_given(foreign) {
        None => Ok(()),
        Some(flag) => Err(CliError::usage(format!(
            "{flag} goes with --target {other}; leave it out"
        ))),
    }
}

/// The configuration of the requested rack. A running one is joined as as many guests as the run
/// has compute nodes, and as `others`, which come first.
fn config(
    args: &YcsbArgs,
    others: usize,
    globals: &Globals,
) -> Result<(RackConfig, Option<RealRack>), CliError> {
    let (mode, config) = Mode::of(args.simulated, &args.rack, globals)?;
    let count = others + usize::from(args.nodes.unwrap_or(2));
    let join = || RealRack::join(&config, count, (&args.rack, globals));
    let joined = (mode == Mode::Hosted).then(join).transpose()?;
    Ok((config, joined))
}

/// The roles of the nodes of a running rack that are here: `others` of them come before those with
/// workers.
fn nodes_of(rack: &RealRack, others: usize) -> Nodes {
    let (others, compute) = rack.nodes().split_at(others);
    let config = rack.config();
    let first = |role| config.nodes_of(role).first().copied();
    Nodes {
        compute: compute.to_vec(),
        storage: others.first().copied().unwrap_or(compute[0]),
        memory: first(Role::Memory),
        dpu: others.get(1).copied(),
    }
}

/// The requested nodes.
fn nodes(args: &YcsbArgs, config: &RackConfig) -> Result<Nodes, CliError> {
    let mut nodes = Nodes::of(config).ok_or_else(|| {
        CliError::usage(
            "a compute and a storage node are needed; add [[node]] entries with role = \"compute\" \
             and role = \"storage\" to the configuration",
        )
    })?;
    if let Some(count) = args.nodes {
        let has = nodes.compute.len();
        if usize::from(count) > has {
            return Err(CliError::usage(format!(
                "--nodes is {count}, and the configuration has {has} compute nodes"
            )));
        }
        nodes.compute.truncate(count.into());
    }
    Ok(nodes)
}

/// The requested operations.
fn load(args: &YcsbArgs, seed: u64) -> Load {
    let operations = simulated_or(args, 20_000, 100_000);
    Load {
        ycsb: YcsbOptions {
            workload: args.workload,
            records: args.records.unwrap_or(simulated_or(args, 20_000, 200_000)),
            operations: args.operations.unwrap_or(operations),
            distribution: args.distribution,
            theta: args.theta,
            seed,
            record_size: u32::try_from(args.record_size).unwrap_or(u32::MAX),
            scan_length_max: args.scan_length,
        },
        threads: args.threads,
        depth: args.depth.unwrap_or(DEPTH),
        rate: args.rate,
    }
}

/// A phase in words.
pub fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Load => "loading records",
        Phase::Open => "reading the store",
        Phase::Run => "running operations",
    }
}

/// Runs `work` with progress bars. None if the user stopped it before there were results.
fn with_progress<T>(
    globals: &Globals,
    work: impl FnOnce(bench::Progress<'_>) -> Result<T, YcsbError>,
) -> Result<Option<T>, YcsbError> {
    let mut bar: Option<(Phase, Progress)> = None;
    let outcome = work(&mut |phase, fraction| {
        let name = doing(phase);
        globals.live.phase(name);
        if bar.as_ref().is_none_or(|(at, _)| *at != phase) {
            bar = Some((phase, Progress::new(globals, name)));
        }
        if let Some((_, bar)) = &mut bar {
            bar.set(|| fraction);
        }
        !globals.interrupt.is_set()
    });
    match outcome {
        Err(YcsbError::Interrupted) => Ok(None),
        other => other.map(Some),
    }
}

/// The default of a simulated rack, or that of an embedded one.
fn simulated_or(args: &YcsbArgs, simulated: u64, embedded: u64) -> u64 {
    if args.simulated { simulated } else { embedded }
}

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
