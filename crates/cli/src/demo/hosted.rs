//! The demo on a rack of processes: the workers are jobs of its nodes.

use super::DemoPlan;
use super::report::DemoReport;
use crate::globals::Globals;
use crate::hosted::jobs::tpch::{
    COMPUTE, ComputeArguments, STORAGE, StorageArguments, StorageFound,
};
use crate::hosted::runner::{JobRunner, TaskId};
use crate::memcpy;
use crate::mode::HOSTED;
use crate::outcome::CliError;
use crate::progress::Progress;
use crate::report::object;
use rackweave_base::NodeId;
use rackweave_rack::config::LinkKind;
use rackweave_rack::hosted::Counters;
use rackweave_workload::tpch::{ComputeResult, RowCounts, expected_rows};
use serde_json::{Value, json};
use std::time::Instant;

/// A storage worker: its node, its job, and its meeting number.
type StorageWorker = (NodeId, TaskId, u64);

pub(super) fn run(plan: &DemoPlan, globals: &Globals) -> Result<DemoReport, CliError> {
    let mut runner = JobRunner::gather(&plan.config, globals)?;
    let mut report = DemoReport::new(plan, HOSTED);
    report.left_out =
        vec!["the load-balanced and replicated runs: flows of hosted racks are shuffles so far"];
    let before = runner.found().switch_counters.clone();
    match shuffle(&mut runner, plan, globals, &mut report) {
        Ok(()) => {}
        Err(_) if globals.interrupt.is_set() => report.problems.push("interrupted".into()),
        Err(error) => return Err(error),
    }
    runner.close_flows();
    report.switch_takeovers = Some(runner.takeovers());
    let now = runner.status()?.switch_counters;
    // A new switch process has counted from zero.
    report.switch_counters = match runner.takeovers() {
        0 => difference(now, &before),
        _ => now,
    };
    drop(runner);
    let hosted = plan.config.hosted();
    let kinds = plan.config.node.iter().map(|node| node.link_kind(&hosted));
    // On other links the kernel copies, or packets leave this machine.
    if kinds.into_iter().all(|kind| kind == LinkKind::SharedMemory) {
        report.compare_to_memcpy(memcpy::bandwidth(64 << 20, 32 << 10));
    }
    Ok(report)
}

/// Generates, shuffles and answers.
fn shuffle(
    runner: &mut JobRunner,
    plan: &DemoPlan,
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let expected = expected_rows(plan.scale).total();
    let (sources, sinks) = start(runner, plan)?;
    let reported = |runner: &JobRunner, tasks: &[TaskId]| -> f64 {
        let rows: u64 = tasks.iter().map(|&task| runner.done(task)).sum();
        rows as f64 / expected as f64
    };
    let sources_only: Vec<TaskId> = sources.iter().map(|&(_, task, _)| task).collect();
    let mut progress = Progress::new(globals, "generating TPC-H rows");
    for &(node, _, meeting) in &sources {
        runner.ask::<u64>(node, meeting, |runner| {
            progress.set(|| reported(runner, &sources_only));
        })?;
    }
    drop(progress);
    let started = Instant::now();
    for &(node, _, meeting) in &sources {
        runner.tell(node, meeting, &Value::Null)?;
    }
    let mut progress = Progress::new(globals, "shuffling through the switch");
    runner.wait(&[&sources_only[..], &sinks].concat(), |runner| {
        progress.set(|| reported(runner, &sinks));
    })?;
    drop(progress);
    report.shuffle_seconds = started.elapsed().as_secs_f64();
    let mut pushed: Vec<RowCounts> = Vec::new();
    for task in sources_only {
        let found: StorageFound = runner.result(task)?;
        report.generate_seconds = report.generate_seconds.max(found.generate_seconds);
        pushed.push(found.pushed);
    }
    let mut parts: Vec<ComputeResult> = Vec::new();
    for task in sinks {
        parts.push(runner.result(task)?);
    }
    let rows = |counts: &mut dyn Iterator<Item = RowCounts>| counts.map(RowCounts::total).sum();
    let there: u64 = rows(&mut pushed.iter().copied());
    let here: u64 = rows(&mut parts.iter().map(|part| part.rows));
    if there != here {
        let problem = format!("{there} rows were pushed and {here} arrived");
        report.problems.push(problem);
    }
    let found = Ok(parts);
    report.fill_rows(&found);
    let hosted = plan.config.hosted();
    report.fill_nodes(plan, pushed, &found, |node| {
        let link = plan.config.node[usize::from(node.0)].link_kind(&hosted);
        object(json!({ "link": link.name() }))
    });
    report.conclude(found);
    Ok(())
}

/// Sets up both flows and starts all workers.
fn start(
    runner: &mut JobRunner,
    plan: &DemoPlan,
) -> Result<(Vec<StorageWorker>, Vec<TaskId>), CliError> {
    let (from, to) = (plan.places(&plan.storage), plan.places(&plan.compute));
    let ends = (&from[..], &to[..]);
    let orders = runner.create_flow("the flow of orders", ends, plan.item_size, plan.ring_bytes)?;
    let lineitem = runner.create_flow(
        "the flow of lineitem",
        ends,
        plan.item_size,
        plan.ring_bytes,
    )?;
    let mut sinks = Vec::new();
    for (at, &node) in to.iter().enumerate() {
        let arguments = ComputeArguments {
            orders: orders.consumers[at],
            lineitem: lineitem.consumers[at],
        };
        sinks.push(runner.start(node, COMPUTE, &arguments)?);
    }
    let mut sources = Vec::new();
    for (at, &node) in from.iter().enumerate() {
        let meeting = JobRunner::meeting();
        let arguments = StorageArguments {
            scale_factor: plan.scale.to_string(),
            part: at as u32,
            parts: from.len() as u32,
            orders: orders.of_producer(at),
            lineitem: lineitem.of_producer(at),
            meeting,
        };
        sources.push((node, runner.start(node, STORAGE, &arguments)?, meeting));
    }
    Ok((sources, sinks))
}

/// The counts since `before`.
fn difference(now: Counters, before: &Counters) -> Counters {
    let since = |(name, count): (String, u64)| {
        let count = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
        (count > 0).then_some((name, count))
    };
    now.into_iter().filter_map(since).collect()
}
