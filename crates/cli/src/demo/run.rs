//! The demo's flows on a rack of this process: in real time with a thread for each worker, in
//! virtual time with four workers per node on the testbed of zero-sided RDMA.

use super::DemoPlan;
use super::fan_out::{self, FoundBy, Workers};
use super::report::DemoReport;
use crate::globals::Globals;
use crate::memcpy;
use crate::mode::SIMULATED;
use crate::outcome::CliError;
use crate::patience::Wish;
use crate::programs::{self, End, OwnRack, Watch};
use crate::progress::Progress;
use crate::report::object;
use crate::tpch::{self, Worker};
use rackweave_base::{Duration, NodeId};
use rackweave_controller::FlowShape;
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{Flow, RackConfig, SimulatedRack};
use rackweave_sim::world::DirectionReport;
use rackweave_workload::tpch::{
    ComputeWorker, Q1Worker, ReplicaWorker, RowsDigest, StorageWorker, TableWorker, WorkerError,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Virtual time between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(1);

/// Virtual time without progress after which the demo gives up.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Runs the flows on their own simulated rack.
pub(super) fn simulated(
    plan: &DemoPlan,
    capture: Option<&Path>,
    globals: &Globals,
) -> Result<DemoReport, CliError> {
    let mut report = DemoReport::new(plan, SIMULATED);
    let mut rack = OwnRack::new(&plan.config, true, globals)?;
    let recording = rack.record(capture)?;
    run(&mut rack, plan, globals, &mut report)?;
    if let Some(capture) = rack.recorded(recording)? {
        report.note_capture(capture);
    }
    if let Some(rack) = rack.simulated() {
        report.trace_hash = Some(format!("{:016x}", rack.trace_hash()));
        report.events = Some(rack.events());
        let switch = rack.switch();
        let counters = switch.counters().iter();
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        report.fill_counters(&BTreeMap::new(), counters.collect());
    }
    Ok(report)
}

/// Runs the flows on a rack that is large enough, and fills `report`.
pub(super) fn run(
    rack: &mut OwnRack,
    plan: &DemoPlan,
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let flows = plan.flows(rack)?;
    let mut storage = plan.storage_workers(&flows)?;
    let compute = plan.compute_workers(&flows)?;
    let started = Instant::now();
    generate(&mut storage, globals);
    report.generate_seconds = started.elapsed().as_secs_f64();
    let expected: u64 = storage.iter().map(|it| it.expected_rows().total()).sum();
    let mut progress = Progress::new(globals, "shuffling through the switch");
    // Each row is pushed and taken.
    let mut set = |rows, _| progress.set(|| rows as f64 / (2 * expected) as f64);
    let (started, began) = (Instant::now(), rack.now());
    let ends = (plan.places(&plan.storage), plan.places(&plan.compute));
    let (step, is_delivered) = (StorageWorker::step, StorageWorker::is_delivered);
    let sources = storage.into_iter();
    let sources = sources.map(|work| Worker::source(work, step, is_delivered));
    let sinks = compute.into_iter();
    let sinks = sinks.map(|work| Worker::sink(work, ComputeWorker::step));
    let workers = Workers {
        sources: sources.collect(),
        sinks: sinks.collect(),
    };
    let found = ComputeWorker::into_result;
    let (mut storage, found, ran) = work_all(rack, ends, workers, found, globals, &mut set);
    drop(progress);
    let span = rack.now() - began;
    report.shuffle_seconds = span.as_secs_f64();
    if rack.simulated().is_some() {
        report.real_seconds = Some(started.elapsed().as_secs_f64());
    }
    if found.is_err() || globals.interrupt.is_set() {
        flows.close();
    }
    let broken = flows.problems();
    report.note_problems(&storage);
    report.fill_rows(&found);
    report.problems.extend(broken);
    if let (Err(error), true) = (ran, report.problems.is_empty()) {
        report.problems.push(error.to_string());
    }
    let pushed = storage.iter().map(StorageWorker::pushed);
    report.fill_nodes(plan, pushed, &found, |node| match rack.simulated() {
        Some(rack) => links(rack, node, span),
        None => link_kind(rack.config(), node),
    });
    report.conclude(found);
    if report.problems.is_empty() && !globals.interrupt.is_set() {
        fan_out(rack, plan, &mut storage, globals, report)?;
    }
    if rack.simulated().is_none() {
        report.compare_to_memcpy(memcpy::bandwidth(64 << 20, 32 << 10));
    }
    Ok(())
}

/// Makes all storage workers generate their rows concurrently.
fn generate(storage: &mut [StorageWorker], globals: &Globals) {
    let rows = storage.iter().map(|worker| worker.expected_rows().total());
    let expected: u64 = rows.sum();
    let (made, left) = (AtomicU64::new(0), AtomicU64::new(storage.len() as u64));
    let mut progress = Progress::new(globals, "generating TPC-H rows");
    thread::scope(|scope| {
        for worker in storage {
            let (made, left) = (&made, &left);
            scope.spawn(move || {
                let count = |rows| {
                    made.fetch_add(rows, Ordering::Relaxed);
                };
                tpch::generate(worker, || globals.interrupt.is_set(), count);
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while left.load(Ordering::Relaxed) > 0 {
            progress.set(|| made.load(Ordering::Relaxed) as f64 / expected as f64);
            thread::sleep(std::time::Duration::from_millis(2));
        }
    });
}

/// Runs all workers concurrently, until they are done or one fails; returns the sources, and the
/// results of the sinks.
fn work_all<S: Send + 'static, T: Send + 'static, F>(
    rack: &mut OwnRack,
    (from, to): (Vec<NodeId>, Vec<NodeId>),
    workers: Workers<S, T>,
    found_by: fn(T) -> Result<F, WorkerError>,
    globals: &Globals,
    progress: &mut dyn FnMut(u64, u64),
) -> (Vec<S>, FoundBy<F>, Result<(), CliError>) {
    let mut watch = Watch {
        idle_max: Some(IDLE_MAX),
        ..Watch::new(globals, Wish::Stop, SLICE, progress)
    };
    let sources = workers.sources.into_iter().map(End::Source);
    let sources = from.into_iter().zip(sources);
    let sinks = to.into_iter().zip(workers.sinks.into_iter().map(End::Sink));
    let groups = sources.chain(sinks).map(|program| vec![program]).collect();
    let (ends, ran) = programs::run(rack, groups, &mut watch);
    let (mut sources, mut found) = (Vec::new(), Ok(Vec::new()));
    for end in ends {
        match (end, &mut found) {
            (End::Source(worker), _) => sources.push(worker.work),
            (End::Sink(worker), Ok(all)) => match found_by(worker.work) {
                Ok(one) => all.push(one),
                Err(error) => found = Err(error.to_string()),
            },
            (End::Sink(_), Err(_)) => {}
        }
    }
    (sources, found, ran)
}

/// The runs over flows whose producers do not choose a consumer.
fn fan_out(
    rack: &mut OwnRack,
    plan: &DemoPlan,
    storage: &mut [StorageWorker],
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let Some((orders, lineitem)) = fan_out::rows_of(storage) else {
        return Ok(());
    };
    let consumers = plan.fan_out_consumers().len();
    let flow = plan.fan_out_flow(rack, FlowShape::Balance)?;
    let sink = |ring| Worker::sink(Q1Worker::new(ring), Q1Worker::step);
    let source = TableWorker::lineitem;
    let mut workers = fan_out::workers(&flow, lineitem, consumers, source, sink)?;
    workers.sinks[0].slow_down();
    let (found, seconds) = spread(rack, plan, &flow, workers, Q1Worker::into_result, globals);
    if globals.interrupt.is_set() {
        return Ok(());
    }
    report.note_balanced(plan, found, seconds);
    let flow = plan.fan_out_flow(rack, FlowShape::Replicate)?;
    let sink = |ring| Worker::sink(ReplicaWorker::new(ring), ReplicaWorker::step);
    let workers = fan_out::workers(&flow, orders, consumers, TableWorker::orders, sink)?;
    let pushed = workers.sources.iter().map(|source| source.work.digest());
    let pushed = pushed.fold(RowsDigest::default(), RowsDigest::with);
    let (found, seconds) = spread(
        rack,
        plan,
        &flow,
        workers,
        ReplicaWorker::into_result,
        globals,
    );
    if !globals.interrupt.is_set() {
        report.note_replicated(plan, (found, pushed), seconds);
    }
    Ok(())
}

/// Runs all workers concurrently. Returns the consumers' results, and how long it took.
fn spread<T: Send + 'static, F>(
    rack: &mut OwnRack,
    plan: &DemoPlan,
    flow: &Flow,
    workers: Workers<TableWorker, T>,
    found_by: fn(T) -> Result<F, WorkerError>,
    globals: &Globals,
) -> (FoundBy<F>, f64) {
    let ends = (plan.places(&plan.storage), plan.fan_out_consumers());
    let began = rack.now();
    // A worker that has given up reports why itself.
    let (_, found, _) = work_all(rack, ends, workers, found_by, globals, &mut |_, _| {});
    if found.is_err() {
        flow.close();
    }
    (found, (rack.now() - began).as_secs_f64())
}

/// The kind of a node's link to the switch of a running rack.
fn link_kind(config: &RackConfig, node: NodeId) -> Map<String, Value> {
    let Some(hosted) = &config.hosted else {
        return Map::new();
    };
    let link = config.node[usize::from(node.0)].link_kind(hosted);
    object(json!({ "link": link.name() }))
}

/// The activity of the link and the cores of a simulated node.
fn links(rack: &SimulatedRack, node: NodeId, span: Duration) -> Map<String, Value> {
    let used = |direction: &DirectionReport| {
        let (link, faults) = (&direction.link, &direction.faults);
        json!({
            "utilisation": link.busy_picos as f64 / (span.as_nanos() as f64 * 1e3),
            "bytes": link.bytes,
            "packets": link.packets,
            "packets_disturbed":
                faults.lost + faults.duplicated + faults.reordered + faults.corrupted,
        })
    };
    let (links, cpu) = (rack.link_report(node), rack.cpu_report(node));
    object(json!({
        "to_switch": links.as_ref().map(|links| used(&links.to_switch)),
        "from_switch": links.as_ref().map(|links| used(&links.from_switch)),
        "cpu_compute_seconds": cpu.as_ref().map(|cpu| cpu.compute.as_secs_f64()),
        "cpu_communication_seconds": cpu.as_ref().map(|cpu| cpu.communication.as_secs_f64()),
    }))
}
