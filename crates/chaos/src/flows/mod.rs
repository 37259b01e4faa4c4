//! The campaign against flows: all shapes, rings of all sizes, all rates of packet faults, members
//! that come and go, cut cables, crashed nodes, restarts of the switch.
//!
//! What must hold (docs/faults.md): no item lost, duplicated, reordered within its ring or
//! changed; replicated items in one order everywhere; the end of stream comes after the last item
//! and only then; a flow is broken off, or a member given up, only for good reason; a change is
//! refused only for good reason; every run comes to its end.
//!
//! [`plan`] makes rack and flows of a seed, [`disturb`] what goes wrong; [`actors`] produce and
//! consume; [`running`] knows what a flow may do, [`change`] what it may refuse.

mod actors;
mod change;
mod disturb;
mod plan;
mod running;

use crate::SeedReport;
use change::Change;
use core::cell::RefCell;
use disturb::Disturbance;
use plan::FlowsPlan;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::testing::Faults;
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::checkers::FlowHistory;
use running::Running;
use std::rc::Rc;

/// Virtual time after which a run that has not ended is taken for stuck. The longest honest runs
/// take tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// After how long a producer that was busy is asked to be removed again.
const AGAIN: Duration = Duration::from_micros(60);

/// Within this time the switch gives up a node that does not answer, and has served the others.
const DETECTION: Duration = Duration::from_millis(30);

/// What all actors of a flow share.
pub(crate) type History = Rc<RefCell<FlowHistory>>;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = FlowsPlan::new(seed);
    let mut report = SeedReport {
        seed,
        plan: plan.to_string(),
        ..SeedReport::default()
    };
    let mut rack = match SimulatedRack::new(&plan.config) {
        Ok(rack) => rack,
        Err(error) => return fail(report, format!("no rack: {error}")),
    };
    let mut flows = Vec::new();
    for flow in &plan.flows {
        match Running::start(&mut rack, flow.clone()) {
            Ok(flow) => flows.push(flow),
            Err(error) => return fail(report, error),
        }
    }
    let mut campaign = Campaign {
        rack,
        flows,
        due: Vec::new(),
        dead: Vec::new(),
        cut_off: Vec::new(),
        report: &mut report,
    };
    for &(time, disturbance) in &plan.disturbances {
        campaign.at(time, disturbance);
    }
    campaign.drive();
    campaign.judge();
    report
}

fn fail(mut report: SeedReport, violation: String) -> SeedReport {
    report.violations.push(violation);
    report
}

/// A run.
struct Campaign<'a> {
    rack: SimulatedRack,
    flows: Vec<Running>,
    /// What will be done, by the token of its control event.
    due: Vec<Disturbance>,
    dead: Vec<NodeId>,
    /// Nodes that may be given up though they are alive.
    cut_off: Vec<NodeId>,
    report: &'a mut SeedReport,
}

impl Campaign<'_> {
    fn at(&mut self, time: Instant, disturbance: Disturbance) {
        self.rack.at(time, self.due.len() as u64);
        self.due.push(disturbance);
    }

    /// Runs to the end, doing what the plan says when it is due.
    fn drive(&mut self) {
        loop {
            let stuck = match self.rack.run(Instant::ZERO + PATIENCE) {
                RunEnd::Done => return self.wait_for_verdicts(),
                RunEnd::Control(token) => {
                    self.disturb(self.due[token as usize]);
                    continue;
                }
                RunEnd::Deadline => format!("not at its end after {PATIENCE}"),
                RunEnd::Stalled => "nothing will ever happen again".into(),
            };
            return self.report.stuck.push(stuck);
        }
    }

    /// All actors are done: those who are dead, too, and the controller may not know yet. Nothing
    /// else goes wrong meanwhile, but cables are mended when the plan says so: behind a cable that
    /// stays cut the controller would rightly give up members that the harness takes for reachable.
    fn wait_for_verdicts(&mut self) {
        let waits = |flow: &Running| flow.loss_pending && flow.runs();
        if !self.flows.iter().any(waits) {
            return;
        }
        let end = self.rack.now() + DETECTION;
        loop {
            match self.rack.run(end) {
                RunEnd::Deadline | RunEnd::Stalled => return,
                RunEnd::Done => {}
                RunEnd::Control(token) => {
                    let due = self.due[token as usize];
                    if matches!(due, Disturbance::MendCable(_)) {
                        self.disturb(due);
                    }
                }
            }
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        let rack = &mut self.rack;
        match disturbance {
            Disturbance::RestartSwitch => {
                self.report.restarts += 1;
                for flow in &mut self.flows {
                    flow.about_to_be_set_up_again();
                }
                if let Err(error) = rack.restart_switch() {
                    let violation = format!("the switch did not restart: {error}");
                    self.report.violations.push(violation);
                }
            }
            Disturbance::CutCable { node, long } => {
                if long {
                    self.cut_off.push(node);
                    for flow in &mut self.flows {
                        flow.about_to_be_cut_off(node);
                    }
                }
                rack.set_link_down(node, true);
            }
            Disturbance::MendCable(node) => rack.set_link_down(node, false),
            Disturbance::Crash { node, told } => {
                self.report.crashes += 1;
                self.dead.push(node);
                for flow in &mut self.flows {
                    flow.about_to_crash(node, told);
                }
                if told {
                    rack.crash_node(node);
                } else {
                    rack.crash_node_silently(node);
                }
            }
            Disturbance::LeaveConsumer { flow, index } => self.flows[flow].about_to_leave(index),
            Disturbance::JoinConsumer { flow, .. }
            | Disturbance::RemoveConsumer { flow, .. }
            | Disturbance::JoinProducer { flow, .. }
            | Disturbance::RemoveProducer { flow, .. }
            | Disturbance::SetWeight { flow, .. } => self.change(flow, disturbance),
        }
    }

    fn change(&mut self, flow: usize, disturbance: Disturbance) {
        let change = self.flows[flow].change(&mut self.rack, disturbance, &self.dead);
        match (change, disturbance) {
            (Change::Done, _) => {
                self.report.changes += 1;
                // Whoever joined there cannot be reached either.
                for &node in &self.cut_off {
                    self.flows[flow].about_to_be_cut_off(node);
                }
            }
            (Change::Refused, _) => {}
            (Change::Wrong(violation), _) => self.report.violations.push(violation),
            (Change::Later, Disturbance::RemoveProducer { flow, index, tries }) if tries > 1 => {
                let tries = tries - 1;
                let again = Disturbance::RemoveProducer { flow, index, tries };
                self.at(self.rack.now() + AGAIN, again);
            }
            (Change::Later, _) => {}
        }
    }

    fn judge(self) {
        let (rack, report) = (self.rack, self.report);
        report.add_rack(&rack);
        for flow in self.flows {
            let (mut history, violations, aborted) = flow.judge();
            if !report.stuck.is_empty() {
                // What has not come yet is not lost.
                history.abort();
            }
            report.pushed += history.pushed();
            report.popped += history.popped();
            report.violations.extend(violations);
            report.aborted = report
                .aborted
                .take()
                .or(aborted.map(|reason| reason.to_string()));
            if let Err(violations) = history.finish() {
                let violations = violations.iter().map(ToString::to_string);
                report.violations.extend(violations);
            }
        }
    }
}

#[cfg(test)]
mod tests;
