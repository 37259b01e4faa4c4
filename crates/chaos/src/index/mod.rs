//! The campaign against the index: hosts and a DPU that have a range of the keys each, clients that
//! get, change and scan by requests and by READs, programs beside the trees; tree nodes so small
//! and heaps so full that places are used again and again; READs whose cache lines come in any
//! order; packet faults, cut cables, clients and endpoints that die and come back, ranges that move
//! meanwhile, and those who move them killed.
//!
//! What must hold (docs/faults.md) is judged by `rackweave_sim::checkers::index_history`:
//! operations on a key are linearizable, scans return every key that was present throughout and
//! none twice, every value is one that was written. In the end everything is mended, all clients
//! read everything without an error, and every tree is whole.
//!
//! [`plan`] makes rack and index of a seed, [`disturb`] what goes wrong; [`harness`] builds it;
//! [`endpoint`] serves, [`browser`] uses it from afar and [`local`] from beside, both asking what
//! [`work`] draws; a [`coordinator`] moves ranges; [`shared`] is what they tell each other.
//!
//! In some runs, or in all if that is settled, the index is in the network, too ([`switches`]):
//! switches with tiny tables are given one plan of it after the other while queries pass, and
//! restart. Where no range moves and no endpoint stops, they may never lead anybody astray, nor
//! after everything was mended ([`network`]).

mod browser;
mod connections;
mod coordinator;
mod disturb;
mod endpoint;
mod harness;
mod local;
mod network;
mod plan;
mod shared;
mod switches;
mod work;

use crate::campaign::{self, Campaign};
use crate::{IndexAccess, SeedReport};
use browser::Script;
use disturb::Disturbance;
use harness::Harness;
use plan::IndexPlan;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::{RunEnd, SimulatedRack};
use shared::Shared;
use std::rc::Rc;

/// How often the harness looks for clients without a connection.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// The token of such a look; disturbances have their numbers.
const LOOK: u64 = u64::MAX;

/// That of a step of whoever loads the switches.
const GUIDE: u64 = u64::MAX - 1;

/// After this time without users nothing is on its way to an endpoint any more, and everything that
/// could be given up has been.
const SETTLES: Duration = Duration::from_millis(50);

pub(super) fn run(seed: u64, access: Option<IndexAccess>) -> SeedReport {
    let plan = IndexPlan::new(seed, access);
    let mut report = SeedReport::of(seed, &plan);
    let shared = Rc::new(Shared::new(plan.seed, plan.keys, plan.values, plan.habits));
    match Harness::new(&plan, shared.clone()) {
        Ok(harness) => {
            let report = &mut report;
            IndexCampaign { harness, report }.play();
        }
        Err(error) => report.violations.push(error),
    }
    (report.refused, report.unknown) = (shared.refused.get(), shared.unknown.get());
    report.violations.extend(shared.wrong.take());
    let history = shared.history.take();
    let counts = history.counts();
    (report.reads, report.writes) = (counts.gets, counts.changes);
    report.scans = counts.scans;
    report.judge(history.finish());
    report
}

/// A run over one rack.
struct IndexCampaign<'a, 'b> {
    harness: Harness<'a>,
    report: &'b mut SeedReport,
}

impl Campaign for IndexCampaign<'_, '_> {
    /// Reading a thousand keys one by one through switches that lose packets can take more than a
    /// second.
    const PATIENCE: Duration = Duration::from_secs(5);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.harness.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn control(&mut self, token: u64) -> bool {
        let plan = self.harness.plan;
        let done = match plan.disturbances.get(token as usize) {
            Some(&(_, disturbance)) => self.disturb(disturbance),
            None if token == GUIDE => {
                let period = plan
                    .network
                    .map_or(Self::PATIENCE, |network| network.period);
                let next = self.harness.rack.now() + period;
                self.harness.rack.at(next, GUIDE);
                self.harness.guide_on()
            }
            None => {
                let next = self.harness.rack.now() + LOOK_EVERY;
                self.harness.rack.at(next, LOOK);
                self.harness.connect()
            }
        };
        self.check(done);
        false
    }
}

impl IndexCampaign<'_, '_> {
    /// The whole story: work among disturbances, then quiet.
    fn play(mut self) {
        let plan = self.harness.plan;
        campaign::schedule(self.rack(), &plan.disturbances);
        let operations = plan.habits.operations;
        for &node in &plan.compute {
            self.harness
                .spawn_clients(node, || Script::Work(operations));
        }
        for at in 0..plan.endpoints.len() {
            self.harness.spawn_locals(at);
        }
        self.harness.rack.at(Instant::ZERO + LOOK_EVERY, LOOK);
        if plan.network.is_some() {
            self.harness.rack.at(Instant::ZERO, GUIDE);
        }
        if self.drive("at work: ") && self.quieten() && self.load_what_is() {
            let before = self.harness.seen();
            for &node in &plan.compute {
                self.harness.spawn_clients(node, || Script::ReadAll);
            }
            if self.drive("reading everything: ") {
                self.harness.check_led(&before);
            }
            self.harness.check_trees();
        }
        self.close();
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        let harness = &mut self.harness;
        if harness.shared.quiet.get() {
            return Ok(());
        }
        match disturbance {
            Disturbance::Move(left, place) => harness.move_boundary(left, place),
            Disturbance::KillCoordinator => harness.kill_coordinator(),
            Disturbance::Crash(node) => self.report.crashes += u64::from(harness.crash(node)),
            Disturbance::Return(node) => return self.revive(node),
            Disturbance::StopEndpoint(at, hard) => {
                let stopped = harness.stop(usize::from(at), hard);
                self.report.restarts += u64::from(stopped);
            }
            Disturbance::StartEndpoint(at, keeps) => {
                return self.start_endpoint(usize::from(at), keeps);
            }
            Disturbance::CutCable(node) => harness.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => harness.rack.set_link_down(node, false),
            Disturbance::RestartSwitch(at) => return harness.restart_switch(at.into()),
            Disturbance::CutTrunk(cable) => _ = harness.rack.set_cable_down(cable.into(), true),
            Disturbance::MendTrunk(cable) => _ = harness.rack.set_cable_down(cable.into(), false),
        }
        Ok(())
    }

    fn start_endpoint(&mut self, at: usize, keeps: bool) -> Result<(), String> {
        if !self.harness.is_down(at) {
            return Ok(());
        }
        self.harness.restart(at, keeps)?;
        if !self.harness.shared.quiet.get() {
            self.harness.spawn_locals(at);
        }
        Ok(())
    }

    /// A node with clients comes back and goes on working.
    fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if !self.harness.is_dead(node) {
            return Ok(());
        }
        self.harness.revive(node)?;
        if !self.harness.shared.quiet.get() {
            let operations = self.harness.plan.habits.operations / 2;
            self.harness
                .spawn_clients(node, || Script::Work(operations));
        }
        Ok(())
    }

    /// Everything is mended, and what could still happen has happened. False if it cannot be.
    fn quieten(&mut self) -> bool {
        let plan = self.harness.plan;
        self.harness.shared.quiet.set(true);
        self.mend_cables();
        for cable in 0..self.harness.rack.topology().cables().count() {
            self.harness.rack.set_cable_down(cable, false);
        }
        let before = self.report.violations.len();
        for at in 0..plan.endpoints.len() {
            let started = self.start_endpoint(at, false);
            self.check(started);
        }
        for &node in &plan.compute {
            let revived = self.revive(node);
            self.check(revived);
        }
        // The last one ends what the former ones have left, and begins nothing.
        self.harness.orders.waiting.borrow_mut().clear();
        self.harness.kill_coordinator();
        let settled = self.harness.rack.now() + SETTLES;
        while let RunEnd::Control(token) = self.harness.rack.run(settled) {
            self.control(token);
        }
        let is_settled = self.harness.is_settled();
        if !is_settled {
            let stuck = format!("the coordinator does not come to rest within {SETTLES}");
            self.report.stuck.push(stuck);
        }
        let now = self.harness.rack.now();
        self.harness.shared.settle(now);
        is_settled && self.report.violations.len() == before
    }

    /// The switches get what the trees are now, and all who ask them can. False if that fails.
    fn load_what_is(&mut self) -> bool {
        if self.harness.guide.is_none() {
            return true;
        }
        self.harness.want_load();
        let end = self.harness.rack.now() + Self::PATIENCE;
        while !self.harness.is_loaded() {
            match self.harness.rack.run(end) {
                RunEnd::Control(token) => _ = self.control(token),
                RunEnd::Done => {}
                RunEnd::Deadline | RunEnd::Stalled => {
                    let stuck = format!("the switches are not loaded after {}", Self::PATIENCE);
                    self.report.stuck.push(stuck);
                    return false;
                }
            }
        }
        let renewed = self.harness.renew_ways();
        let is_renewed = renewed.is_ok();
        self.check(renewed);
        is_renewed
    }

    fn close(self) {
        let (mut harness, report) = (self.harness, self.report);
        let guided = harness.judge_network();
        (report.loads, report.switch_restarts) = (guided.loads, guided.switch_restarts);
        for slot in &harness.slots {
            let seen = slot.client.borrow().reader_statistics();
            report.torn += seen.torn + seen.records_torn;
            report.stale += seen.stale + seen.records_stale;
            report.queries += seen.network_queries;
            report.followed += seen.network_followed;
            report.astray += seen.network_astray;
            for (sum, more) in report.led.iter_mut().zip(seen.network_levels) {
                *sum += more;
            }
        }
        report.changes = harness.orders.moved.get();
        report.add_rack(&harness.rack);
    }
}

#[cfg(test)]
mod tests;
