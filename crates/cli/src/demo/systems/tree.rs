//! YCSB over a B+tree: by requests and by READs, and by READs that the switch leads.
//!
//! The same records are in two trees, since inner tree nodes that a switch holds must have fewer
//! children. The same operations are also run over each tree by threads of its own node; their rate
//! is the limit for clients on the network.

use super::report::{Measure, SystemReport};
use super::{Scale, SystemName, SystemRun, clock, load};
use crate::demo::DemoPlan;
use crate::outcome::CliError;
use rackweave_bench::index::{Access, IndexOptions, Job, Loaded, Outcome};
use serde_json::{Value, json};

/// Seconds of operations of clients on the network, at scale factor 1.
const SECONDS: f64 = 4.0;

/// Seconds of operations of the tree's own node.
const SECONDS_LOCAL: f64 = 1.5;

/// Records at scale factor 1.
const RECORDS: u64 = 500_000;

/// Bytes of a record.
const RECORD_BYTES: u32 = 104;

/// The parameters.
pub struct TreePlan {
    /// The tree whose inner tree nodes have as many children as fit.
    pub wide: Job,
    /// The tree that the switch holds.
    pub led: Job,
}

impl TreePlan {
    /// The plan for a rack of these nodes.
    ///
    /// # Errors
    /// If such trees are impossible.
    pub fn new(plan: &DemoPlan, scale: Scale) -> Result<Self, CliError> {
        let config = &plan.config;
        let nodes = plan.nodes()?;
        let mut load = load(config);
        load.ycsb.records = scale.records(RECORDS);
        load.ycsb.record_size = RECORD_BYTES;
        let job = |access| Job {
            config: config.clone(),
            nodes: nodes.clone(),
            options: IndexOptions {
                load: load.clone(),
                access,
                ..IndexOptions::default()
            },
        };
        let (wide, led) = (job(Access::OneSided), job(Access::InNetwork));
        led.options.check()?;
        Ok(Self { wide, led })
    }
}

/// A run.
struct Ran {
    access: Access,
    outcome: Outcome,
}

/// Runs the system.
///
/// # Errors
/// If a rack has no capacity for the trees and their clients.
pub fn run(run: &SystemRun<'_>) -> Result<SystemReport, CliError> {
    let plan = TreePlan::new(run.plan, run.scale)?;
    let ways = [Access::Local, Access::Rpc, Access::OneSided];
    let wide = over(run, &plan.wide, &ways)?;
    let led = over(run, &plan.led, &[Access::Local, Access::InNetwork])?;
    Ok(report(run, &wide, &led))
}

/// Loads a tree, and runs workers with each access in turn.
fn over(run: &SystemRun<'_>, job: &Job, ways: &[Access]) -> Result<Vec<Ran>, CliError> {
    let mut progress = clock(run.globals, "tree", run.scale.span(SECONDS));
    let mut loaded = Loaded::new(run.rack, job, &mut progress)?;
    let mut ran = Vec::new();
    for &access in ways {
        if run.globals.interrupt.is_set() {
            break;
        }
        let threads = job.options.load.threads;
        let (what, seconds, threads) = match access {
            // As many threads as all clients have together.
            Access::Local => {
                let nodes = job.nodes.compute.len() as u16;
                ("tree, at its own node", SECONDS_LOCAL, threads * nodes)
            }
            Access::Rpc => ("tree, by requests", SECONDS, threads),
            Access::OneSided => ("tree, by READs", SECONDS, threads),
            Access::InNetwork => ("tree, led by the switch", SECONDS, threads),
        };
        run.globals.live.phase(what);
        let mut progress = clock(run.globals, what, run.scale.span(seconds));
        let outcome = loaded.operate(access, threads, &mut progress)?;
        ran.push(Ran { access, outcome });
    }
    Ok(ran)
}

fn report(run: &SystemRun<'_>, wide: &[Ran], led: &[Ran]) -> SystemReport {
    let of = |ran: &[Ran], access| {
        let found = ran.iter().find(|ran| ran.access == access);
        found.map(|ran| ran.outcome.clone())
    };
    let measure = |ran: &[Ran], access, did: &str| {
        let outcome = of(ran, access)?;
        let local = of(ran, Access::Local).map_or(0.0, |local| local.throughput());
        let measure = Measure::alone(did, outcome.throughput(), "op/s");
        Some(measure.beside("local", local))
    };
    let measures = [
        measure(led, Access::InNetwork, "YCSB b, led by the switch"),
        measure(wide, Access::OneSided, "the same by READs"),
        measure(wide, Access::Rpc, "the same by requests"),
    ];
    let rates = measures.into_iter().flatten();
    let mut system = SystemReport::found(SystemName::Tree, run, rates);
    let all = || wide.iter().chain(led);
    let is_verified = |ran: &Ran| ran.outcome.is_verified() && ran.outcome.operations > 0;
    system.verified = all().count() == 5 && all().all(is_verified);
    for ran in all() {
        let (name, outcome) = (ran.access.name(), &ran.outcome);
        let errors = outcome.first_errors.iter();
        let errors = errors.map(|error| format!("{name}: record {}: {}", error.key, error.reason));
        system.problems.extend(errors);
        let failure = outcome.failure.map(|failure| format!("{name}: {failure}"));
        system.problems.extend(failure);
    }
    let (led_run, read_run) = (of(led, Access::InNetwork), of(wide, Access::OneSided));
    if let (Some(led), Some(read)) = (&led_run, &read_run) {
        let times = led.throughput() / read.throughput();
        let reads = |outcome: &Outcome| outcome.table.reads_per_lookup().unwrap_or_default();
        system.remark = Some(format!(
            "led, {times:.2} times as fast as by READs: {:.1} READs for a lookup, not {:.1}.",
            reads(led),
            reads(read)
        ));
        system.details = json!({
            "workload": "b",
            "records": led.records,
            "record_bytes": RECORD_BYTES,
            "in_network_to_one_sided": times,
            "runs": all().map(details).collect::<Vec<_>>(),
        });
    }
    system
}

/// Further results of a run.
fn details(ran: &Ran) -> Value {
    let outcome = &ran.outcome;
    json!({
        "access": ran.access,
        "operations": outcome.operations,
        "operation_seconds": outcome.seconds,
        "operations_per_s": outcome.throughput(),
        "reads_per_lookup": outcome.table.reads_per_lookup(),
        "levels": outcome.table.endpoints.iter().map(|endpoint| endpoint.levels).max(),
        "network": outcome.table.network,
        "verification_errors": outcome.errors,
    })
}
