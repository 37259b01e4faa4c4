//! The campaign against sequencers of all kinds: a word in a node's memory, a counter in a server,
//! a register of the switch, each with several clients. Packets suffer faults, cables are cut,
//! clients crash, a memory node and a server crash and return with empty memory, the switch
//! restarts.
//!
//! The history of calls (`rackweave_sim::checkers::sequence`) judges the invariants
//! (docs/faults.md): no number twice, ranges of the right length in real-time order, and no
//! unexplained gap. At the end everything is repaired, and every sequencer must return numbers
//! again.
//!
//! [`plan`] draws the rack, sequencers, clients and faults of a seed; [`harness`] builds it and
//! makes connections; [`actors`] are the clients.

mod actors;
mod harness;
mod plan;

use crate::SeedReport;
use crate::campaign::{self, Campaign, Findings};
use actors::Shared;
use core::cell::{Cell, RefCell};
use harness::Harness;
use plan::{Disturbance, SequencerPlan};
use rackweave_base::{Duration, NodeId};
use rackweave_rack::SimulatedRack;
use rackweave_rack::testing::Faults;
use rackweave_sim::checkers::SequenceHistory;
use std::rc::Rc;

/// Interval at which awaited connections are made.
const ATTENTION: Duration = Duration::from_micros(20);

/// The control token of this event.
const ATTEND: u64 = u64::MAX;

/// Calls of each client after the repair.
const LAST_CALLS: u32 = 8;

/// How many failed calls each client repeats then: a broken connection may be detected only when it
/// is used, and then all pending calls fail.
const AGAIN: u32 = 200;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = SequencerPlan::new(seed);
    let mut report = SeedReport::of(seed, &plan);
    let shared = Rc::new(Shared {
        seed,
        habits: plan.habits,
        history: RefCell::new(SequenceHistory::new()),
        wrong: Findings::default(),
        failed: Cell::new(0),
        may_break: plan.may_break(),
        loses: plan.config.faults.loss > 0.0 || plan.config.faults.corrupt > 0.0,
    });
    match Harness::new(&plan, shared.clone(), &mut report) {
        Ok(harness) => harness.play(),
        Err(error) => report.violations.push(error),
    }
    report.calls_failed = shared.failed.get();
    report.violations.extend(shared.wrong.take());
    if let Some(summary) = report.judge(shared.history.take().finish()) {
        (report.ranges, report.numbers) = (summary.ranges, summary.numbers);
    }
    report
}

impl Campaign for Harness<'_> {
    /// The longest legitimate runs take tens of milliseconds.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn is_broken_off(&self) -> bool {
        !self.report.violations.is_empty()
    }

    fn control(&mut self, token: u64) -> bool {
        if token == ATTEND {
            self.attend();
        } else {
            let (_, disturbance) = self.plan.disturbances[token as usize];
            let done = self.disturb(disturbance);
            self.check(done);
        }
        false
    }
}

impl Harness<'_> {
    /// The whole run: work during disturbances, then a quiet phase.
    fn play(mut self) {
        let plan = self.plan;
        campaign::schedule(&mut self.rack, &plan.disturbances);
        for node in self.client_nodes() {
            self.spawn(node, plan.habits.calls, 0);
        }
        self.attend();
        if self.drive("at work: ") {
            self.quieten();
        }
        self.report.add_rack(&self.rack);
    }

    /// Makes connections, now and periodically.
    fn attend(&mut self) {
        let connected = self.connect_waiting();
        self.check(connected);
        let next = self.rack.now() + ATTENTION;
        self.rack.at(next, ATTEND);
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        if self.quiet {
            return Ok(());
        }
        match disturbance {
            Disturbance::Crash(node) if self.dead.contains(&node) => {}
            Disturbance::Crash(node) => {
                self.crash(node);
                self.report.crashes += 1;
            }
            Disturbance::Tell(node) => self.tell(node),
            Disturbance::Return(node) => return self.go_on(node, self.plan.habits.calls / 2),
            Disturbance::CutCable(node) => self.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::RestartSwitch => {
                self.report.restarts += 1;
                return self.restart_switch();
            }
        }
        Ok(())
    }

    fn tell(&mut self, node: NodeId) {
        if self.unreported.contains(&node) {
            self.unreported.retain(|&other| other != node);
            self.rack.crash_node(node);
        }
    }

    /// A node that has crashed, as the controller knows, returns; its clients resume work.
    fn go_on(&mut self, node: NodeId, calls: u32) -> Result<(), String> {
        if !self.dead.contains(&node) || self.unreported.contains(&node) {
            return Ok(());
        }
        self.dead.retain(|&other| other != node);
        self.revive(node)?;
        self.spawn(node, calls, 0);
        Ok(())
    }

    /// Repairs everything, restores all nodes, and checks that every client gets numbers.
    fn quieten(&mut self) {
        self.quiet = true;
        self.mend_cables();
        for node in self.dead.clone() {
            self.tell(node);
            self.dead.retain(|&other| other != node);
            let revived = self.revive(node);
            self.check(revived);
        }
        for session in &self.sessions {
            session.ranges.set(0);
        }
        for node in self.client_nodes() {
            self.spawn(node, LAST_CALLS, AGAIN);
        }
        if !self.drive("asking once more: ") {
            return;
        }
        let mut sessions = self.sessions.iter();
        if let Some(session) = sessions.find(|session| session.ranges.get() == 0) {
            let (who, kind) = (session.number, session.client.kind);
            let wrong = format!("client {who} got nothing of {kind:?} in the end");
            self.report.violations.push(wrong);
        }
    }
}

#[cfg(test)]
mod tests;
