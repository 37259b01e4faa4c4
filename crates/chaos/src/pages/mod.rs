//! The campaign against the page store: nodes that share pages through the switch's directory and a
//! memory server's, over an NVMe target; packet faults, cut cables, nodes that die and come back, a
//! target that is restarted, a device that is full for a while, entries that move between the two
//! directories.
//!
//! What must hold (DESIGN, section 10) is judged by the histories of pages
//! (`rackweave_sim::checkers::page_history`): one holder at most, no lost update, no torn page,
//! nothing stale; what dies with a node is reported lost and not served in an older version. In the
//! end all nodes read all pages, write everything home, and a new rack over the same medium finds
//! it.
//!
//! [`plan`] makes rack and pages of a seed, [`disturb`] what goes wrong; [`stage`] builds it;
//! [`actors`] use the pages, a [`rogue`] misuses them; [`shared`] is what they tell each other.

mod actors;
mod disturb;
mod plan;
mod rogue;
mod shared;
mod stage;

use crate::SeedReport;
use actors::Script;
use core::cell::{Cell, RefCell};
use disturb::Disturbance;
use plan::Plan;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::checkers::PageHistory;
use rackweave_target::MemoryBackend;
use shared::Shared;
use stage::Stage;
use std::rc::Rc;

/// Virtual time after which a stage that has not ended is taken for stuck. Most honest ones
/// take tens of milliseconds. Where a cable is cut for long, the switch waits 5 s for a target
/// whose queue pair has given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Within this time after a node's death its latches are others'. It includes the time until the
/// controller hears of it, cut cables and restarts of the target.
const RELEASED: Duration = Duration::from_millis(100);

/// How often a loss is accepted that cannot be yet.
const ACCEPT_EVERY: Duration = Duration::from_millis(1);

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = Plan::new(seed);
    let mut report = SeedReport {
        seed,
        plan: plan.to_string(),
        ..SeedReport::default()
    };
    let shared = Rc::new(shared(&plan));
    let size = u64::from(plan.config.switch.page_size / plan.store.block_size);
    let blocks = plan.store.pages * size;
    let blocks = match plan.double_writes() {
        true => blocks + stage::area_blocks(&plan),
        false => blocks,
    };
    let medium = MemoryBackend::new(plan.store.block_size, blocks).with_volatile_cache();
    let mut was_cut = false;
    match Stage::new(&plan, 0, medium.clone(), shared.clone()) {
        Ok(stage) => was_cut = Campaign::new(stage, &mut report).play(),
        Err(error) => report.violations.push(error),
    }
    if report.is_sound() {
        // Of what was flushed nothing is lost, even if the power fails afterwards.
        medium.set_room(None);
        medium.power_cut(&mut Rng::new(seed).fork("power"));
        if was_cut {
            shared.history.borrow_mut().power_cut();
        } else {
            shared.history.borrow_mut().reopen();
        }
        match Stage::new(&plan, 1, medium, shared.clone()) {
            Ok(stage) => Campaign::new(stage, &mut report).reopened(),
            Err(error) => report.violations.push(error),
        }
    }
    report.losses = shared.lost.get();
    let empty = PageHistory::new(RELEASED);
    let history = shared.history.replace(empty);
    (report.reads, report.writes) = history.counts();
    report.violations.extend(shared.wrong.take());
    if let Err(violations) = history.finish() {
        let violations = violations.iter().map(ToString::to_string);
        report.violations.extend(violations);
    }
    report
}

fn shared(plan: &Plan) -> Shared {
    let shared = Shared {
        seed: plan.seed,
        habits: plan.habits,
        pages: plan.store.pages,
        history: RefCell::new(PageHistory::new(RELEASED)),
        wrong: RefCell::default(),
        full: Cell::new(0),
        lost: Cell::new(0),
    };
    for index in 0..shared.pages {
        let page = shared.page(index).number();
        shared.history.borrow_mut().create(page);
    }
    shared
}

/// A run over one rack.
struct Campaign<'a, 'b> {
    stage: Stage<'a>,
    /// Nodes that are dead without the controller knowing.
    untold: Vec<NodeId>,
    target_stopped: bool,
    /// The power has failed.
    is_cut: bool,
    /// Nothing is to go wrong any more.
    quiet: bool,
    report: &'b mut SeedReport,
}

impl<'a, 'b> Campaign<'a, 'b> {
    fn new(stage: Stage<'a>, report: &'b mut SeedReport) -> Self {
        Self {
            stage,
            untold: Vec::new(),
            target_stopped: false,
            is_cut: false,
            quiet: false,
            report,
        }
    }

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.stage.rack
    }

    fn nodes(&self) -> usize {
        self.stage.plan.nodes.len()
    }

    fn violate(&mut self, violation: String) {
        self.report.violations.push(violation);
    }

    /// The whole story: work among disturbances, then quiet. True if the power failed before.
    fn play(mut self) -> bool {
        let plan = self.stage.plan;
        for (token, &(time, _)) in plan.disturbances.iter().enumerate() {
            self.rack().at(time, token as u64);
        }
        for at in 0..self.nodes() {
            let fixes = plan.habits.fixes;
            self.stage.spawn(at, true, || Script::Work(fixes));
        }
        self.stage.spawn_rogue();
        if self.drive("at work") {
            self.quieten();
            self.read_all();
            self.flush_all();
        }
        let is_cut = self.is_cut;
        self.close();
        is_cut
    }

    /// What was written home is there.
    fn reopened(mut self) {
        self.read_all();
        self.close();
    }

    /// Runs until all are done, doing what the plan says when it is due. False if that never comes.
    fn drive(&mut self, doing: &str) -> bool {
        let end = self.rack().now() + PATIENCE;
        loop {
            let stuck = match self.rack().run(end) {
                RunEnd::Done => return true,
                RunEnd::Control(token) => {
                    self.disturb(self.stage.plan.disturbances[token as usize].1);
                    if self.is_cut {
                        return false;
                    }
                    continue;
                }
                RunEnd::Deadline => format!("not at its end after {PATIENCE}"),
                RunEnd::Stalled => "nothing will ever happen again".into(),
            };
            self.report.stuck.push(format!("{doing}: {stuck}"));
            return false;
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        if self.quiet {
            return;
        }
        let stage = &mut self.stage;
        let done = match disturbance {
            Disturbance::Crash(node) => {
                let at = usize::from(node.0);
                if stage.is_alive(at) {
                    stage.crash(at);
                    self.untold.push(node);
                    self.report.crashes += 1;
                }
                Ok(())
            }
            Disturbance::Tell(node) => {
                if self.untold.contains(&node) {
                    self.untold.retain(|&other| other != node);
                    stage.tell(node);
                }
                Ok(())
            }
            Disturbance::Return(node) => self.revive(usize::from(node.0)),
            Disturbance::Accept => {
                stage.accept();
                Ok(())
            }
            Disturbance::Presume(node) => {
                let at = usize::from(node.0);
                if stage.is_alive(at) {
                    stage.presume(at);
                    self.report.crashes += 1;
                }
                Ok(())
            }
            Disturbance::RestartSwitch => {
                self.report.switch_restarts += 1;
                stage.restart_switch(!self.untold.is_empty())
            }
            Disturbance::CrashServer(server) => {
                self.report.crashes += 1;
                stage.crash_server(server, !self.untold.is_empty());
                Ok(())
            }
            Disturbance::CutPower => {
                self.report.crashes += 1;
                self.is_cut = true;
                Ok(())
            }
            Disturbance::CutCable(node) => {
                stage.rack.set_link_down(node, true);
                Ok(())
            }
            Disturbance::MendCable(node) => {
                stage.rack.set_link_down(node, false);
                Ok(())
            }
            Disturbance::StopTarget => {
                self.target_stopped = true;
                self.report.restarts += 1;
                stage.rack.remove_target(stage.plan.store.target);
                Ok(())
            }
            Disturbance::StartTarget => self.start_target(),
            Disturbance::Fill(room) => {
                stage.fill(Some(room));
                Ok(())
            }
            Disturbance::Free => {
                stage.fill(None);
                Ok(())
            }
            Disturbance::Promote(index) => {
                let page = stage.shared.page(index);
                self.report.changes += u64::from(stage.rack.promote(page));
                Ok(())
            }
            Disturbance::Demote(index) => {
                let page = stage.shared.page(index);
                self.report.changes += u64::from(stage.rack.demote(page));
                Ok(())
            }
        };
        if let Err(error) = done {
            self.violate(error);
        }
    }

    fn start_target(&mut self) -> Result<(), String> {
        if !core::mem::take(&mut self.target_stopped) {
            return Ok(());
        }
        self.stage.start_target()
    }

    /// A node that is dead, and known to be, comes back and goes on working.
    fn revive(&mut self, at: usize) -> Result<(), String> {
        let stage = &mut self.stage;
        let node = stage.plan.nodes[at].node;
        if stage.is_alive(at) || self.untold.contains(&node) {
            return Ok(());
        }
        stage.revive(at)?;
        let fixes = stage.plan.habits.fixes / 2;
        stage.spawn(at, true, || Script::Work(fixes));
        Ok(())
    }

    /// Everything is mended, everybody is told, losses are accepted.
    fn quieten(&mut self) {
        self.quiet = true;
        for node in 0..self.stage.plan.config.node.len() {
            self.rack().set_link_down(NodeId(node as u16), false);
        }
        self.stage.fill(None);
        if let Err(error) = self.start_target() {
            self.violate(error);
        }
        for node in core::mem::take(&mut self.untold) {
            self.stage.tell(node);
        }
        if (0..self.nodes()).all(|at| !self.stage.is_alive(at)) {
            match self.revive(0) {
                Ok(()) => _ = self.drive("after all had died"),
                Err(error) => self.violate(error),
            }
        }
        self.accept_losses();
        // Everybody is idle: what was given back has been taken.
        for at in 0..self.nodes() {
            let number = self.stage.number(at);
            if self.stage.is_alive(at) {
                self.stage.shared.history.borrow_mut().confirmed(number);
            }
        }
    }

    /// Accepts all losses, as often as it takes: not while a target works on what a dead node had
    /// it write.
    fn accept_losses(&mut self) {
        let end = self.rack().now() + PATIENCE;
        loop {
            self.stage.accept();
            let Some(lost) = self.rack().lost_pages().first().copied() else {
                return;
            };
            if self.rack().now() >= end || !self.pause(ACCEPT_EVERY) {
                return self.violate(format!("the loss of {} cannot be accepted", lost.page));
            }
        }
    }

    /// Lets time go by. False if nothing will ever happen again.
    fn pause(&mut self, time: Duration) -> bool {
        let until = self.rack().now() + time;
        loop {
            match self.rack().run(until) {
                // Nothing goes wrong any more.
                RunEnd::Done | RunEnd::Control(_) => {}
                RunEnd::Deadline => return true,
                RunEnd::Stalled => return false,
            }
        }
    }

    /// All nodes read all pages.
    fn read_all(&mut self) {
        for at in 0..self.nodes() {
            self.stage.spawn(at, false, || Script::ReadAll);
        }
        self.drive("reading everything");
    }

    fn flush_all(&mut self) {
        for at in 0..self.nodes() {
            self.stage.spawn(at, false, || Script::Flush);
        }
        self.drive("writing everything home");
    }

    fn close(self) {
        let (rack, report) = (self.stage.rack, self.report);
        report.trace_hash = report.trace_hash.rotate_left(17) ^ rack.trace_hash();
        report.events += rack.events();
        report.time += rack.now() - Instant::ZERO;
        for node in 0..self.stage.plan.config.node.len() {
            if let Some(links) = rack.link_report(NodeId(node as u16)) {
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
