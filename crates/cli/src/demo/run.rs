//! The demo's flows on a rack of this process: in real time with a thread for each worker, in
//! virtual time with four workers per node on the testbed of zero-sided RDMA.

use super::DemoPlan;
use super::fan_out::{self, FoundBy, Rows};
use super::report::DemoReport;
use crate::globals::{Globals, SIMULATED};
use crate::measure::memcpy_bandwidth;
use crate::outcome::CliError;
use crate::programs::{self, End, Group, OwnRack, Watch, Wish};
use crate::progress::Progress;
use crate::report::object;
use crate::tpch::{ROWS_PER_STEP, Worker};
use rackweave_base::{Duration, NodeId};
use rackweave_controller::FlowShape;
use rackweave_endpoint::flow::{Consumer, Producer};
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{RackConfig, SimulatedRack};
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
    let (step, is_delivered) = (StorageWorker::step, StorageWorker::is_delivered);
    let sources = storage.into_iter();
    let sources = sources.map(|work| End::Source(Worker::source(work, step, is_delivered)));
    let sinks = compute.into_iter();
    let sinks = sinks.map(|work| End::Sink(Worker::sink(work, ComputeWorker::step)));
    let sources = plan.places(&plan.storage).into_iter().zip(sources);
    let sinks = plan.places(&plan.compute).into_iter().zip(sinks);
    let ends = sources.chain(sinks).collect();
    let found = ComputeWorker::into_result;
    let (mut storage, found, ran) = work_all(rack, ends, found, globals, &mut set);
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
    let errors = storage.iter().filter_map(StorageWorker::error);
    let errors = errors.map(|error| format!("storage: {error}"));
    report.problems.extend(errors);
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
        let memcpy = memcpy_bandwidth(64 << 20, 32 << 10) / 1e9;
        report.memcpy_gigabytes_per_second = Some(memcpy);
        report.ratio_to_memcpy = Some(report.gigabytes_per_second / memcpy);
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
                while !globals.interrupt.is_set()
                    && let Some(rows) = worker.prepare_step(ROWS_PER_STEP)
                {
                    made.fetch_add(rows, Ordering::Relaxed);
                }
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
    workers: Group<End<Worker<S>, Worker<T>>>,
    found_by: fn(T) -> Result<F, WorkerError>,
    globals: &Globals,
    progress: &mut dyn FnMut(u64, u64),
) -> (Vec<S>, FoundBy<F>, Result<(), CliError>) {
    let mut watch = Watch {
        idle_max: Some(IDLE_MAX),
        ..Watch::new(globals, Wish::Stop, SLICE, progress)
    };
    let groups = workers.into_iter().map(|worker| vec![worker]).collect();
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
    let sink = |at: usize, ring| {
        let mut worker = Worker::sink(Q1Worker::new(ring), Q1Worker::step);
        worker.is_slow = at == 0;
        worker
    };
    let (flow, source) = ((FlowShape::Balance, lineitem), TableWorker::lineitem);
    let spread_out = spread(
        rack,
        plan,
        flow,
        source,
        sink,
        Q1Worker::into_result,
        globals,
    );
    let (_, found, seconds) = spread_out?;
    if globals.interrupt.is_set() {
        return Ok(());
    }
    report.note_balanced(plan, found, seconds);
    let sink = |_, ring| Worker::sink(ReplicaWorker::new(ring), ReplicaWorker::step);
    let (flow, source) = ((FlowShape::Replicate, orders), TableWorker::orders);
    let found_by = ReplicaWorker::into_result;
    let spread_out = spread(rack, plan, flow, source, sink, found_by, globals);
    let (sources, found, seconds) = spread_out?;
    if !globals.interrupt.is_set() {
        let pushed = sources.iter().map(TableWorker::digest);
        let pushed = pushed.fold(RowsDigest::default(), RowsDigest::with);
        report.note_replicated(plan, (found, pushed), seconds);
    }
    Ok(())
}

/// Runs a flow of this shape and its workers: a source for the rows of each producer, and a sink
/// for each consumer. Returns the sources, the consumers' results, and how long it took in seconds.
fn spread<T: Send + 'static, F>(
    rack: &mut OwnRack,
    plan: &DemoPlan,
    (shape, rows): (FlowShape, Rows),
    source: fn(Vec<u8>, Producer) -> TableWorker,
    sink: impl Fn(usize, Consumer) -> Worker<T>,
    found_by: fn(T) -> Result<F, WorkerError>,
    globals: &Globals,
) -> Result<(Vec<TableWorker>, FoundBy<F>, f64), CliError> {
    let flow = plan.fan_out_flow(rack, shape)?;
    let mut workers = Group::new();
    let producers = plan.places(&plan.storage).into_iter().zip(rows);
    for (at, (node, rows)) in producers.enumerate() {
        let work = source(rows, flow.take_producer(at)?);
        let worker = Worker::source(work, TableWorker::step, TableWorker::is_delivered);
        workers.push((node, End::Source(worker)));
    }
    for (at, node) in plan.fan_out_consumers().into_iter().enumerate() {
        workers.push((node, End::Sink(sink(at, flow.take_consumer(at)?))));
    }
    let began = rack.now();
    // A worker that has given up reports why itself.
    let (sources, found, _) = work_all(rack, workers, found_by, globals, &mut |_, _| {});
    if found.is_err() {
        flow.close();
    }
    Ok((sources, found, (rack.now() - began).as_secs_f64()))
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
