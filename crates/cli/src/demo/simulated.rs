//! The demo in virtual time: four workers per node on the testbed of zero-sided RDMA.

use super::report::{DemoReport, LinkUse, NodeReport};
use super::{Found, Plan, fan_out, fan_out_simulated};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::mode::SIMULATED;
use crate::outcome::CliError;
use crate::progress::Progress;
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::testing::{SimulatedMachines, Taps};
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_workload::tpch::{ComputeWorker, StorageWorker, WorkerStep};
use std::path::Path;
use std::rc::Rc;

/// What a row costs a core that partitions it, and one that aggregates and joins it. Measured once
/// with `cargo bench -p rackweave-workload` (61 and 106 million rows/s) on a processor whose clock
/// is assumed to have been 3.5 GHz, and scaled to the 2.2 GHz of the testbed's Xeon Gold 5120. They
/// decide how busy the links of a simulated demo are, and no answer.
pub(super) const PUSH_ROW_PICOS: u64 = 26_000;
pub(super) const QUERY_ROW_PICOS: u64 = 15_000;

/// Rows between two looks at the world.
pub(super) const ROWS_PER_STEP: usize = 256;

/// Virtual time between two looks at the user.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// Virtual time without a row moved after which the demo gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

struct Source(Rc<RefCell<StorageWorker>>);

struct Sink(Rc<RefCell<Option<ComputeWorker>>>);

/// What an actor does after a step of its worker.
pub(super) fn next(step: WorkerStep, picos_per_row: u64) -> Step {
    match step {
        WorkerStep::Worked { rows, .. } => {
            Step::Compute(Duration::from_nanos((rows * picos_per_row / 1000).max(1)))
        }
        WorkerStep::Blocked => Step::WaitForPacket,
        WorkerStep::Done | WorkerStep::Aborted => Step::Done,
    }
}

impl Actor for Source {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        next(self.0.borrow_mut().step(ROWS_PER_STEP), PUSH_ROW_PICOS)
    }
}

impl Actor for Sink {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        match self.0.borrow_mut().as_mut() {
            Some(worker) => next(worker.step(ROWS_PER_STEP), QUERY_ROW_PICOS),
            None => Step::Done,
        }
    }
}

pub(super) fn run(
    plan: &Plan,
    capture: Option<&Path>,
    globals: &Globals,
) -> Result<DemoReport, CliError> {
    let mut rack = SimulatedRack::new(&plan.config)?;
    let recording = capture
        .map(|path| Recording::start(path, &plan.config, rack.memory()))
        .transpose()?;
    rack.set_tap(recording.as_ref().map(Recording::tap));
    let flows = plan.flows(&rack)?;
    let mut report = DemoReport::new(plan, SIMULATED);
    let started = std::time::Instant::now();
    let mut storage = plan.storage_workers(&flows)?;
    generate(&mut storage, globals);
    report.generate_seconds = started.elapsed().as_secs_f64();
    let storage: Vec<_> = storage
        .into_iter()
        .map(|w| Rc::new(RefCell::new(w)))
        .collect();
    let compute: Vec<_> = plan
        .compute_workers(&flows)?
        .into_iter()
        .map(|w| Rc::new(RefCell::new(Some(w))))
        .collect();
    for (worker, node) in storage.iter().zip(plan.places(&plan.storage)) {
        rack.spawn(node, Box::new(Source(worker.clone())));
    }
    for (worker, node) in compute.iter().zip(plan.places(&plan.compute)) {
        rack.spawn(node, Box::new(Sink(worker.clone())));
    }
    let started = std::time::Instant::now();
    drive(&mut rack, &compute, &storage, globals, &mut report);
    report.real_seconds = Some(started.elapsed().as_secs_f64());
    let span = rack.now() - Instant::ZERO;
    report.shuffle_seconds = span.as_secs_f64();
    report.problems.extend(flows.problems());
    let found: Found = compute
        .iter()
        .filter_map(|worker| worker.borrow_mut().take())
        .map(|worker| worker.into_result().map_err(|error| error.to_string()))
        .collect();
    for worker in &storage {
        report.note_problems([&*worker.borrow()]);
    }
    report.fill_rows(&found);
    let pushed: Vec<_> = storage.iter().map(|w| w.borrow().pushed()).collect();
    report.fill_nodes(plan, pushed, &found, |node| node_report(&rack, node, span));
    report.conclude(found);
    if report.problems.is_empty() && !globals.interrupt.is_set() {
        let mut workers: Vec<_> = storage.iter().map(|worker| worker.borrow_mut()).collect();
        let rows = fan_out::rows_of(workers.iter_mut().map(|worker| &mut **worker));
        if let Some(rows) = rows {
            fan_out_simulated::run(&mut rack, plan, rows, globals, &mut report)?;
        }
    }
    report.trace_hash = Some(format!("{:016x}", rack.trace_hash()));
    report.events = Some(rack.events());
    rack.set_tap(None);
    if let Some(recording) = recording {
        report.capture = Some(recording.finish()?.into());
    }
    report.switch_counters = rack
        .switch()
        .counters()
        .iter()
        .filter(|&(_, n)| n > 0)
        .map(|(name, n)| (name.into(), n))
        .collect();
    Ok(report)
}

fn node_report(rack: &SimulatedRack, node: NodeId, span: Duration) -> NodeReport {
    let mut report = NodeReport::default();
    if let Some(links) = rack.link_report(node) {
        let used = |direction: &rackweave_sim::world::DirectionReport| LinkUse {
            utilisation: direction.link.busy_picos as f64 / (span.as_nanos() as f64 * 1e3),
            bytes: direction.link.bytes,
            packets: direction.link.packets,
            packets_disturbed: direction.faults.lost
                + direction.faults.duplicated
                + direction.faults.reordered
                + direction.faults.corrupted,
        };
        report.to_switch = Some(used(&links.to_switch));
        report.from_switch = Some(used(&links.from_switch));
    }
    if let Some(cpu) = rack.cpu_report(node) {
        report.cpu_compute_seconds = Some(cpu.compute.as_secs_f64());
        report.cpu_communication_seconds = Some(cpu.communication.as_secs_f64());
    }
    report
}

fn generate(storage: &mut [StorageWorker], globals: &Globals) {
    let expected: u64 = storage
        .iter()
        .map(|worker| worker.expected_rows().total())
        .sum();
    let mut progress = Progress::new(globals, "generating TPC-H rows");
    let mut made = 0;
    for worker in storage {
        while let Some(rows) = worker.prepare_step(10_000) {
            if globals.interrupt.is_set() {
                return;
            }
            made += rows;
            progress.set(|| made as f64 / expected as f64);
        }
    }
}

fn drive(
    rack: &mut SimulatedRack,
    compute: &[Rc<RefCell<Option<ComputeWorker>>>],
    storage: &[Rc<RefCell<StorageWorker>>],
    globals: &Globals,
    report: &mut DemoReport,
) {
    let expected: u64 = storage
        .iter()
        .map(|w| w.borrow().expected_rows().total())
        .sum();
    let mut progress = Progress::new(globals, "shuffling in virtual time");
    let consumed = || -> u64 {
        compute
            .iter()
            .filter_map(|w| w.borrow().as_ref().map(|w| w.consumed().total()))
            .sum()
    };
    let (mut last, mut since) = (0, rack.now());
    while !globals.interrupt.is_set() {
        match rack.run(rack.now() + SLICE) {
            RunEnd::Done => return,
            RunEnd::Stalled => return report.problems.push("nothing happens any more".into()),
            RunEnd::Deadline | RunEnd::Control(_) => {}
        }
        let rows = consumed();
        progress.set(|| rows as f64 / expected as f64);
        if rows > last {
            (last, since) = (rows, rack.now());
        } else if rack.now() - since > PATIENCE {
            return report
                .problems
                .push(format!("no row has moved for {PATIENCE} of virtual time"));
        }
    }
}
