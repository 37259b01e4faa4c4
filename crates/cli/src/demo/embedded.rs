//! The demo on threads: one per storage node and one per compute node.

use super::report::{DemoReport, NodeReport};
use super::{Flows, Found, Plan};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::memcpy;
use crate::outcome::CliError;
use crate::progress::Progress;
use rackweave_controller::FlowState;
use rackweave_rack::EmbeddedRack;
use rackweave_verbs::Progress as Drive;
use rackweave_workload::tpch::{ComputeResult, ComputeWorker, StorageWorker, WorkerStep};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Rows between two looks at the world.
const ROWS_PER_STEP: usize = 2048;

pub(super) fn run(
    plan: &Plan,
    capture: Option<&Path>,
    globals: &Globals,
) -> Result<DemoReport, CliError> {
    let rack = EmbeddedRack::new(&plan.config)?;
    let recording = capture
        .map(|path| Recording::start(path, &plan.config, rack.memory()))
        .transpose()?;
    rack.set_tap(recording.as_ref().map(Recording::tap));
    let spec = plan.flow_spec(|from, to, item, ring| rack.flow_spec(from, to, item, ring));
    let flows = Flows {
        orders: rack.create_flow(spec.clone())?,
        lineitem: rack.create_flow(spec)?,
    };
    let mut storage = plan.storage_workers(&flows)?;
    let compute = plan.compute_workers(&flows)?;
    let mut report = DemoReport::new(plan, "embedded");
    let started = Instant::now();
    generate(&mut storage, globals);
    report.generate_seconds = started.elapsed().as_secs_f64();
    report.driver_threads = Some(rack.driver_threads());
    let started = Instant::now();
    let (storage, found) = shuffle(&rack, storage, compute, globals);
    report.shuffle_seconds = started.elapsed().as_secs_f64();
    if found.is_err() || globals.interrupt.is_set() {
        flows.ids().into_iter().for_each(|id| rack.close_flow(id));
    }
    let states = flows.ids().map(|id| rack.flow_state(id));
    report.fill_rows(&storage, &found);
    if let Some(Some(FlowState::Aborted(reason))) = states
        .iter()
        .find(|s| matches!(s, Some(FlowState::Aborted(_))))
    {
        report
            .problems
            .push(format!("a flow was broken off: {reason}"));
    }
    report.fill_nodes(plan, &storage, &found, |_| NodeReport::default());
    report.conclude(found);
    rack.set_tap(None);
    if let Some(recording) = recording {
        report.capture = Some(recording.finish()?.into());
    }
    report.switch_counters = rack
        .switch_counters()
        .iter()
        .filter(|&(_, n)| n > 0)
        .collect();
    drop(rack);
    report.compare_to_memcpy(memcpy::bandwidth(64 << 20, 32 << 10));
    Ok(report)
}

/// Every storage worker makes its rows, all at once.
fn generate(storage: &mut [StorageWorker], globals: &Globals) {
    let expected: u64 = storage
        .iter()
        .map(|worker| worker.expected_rows().total())
        .sum();
    let (made, left) = (AtomicU64::new(0), AtomicU64::new(storage.len() as u64));
    let mut progress = Progress::new(globals, "generating TPC-H rows");
    thread::scope(|scope| {
        for worker in storage {
            let (made, left) = (&made, &left);
            scope.spawn(move || {
                while !globals.interrupt.is_set() {
                    let Some(rows) = worker.prepare_step(ROWS_PER_STEP) else {
                        break;
                    };
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

/// All workers at once, until they are done or one fails.
fn shuffle(
    rack: &EmbeddedRack,
    storage: Vec<StorageWorker>,
    compute: Vec<ComputeWorker>,
    globals: &Globals,
) -> (Vec<StorageWorker>, Found) {
    let drive = rack.progress();
    let stop = AtomicBool::new(false);
    let moved = AtomicU64::new(0);
    let expected: u64 = storage
        .iter()
        .map(|worker| worker.expected_rows().total())
        .sum();
    let stop_now = || stop.load(Ordering::Relaxed) || globals.interrupt.is_set();
    let (stop_now, stop, drive, moved) = (&stop_now, &stop, &*drive, &moved);
    thread::scope(|scope| {
        let sources: Vec<_> = storage
            .into_iter()
            .map(|mut worker| {
                scope.spawn(move || {
                    work(drive, stop_now, stop, |rows| worker.step(rows), |_| {});
                    // What the switch has not taken yet must not be lost with the thread.
                    let mut idle = 0;
                    while !worker.is_delivered() && !stop_now() {
                        idle = if drive.drive() { 0 } else { idle + 1 };
                        drive.relax(idle);
                    }
                    worker
                })
            })
            .collect();
        let sinks: Vec<_> = compute
            .into_iter()
            .map(|mut worker| {
                scope.spawn(move || {
                    let count = |rows| {
                        moved.fetch_add(rows, Ordering::Relaxed);
                    };
                    work(drive, stop_now, stop, |rows| worker.step(rows), count);
                    worker.into_result().map_err(|error| error.to_string())
                })
            })
            .collect();
        let mut progress = Progress::new(globals, "shuffling through the switch");
        while sinks.iter().any(|sink| !sink.is_finished()) {
            progress.set(|| moved.load(Ordering::Relaxed) as f64 / expected as f64);
            thread::sleep(std::time::Duration::from_millis(1));
        }
        let found: Found = sinks.into_iter().map(join).collect();
        let storage = sources
            .into_iter()
            .map(|source| source.join().expect("a storage worker does not panic"));
        (storage.collect(), found)
    })
}

fn join(
    sink: thread::ScopedJoinHandle<'_, Result<ComputeResult, String>>,
) -> Result<ComputeResult, String> {
    sink.join()
        .unwrap_or_else(|_| Err("a compute worker panicked".into()))
}

/// Steps a worker until it is done, drives the rack while it is blocked.
fn work(
    drive: &dyn Drive,
    stop_now: &dyn Fn() -> bool,
    stop: &AtomicBool,
    mut step: impl FnMut(usize) -> WorkerStep,
    count: impl Fn(u64),
) {
    let mut idle = 0;
    while !stop_now() {
        match step(ROWS_PER_STEP) {
            WorkerStep::Worked { rows, .. } => {
                idle = 0;
                count(rows);
            }
            WorkerStep::Blocked if drive.drive() => idle = 0,
            WorkerStep::Blocked => {
                drive.relax(idle);
                idle += 1;
            }
            WorkerStep::Done => return,
            WorkerStep::Aborted => {
                stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}
