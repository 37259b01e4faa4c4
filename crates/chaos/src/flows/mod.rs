//! The campaign against flows: all shapes, rings of all sizes, all rates of packet faults, members
//! that join and leave, cut cables, crashed nodes, restarts of the switch.
//!
//! Invariants (docs/faults.md): no item is lost, duplicated, reordered within its ring or changed;
//! replicated items arrive in one order everywhere; the end of stream comes after the last item and
//! only then; a flow is aborted, or a member given up, only for a valid reason; a change is refused
//! only for a valid reason; every run finishes.
//!
//! [`plan`] draws the rack and flows of a seed, [`disturb`] its faults; [`actors`] produce and
//! consume; [`running`] knows what a flow may do, [`change`] what it may refuse.

mod actors;
mod change;
mod disturb;
mod member;
mod plan;
mod running;

use crate::SeedReport;
use crate::campaign::{self, Campaign};
use change::Change;
use core::cell::RefCell;
use disturb::Disturbance;
use plan::FlowsPlan;
use rackweave_base::{Duration, NodeId};
use rackweave_rack::testing::Faults;
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::checkers::FlowHistory;
use running::Running;
use std::rc::Rc;

/// Delay before the removal of a busy producer is requested again.
const AGAIN: Duration = Duration::from_micros(60);

/// Time within which the switch gives up a node that does not answer, and has served the others.
const DETECTION: Duration = Duration::from_millis(30);

/// The history that all actors of a flow share.
pub(crate) type History = Rc<RefCell<FlowHistory>>;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = FlowsPlan::new(seed);
    let mut report = SeedReport::of(seed, &plan);
    match FlowsCampaign::new(&plan, &mut report) {
        Ok(mut campaign) => {
            if campaign.drive("") {
                campaign.wait_for_verdicts();
            }
            campaign.judge();
        }
        Err(error) => report.violations.push(error),
    }
    report
}

/// A run of the campaign.
struct FlowsCampaign<'a> {
    rack: SimulatedRack,
    flows: Vec<Running>,
    /// Scheduled disturbances, by the token of their control event.
    due: Vec<Disturbance>,
    dead: Vec<NodeId>,
    /// Nodes that may be given up although they are alive.
    cut_off: Vec<NodeId>,
    report: &'a mut SeedReport,
}

impl Campaign for FlowsCampaign<'_> {
    /// The longest legitimate runs take tens of milliseconds.
    const PATIENCE: Duration = Duration::from_secs(5);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn control(&mut self, token: u64) -> bool {
        self.disturb(self.due[token as usize]);
        false
    }

    fn open(&self) -> String {
        let flows = self.flows.iter().enumerate();
        let running = flows.filter(|(_, flow)| flow.runs());
        let open = running.map(|(at, flow)| format!("; flow {at}: {}", flow.open()));
        open.collect()
    }
}

impl<'a> FlowsCampaign<'a> {
    fn new(plan: &FlowsPlan, report: &'a mut SeedReport) -> Result<Self, String> {
        let mut rack = campaign::rack_of(&plan.config)?;
        let mut flows = Vec::new();
        for flow in &plan.flows {
            flows.push(Running::start(&mut rack, flow.clone())?);
        }
        campaign::schedule(&mut rack, &plan.disturbances);
        Ok(Self {
            rack,
            flows,
            due: plan.disturbances.iter().map(|&(_, it)| it).collect(),
            dead: Vec::new(),
            cut_off: Vec::new(),
            report,
        })
    }

    /// Called when all actors are done. Some may have crashed without the controller knowing yet.
    /// No further fault occurs meanwhile, but cables are restored when the plan says so: with a
    /// cable that stays cut, the controller would rightly give up members that the harness
    /// considers reachable.
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
        match disturbance {
            Disturbance::RestartSwitch => {
                self.report.restarts += 1;
                for flow in &mut self.flows {
                    flow.about_to_be_set_up_again();
                    flow.excuse_unconnected();
                }
                self.check(campaign::restart_switch(&self.rack));
            }
            Disturbance::CutCable { node, long } => {
                if long {
                    self.cut_off.push(node);
                    for flow in &mut self.flows {
                        flow.about_to_be_cut_off(node);
                    }
                }
                self.rack.set_link_down(node, true);
            }
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::Crash { node, is_reported } => {
                self.report.crashes += 1;
                self.dead.push(node);
                for flow in &mut self.flows {
                    flow.about_to_crash(node, is_reported);
                }
                match is_reported {
                    true => self.rack.crash_node(node),
                    false => self.rack.crash_node_silently(node),
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
                // Members that joined on this node are unreachable as well.
                for &node in &self.cut_off {
                    self.flows[flow].about_to_be_cut_off(node);
                }
            }
            (Change::Refused, _) => {}
            (Change::Wrong(violation), _) => self.report.violations.push(violation),
            (Change::Later, Disturbance::RemoveProducer { flow, index, tries }) if tries > 1 => {
                let tries = tries - 1;
                let at = self.rack.now() + AGAIN;
                self.rack.at(at, self.due.len() as u64);
                self.due
                    .push(Disturbance::RemoveProducer { flow, index, tries });
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
                // Items that have not arrived yet are not lost.
                history.abort();
            }
            report.pushed += history.pushed();
            report.popped += history.popped();
            report.violations.extend(violations);
            report.aborted = report
                .aborted
                .take()
                .or(aborted.map(|reason| reason.to_string()));
            report.judge(history.finish());
        }
    }
}

#[cfg(test)]
mod tests;
