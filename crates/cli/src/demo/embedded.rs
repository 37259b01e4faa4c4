//! The demo on threads: one per storage node and one per compute node.

use super::fan_out::{self, Taker, Workers};
use super::report::{DemoReport, NodeReport};
use super::work::{self, End};
use super::{Found, Plan};
use crate::globals::Globals;
use crate::memcpy;
use crate::outcome::CliError;
use crate::patience::Wish;
use crate::progress::Progress;
use rackweave_controller::FlowShape;
use rackweave_rack::{EmbeddedRack, Flow};
use rackweave_workload::tpch::{ComputeResult, ComputeWorker, StorageWorker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Runs it on a rack that has room for its flows, and fills `report`.
pub(super) fn run(
    rack: &EmbeddedRack,
    plan: &Plan,
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let flows = plan.flows(rack)?;
    let mut storage = plan.storage_workers(&flows)?;
    let compute = plan.compute_workers(&flows)?;
    let started = Instant::now();
    generate(&mut storage, globals);
    report.generate_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (mut storage, found) = shuffle(rack, storage, compute, globals);
    report.shuffle_seconds = started.elapsed().as_secs_f64();
    if found.is_err() || globals.interrupt.is_set() {
        flows.close();
    }
    let broken = flows.problems();
    report.note_problems(&storage);
    report.fill_rows(&found);
    report.problems.extend(broken);
    let pushed = storage.iter().map(StorageWorker::pushed);
    report.fill_nodes(plan, pushed, &found, |_| NodeReport::default());
    report.conclude(found);
    if report.problems.is_empty() && !globals.interrupt.is_set() {
        fan_out(rack, plan, &mut storage, globals, report)?;
    }
    report.compare_to_memcpy(memcpy::bandwidth(64 << 20, 32 << 10));
    Ok(())
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
                let wish = || wish(globals.interrupt.is_set());
                work::generate(worker, wish, |rows| {
                    made.fetch_add(rows, Ordering::Relaxed);
                });
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
    let wish = || wish(stop.load(Ordering::Relaxed) || globals.interrupt.is_set());
    // One worker that gives up ends the work of all.
    let conclude = |end| stop.fetch_or(end == End::Aborted, Ordering::Relaxed);
    let (wish, conclude, drive, moved) = (&wish, &conclude, &*drive, &moved);
    thread::scope(|scope| {
        let sources: Vec<_> = storage
            .into_iter()
            .map(|mut worker| {
                scope.spawn(move || {
                    conclude(work::push(&mut worker, drive, wish, |_| {}));
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
                    conclude(work::take(&mut worker, drive, wish, count));
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

fn wish(stop: bool) -> Wish {
    if stop { Wish::Stop } else { Wish::GoOn }
}

/// The runs over flows whose producers do not choose a consumer.
fn fan_out(
    rack: &EmbeddedRack,
    plan: &Plan,
    storage: &mut [StorageWorker],
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let Some((orders, lineitem)) = fan_out::rows_of(storage) else {
        return Ok(());
    };
    let consumers = plan.fan_out_consumers().len();
    let flow = plan.fan_out_flow(rack, FlowShape::Balance)?;
    let workers = fan_out::balanced_workers(&flow, lineitem, consumers)?;
    let (found, seconds) = spread(rack, &flow, workers, true, globals);
    if globals.interrupt.is_set() {
        return Ok(());
    }
    report.note_balanced(plan, found, seconds);
    let flow = plan.fan_out_flow(rack, FlowShape::Replicate)?;
    let (workers, pushed) = fan_out::replicated_workers(&flow, orders, consumers)?;
    let (found, seconds) = spread(rack, &flow, workers, false, globals);
    if !globals.interrupt.is_set() {
        report.note_replicated(plan, (found, pushed), seconds);
    }
    Ok(())
}

/// All workers at once, until they are done or one fails; the first consumer may be a slow one.
fn spread<T: Taker>(
    rack: &EmbeddedRack,
    flow: &Flow,
    workers: Workers<T>,
    first_is_slow: bool,
    globals: &Globals,
) -> (fan_out::FoundBy<T::Found>, f64) {
    let drive = rack.progress();
    let stop = AtomicBool::new(false);
    let wish = || wish(stop.load(Ordering::Relaxed) || globals.interrupt.is_set());
    // One worker that gives up ends the work of all.
    let conclude = |end| stop.fetch_or(end == End::Aborted, Ordering::Relaxed);
    let (wish, conclude, drive) = (&wish, &conclude, &*drive);
    let started = Instant::now();
    let found = thread::scope(|scope| {
        for mut worker in workers.sources {
            scope.spawn(move || conclude(work::push_table(&mut worker, drive, wish, |_| {})));
        }
        let take = |(at, mut worker): (usize, T)| {
            scope.spawn(move || {
                let is_slow = first_is_slow && at == 0;
                conclude(work::take_share(&mut worker, is_slow, drive, wish));
                worker.found().map_err(|error| error.to_string())
            })
        };
        let sinks: Vec<_> = workers.sinks.into_iter().enumerate().map(take).collect();
        let join = |sink: thread::ScopedJoinHandle<'_, Result<T::Found, String>>| {
            let joined = sink.join();
            joined.unwrap_or_else(|_| Err("a worker panicked".into()))
        };
        sinks.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    });
    let seconds = started.elapsed().as_secs_f64();
    if found.is_err() {
        flow.close();
    }
    (found, seconds)
}
