//! The campaign against flows: rings of all sizes, all rates of packet faults, cut cables, crashed
//! nodes, restarts of the switch.
//!
//! What must hold (DESIGN, section 10): no item lost, duplicated, reordered within its ring or
//! changed; the end of stream comes after the last item and only then; a flow is broken off only if
//! a node has died, and then what was delivered is a prefix of what each producer sent; every run
//! comes to its end.

mod actors;
mod plan;

use crate::SeedReport;
use actors::{Feeder, Taker};
use core::cell::RefCell;
use plan::{Disturbance, Plan};
use rackweave_base::{Duration, Instant};
use rackweave_controller::FlowState;
use rackweave_rack::{Flow, RunEnd, SimulatedRack};
use rackweave_sim::checkers::{FlowHistory, Shape};
use std::rc::Rc;

/// Virtual time after which a run that has not ended is taken for stuck. The longest honest runs
/// take tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// What all actors of a run share.
pub(crate) type History = Rc<RefCell<FlowHistory>>;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = Plan::new(seed);
    let mut report = SeedReport {
        seed,
        plan: plan.to_string(),
        ..SeedReport::default()
    };
    let mut rack = match SimulatedRack::new(&plan.config) {
        Ok(rack) => rack,
        Err(error) => return fail(report, format!("no rack: {error}")),
    };
    let flow = match rack.create_flow(plan.spec.clone()) {
        Ok(flow) => flow,
        Err(error) => return fail(report, format!("no flow: {error}")),
    };
    let consumers = plan.spec.consumers.len() as u16;
    let history = Rc::new(RefCell::new(FlowHistory::new(
        Shape::Routed,
        consumers,
        seed,
    )));
    if let Err(error) = spawn(&mut rack, &flow, &plan, &history) {
        return fail(report, error);
    }
    for (at, (time, _)) in plan.disturbances.iter().enumerate() {
        rack.at(*time, at as u64);
    }
    drive(&mut rack, &plan, &history, &mut report);
    judge(&mut rack, &flow, &plan, &history, &mut report);
    report
}

fn fail(mut report: SeedReport, violation: String) -> SeedReport {
    report.violations.push(violation);
    report
}

fn spawn(
    rack: &mut SimulatedRack,
    flow: &Flow,
    plan: &Plan,
    history: &History,
) -> Result<(), String> {
    for (at, &node) in plan.spec.producers.iter().enumerate() {
        let producers = flow.producers(at).map_err(|error| error.to_string())?;
        rack.spawn(
            node,
            Box::new(Feeder::new(at as u16, producers, plan, history.clone())),
        );
    }
    for (at, &node) in plan.spec.consumers.iter().enumerate() {
        let consumer = flow.consumer(at).map_err(|error| error.to_string())?;
        rack.spawn(
            node,
            Box::new(Taker::new(at as u16, consumer, plan, history.clone())),
        );
    }
    Ok(())
}

/// Runs to the end, doing what the plan says when it is due.
fn drive(rack: &mut SimulatedRack, plan: &Plan, history: &History, report: &mut SeedReport) {
    loop {
        match rack.run(Instant::ZERO + PATIENCE) {
            RunEnd::Done => return,
            RunEnd::Deadline => {
                return report
                    .violations
                    .push(format!("stuck: not at its end after {PATIENCE}"));
            }
            RunEnd::Stalled => {
                return report
                    .violations
                    .push("stuck: nothing will ever happen again".into());
            }
            RunEnd::Control(token) => {
                let (_, disturbance) = plan.disturbances[token as usize];
                match disturbance {
                    Disturbance::RestartSwitch => {
                        report.restarts += 1;
                        if let Err(error) = rack.restart_switch() {
                            report
                                .violations
                                .push(format!("the switch did not restart: {error}"));
                        }
                    }
                    Disturbance::CutCable(node) => rack.set_link_down(node, true),
                    Disturbance::MendCable(node) => rack.set_link_down(node, false),
                    Disturbance::Crash { node, told } => {
                        report.crashes += 1;
                        let mut history = history.borrow_mut();
                        for at in plan.producers_on(node) {
                            history.abandon_producer(at);
                        }
                        for at in plan.consumers_on(node) {
                            history.abandon_consumer(at);
                        }
                        drop(history);
                        if told {
                            rack.crash_node(node);
                        } else {
                            rack.crash_node_silently(node);
                        }
                    }
                }
            }
        }
    }
}

fn judge(
    rack: &mut SimulatedRack,
    flow: &Flow,
    plan: &Plan,
    history: &History,
    report: &mut SeedReport,
) {
    report.trace_hash = rack.trace_hash();
    report.events = rack.events();
    report.time = rack.now() - Instant::ZERO;
    for node in 0..plan.config.node.len() {
        if let Some(links) = rack.link_report(rackweave_base::NodeId(node as u16)) {
            for faults in [links.to_switch.faults, links.from_switch.faults] {
                report.packets_disturbed +=
                    faults.lost + faults.duplicated + faults.reordered + faults.corrupted;
            }
        }
    }
    if let Some(FlowState::Aborted(reason)) = rack.flow_state(flow.id) {
        report.aborted = Some(reason.to_string());
        history.borrow_mut().abort();
        if report.crashes == 0 {
            report
                .violations
                .push(format!("broken off without cause: {reason}"));
        }
    }
    let history = history.replace(FlowHistory::new(Shape::Routed, 0, 0));
    report.pushed = history.pushed();
    report.popped = history.popped();
    if let Err(violations) = history.finish() {
        report
            .violations
            .extend(violations.iter().map(ToString::to_string));
    }
}

#[cfg(test)]
mod tests;
