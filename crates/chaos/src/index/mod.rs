//! The campaign against the index: hosts and a DPU that have a range of the keys each, clients that
//! get, change and scan by requests and by READs, programs beside the trees; tree nodes so small
//! and heaps so full that places are used again and again; READs whose cache lines come in any
//! order; packet faults, cut cables, clients and endpoints that die and come back, ranges that move
//! meanwhile, and those who move them killed.
//!
//! What must hold (DESIGN, section 10) is judged by `rackweave_sim::checkers::index_history`:
//! operations on a key are linearizable, scans return every key that was present throughout and
//! none twice, every value is one that was written. In the end everything is mended, all clients
//! read everything without an error, and every tree is whole.
//!
//! [`plan`] makes rack and index of a seed, [`disturb`] what goes wrong; [`stage`] builds it;
//! [`endpoint`] serves, [`browser`] uses it from afar and [`local`] from beside, both asking what
//! [`work`] draws; a [`coordinator`] moves ranges; [`shared`] is what they tell each other.

mod browser;
mod connections;
mod coordinator;
mod disturb;
mod endpoint;
mod local;
mod plan;
mod shared;
mod stage;
mod work;

use crate::{IndexAccess, SeedReport};
use browser::Script;
use disturb::Disturbance;
use plan::Plan;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::RunEnd;
use shared::Shared;
use stage::Stage;
use std::rc::Rc;

/// Virtual time after which a stage that has not ended is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the harness looks for clients without a connection.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// The token of such a look; disturbances have their numbers.
const LOOK: u64 = u64::MAX;

/// After this time without users nothing is on its way to an endpoint any more, and everything that
/// could be given up has been.
const SETTLES: Duration = Duration::from_millis(50);

pub(super) fn run(seed: u64, access: Option<IndexAccess>) -> SeedReport {
    let plan = Plan::new(seed, access);
    let mut report = SeedReport {
        seed,
        plan: plan.to_string(),
        ..SeedReport::default()
    };
    let shared = Rc::new(Shared::new(plan.seed, plan.keys, plan.values, plan.habits));
    match Stage::new(&plan, shared.clone()) {
        Ok(stage) => Campaign::new(stage, &mut report).play(),
        Err(error) => report.violations.push(error),
    }
    (report.refused, report.unknown) = (shared.refused.get(), shared.unknown.get());
    report.violations.extend(shared.wrong.take());
    let history = shared.history.take();
    let counts = history.counts();
    (report.reads, report.writes) = (counts.gets, counts.changes);
    report.scans = counts.scans;
    if let Err(violations) = history.finish() {
        let violations = violations.iter().map(ToString::to_string);
        report.violations.extend(violations);
    }
    report
}

/// A run over one rack.
struct Campaign<'a, 'b> {
    stage: Stage<'a>,
    report: &'b mut SeedReport,
}

impl<'a, 'b> Campaign<'a, 'b> {
    fn new(stage: Stage<'a>, report: &'b mut SeedReport) -> Self {
        Self { stage, report }
    }

    fn violate(&mut self, violation: String) {
        self.report.violations.push(violation);
    }

    /// The whole story: work among disturbances, then quiet.
    fn play(mut self) {
        let plan = self.stage.plan;
        for (token, &(time, _)) in plan.disturbances.iter().enumerate() {
            self.stage.rack.at(time, token as u64);
        }
        let operations = plan.habits.operations;
        for &node in &plan.compute {
            self.stage.spawn_clients(node, || Script::Work(operations));
        }
        for at in 0..plan.endpoints.len() {
            self.stage.spawn_locals(at);
        }
        self.stage.rack.at(Instant::ZERO + LOOK_EVERY, LOOK);
        if self.drive("at work") && self.quieten() {
            for &node in &plan.compute {
                self.stage.spawn_clients(node, || Script::ReadAll);
            }
            self.drive("reading everything");
            self.stage.check_trees();
        }
        self.close();
    }

    /// Runs until all are done, doing what the plan says when it is due. False if that never comes.
    fn drive(&mut self, doing: &str) -> bool {
        let end = self.stage.rack.now() + PATIENCE;
        loop {
            let stuck = match self.stage.rack.run(end) {
                RunEnd::Done => return true,
                RunEnd::Control(token) => {
                    self.control(token);
                    continue;
                }
                RunEnd::Deadline => format!("not at its end after {PATIENCE}"),
                RunEnd::Stalled => "nothing will ever happen again".into(),
            };
            self.violate(format!("stuck {doing}: {stuck}"));
            return false;
        }
    }

    fn control(&mut self, token: u64) {
        let done = match self.stage.plan.disturbances.get(token as usize) {
            Some(&(_, disturbance)) => self.disturb(disturbance),
            None => {
                let next = self.stage.rack.now() + LOOK_EVERY;
                self.stage.rack.at(next, LOOK);
                self.stage.connect()
            }
        };
        if let Err(error) = done {
            self.violate(error);
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        let stage = &mut self.stage;
        if stage.shared.quiet.get() {
            return Ok(());
        }
        match disturbance {
            Disturbance::Move(left, place) => stage.move_boundary(left, place),
            Disturbance::KillCoordinator => stage.kill_coordinator(),
            Disturbance::Crash(node) => self.report.crashes += u64::from(stage.crash(node)),
            Disturbance::Return(node) => return self.revive(node),
            Disturbance::StopEndpoint(at, hard) => {
                let stopped = stage.stop(usize::from(at), hard);
                self.report.restarts += u64::from(stopped);
            }
            Disturbance::StartEndpoint(at, keeps) => {
                return self.start_endpoint(usize::from(at), keeps);
            }
            Disturbance::CutCable(node) => stage.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => stage.rack.set_link_down(node, false),
        }
        Ok(())
    }

    fn start_endpoint(&mut self, at: usize, keeps: bool) -> Result<(), String> {
        if !self.stage.is_down(at) {
            return Ok(());
        }
        self.stage.restart(at, keeps)?;
        if !self.stage.shared.quiet.get() {
            self.stage.spawn_locals(at);
        }
        Ok(())
    }

    /// A node with clients comes back and goes on working.
    fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if !self.stage.is_dead(node) {
            return Ok(());
        }
        self.stage.revive(node)?;
        if !self.stage.shared.quiet.get() {
            let operations = self.stage.plan.habits.operations / 2;
            self.stage.spawn_clients(node, || Script::Work(operations));
        }
        Ok(())
    }

    /// Everything is mended, and what could still happen has happened. False if it cannot be.
    fn quieten(&mut self) -> bool {
        let plan = self.stage.plan;
        self.stage.shared.quiet.set(true);
        for node in 0..plan.config.node.len() {
            self.stage.rack.set_link_down(NodeId(node as u16), false);
        }
        let before = self.report.violations.len();
        for at in 0..plan.endpoints.len() {
            if let Err(error) = self.start_endpoint(at, false) {
                self.violate(error);
            }
        }
        for &node in &plan.compute {
            if let Err(error) = self.revive(node) {
                self.violate(error);
            }
        }
        // The last one ends what the former ones have left, and begins nothing.
        self.stage.orders.waiting.borrow_mut().clear();
        self.stage.kill_coordinator();
        let settled = self.stage.rack.now() + SETTLES;
        while let RunEnd::Control(token) = self.stage.rack.run(settled) {
            self.control(token);
        }
        if !self.stage.is_settled() {
            self.violate("the coordinator does not come to rest".into());
        }
        let now = self.stage.rack.now();
        self.stage.shared.settle(now);
        self.report.violations.len() == before
    }

    fn close(self) {
        let (stage, report) = (self.stage, self.report);
        for desk in &stage.desks {
            let seen = desk.client.borrow().reader_statistics();
            report.torn += seen.torn + seen.records_torn;
            report.stale += seen.stale + seen.records_stale;
        }
        report.changes = stage.orders.moved.get();
        report.trace_hash = stage.rack.trace_hash();
        report.events = stage.rack.events();
        report.time = stage.rack.now() - Instant::ZERO;
        for node in 0..stage.plan.config.node.len() {
            if let Some(links) = stage.rack.link_report(NodeId(node as u16)) {
                for faults in [links.to_switch.faults, links.from_switch.faults] {
                    report.packets_disturbed +=
                        faults.lost + faults.duplicated + faults.reordered + faults.corrupted;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
