//! The load-balanced and the replicated run in virtual time.

use super::Plan;
use super::fan_out::{self, FoundBy, Rows, SLOWNESS, Taker, Workers};
use super::report::DemoReport;
use super::simulated::{PATIENCE, PUSH_ROW_PICOS, QUERY_ROW_PICOS, ROWS_PER_STEP, SLICE, next};
use crate::globals::Globals;
use crate::outcome::CliError;
use core::cell::RefCell;
use rackweave_controller::FlowShape;
use rackweave_rack::{Flow, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_workload::tpch::{TableWorker, WorkerStep};
use std::rc::Rc;

struct Source(TableWorker);

/// Taken back at the end. With what a row costs its core in picoseconds.
struct Sink<T>(Rc<RefCell<Option<T>>>, u64, Rc<RefCell<u64>>);

impl Actor for Source {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        next(self.0.step(ROWS_PER_STEP), PUSH_ROW_PICOS)
    }
}

impl<T: Taker> Actor for Sink<T> {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        let Some(worker) = &mut *self.0.borrow_mut() else {
            return Step::Done;
        };
        let step = worker.step(ROWS_PER_STEP);
        if let WorkerStep::Worked { rows, .. } = step {
            *self.2.borrow_mut() += rows;
        }
        next(step, self.1)
    }
}

/// Runs both over the rows of orders and of line items.
///
/// # Errors
/// If a flow cannot be set up.
pub(super) fn run(
    rack: &mut SimulatedRack,
    plan: &Plan,
    (orders, lineitem): (Rows, Rows),
    globals: &Globals,
    report: &mut DemoReport,
) -> Result<(), CliError> {
    let consumers = plan.fan_out_consumers().len();
    let flow = plan.fan_out_flow(rack, FlowShape::Balance)?;
    let workers = fan_out::balanced_workers(&flow, lineitem, consumers)?;
    let (found, seconds) = spread(rack, plan, &flow, workers, SLOWNESS, globals);
    if globals.interrupt.is_set() {
        return Ok(());
    }
    report.note_balanced(plan, found, seconds);
    let flow = plan.fan_out_flow(rack, FlowShape::Replicate)?;
    let (workers, pushed) = fan_out::replicated_workers(&flow, orders, consumers)?;
    let (found, seconds) = spread(rack, plan, &flow, workers, 1, globals);
    if !globals.interrupt.is_set() {
        report.note_replicated(plan, (found, pushed), seconds);
    }
    Ok(())
}

/// All workers as programs on their nodes; a row costs the first consumer `slowness` times as much.
fn spread<T: Taker>(
    rack: &mut SimulatedRack,
    plan: &Plan,
    flow: &Flow,
    workers: Workers<T>,
    slowness: u32,
    globals: &Globals,
) -> (FoundBy<T::Found>, f64) {
    let moved = Rc::new(RefCell::new(0));
    for (worker, node) in workers.sources.into_iter().zip(plan.places(&plan.storage)) {
        rack.spawn(node, Box::new(Source(worker)));
    }
    let mut sinks = Vec::new();
    for (at, (worker, node)) in workers
        .sinks
        .into_iter()
        .zip(plan.fan_out_consumers())
        .enumerate()
    {
        let sink = Rc::new(RefCell::new(Some(worker)));
        let picos = QUERY_ROW_PICOS * if at == 0 { u64::from(slowness) } else { 1 };
        rack.spawn(node, Box::new(Sink(sink.clone(), picos, moved.clone())));
        sinks.push(sink);
    }
    let started = rack.now();
    let (mut last, mut since) = (0, started);
    while !globals.interrupt.is_set() {
        match rack.run(rack.now() + SLICE) {
            RunEnd::Done | RunEnd::Stalled => break,
            RunEnd::Deadline | RunEnd::Control(_) => {}
        }
        let rows = *moved.borrow();
        if rows > last {
            (last, since) = (rows, rack.now());
        } else if rack.now() - since > PATIENCE {
            break;
        }
    }
    let seconds = (rack.now() - started).as_secs_f64();
    let taken = sinks.iter().filter_map(|sink| sink.borrow_mut().take());
    let found: FoundBy<T::Found> = taken
        .map(|worker| worker.found().map_err(|error| error.to_string()))
        .collect();
    if found.is_err() {
        flow.close();
    }
    (found, seconds)
}
