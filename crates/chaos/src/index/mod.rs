//! The campaign against the index. Hosts and a DPU own a key range each. Clients get, change and
//! scan by requests and by READs, and programs run beside the trees. Tree nodes are so small and
//! heaps so full that memory is reused again and again. READs return their cache lines in any
//! order. Packets suffer faults, cables are cut, clients and endpoints crash and return, ranges
//! move meanwhile, and the coordinators that move them are killed.
//!
//! `rackweave_sim::checkers::index_history` judges the invariants (docs/faults.md): operations on a
//! key are linearizable, scans return every key that was present throughout and none twice, every
//! value is one that was written. At the end everything is repaired, all clients read all keys
//! without an error, and every tree is intact.
//!
//! [`plan`] draws the rack and index of a seed, [`disturb`] its faults; [`harness`] builds it;
//! [`endpoint`] serves it, [`browser`] uses it remotely and [`local`] on the same node, both with
//! operations that [`work`] draws; a [`coordinator`] moves ranges; [`shared`] is their common
//! state.
//!
//! In some runs, or in all if the options say so, the index is in the network as well
//! ([`switches`]): switches with tiny tables load one plan of it after the other while queries
//! pass, and restart. As long as no range moves and no endpoint stops, and after everything is
//! repaired, they must never lead a query astray ([`network`]).

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
use browser::Todo;
use disturb::Disturbance;
use harness::Harness;
use plan::IndexPlan;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::{RunEnd, SimulatedRack};
use shared::Shared;
use std::rc::Rc;

/// Interval at which the harness looks for clients without a connection.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// The token of this periodic look; disturbances use their indexes.
const LOOK: u64 = u64::MAX;

/// The token of a step of the guide, which loads the switches.
const GUIDE: u64 = u64::MAX - 1;

/// After this time without users no packet is in flight to an endpoint, and everything that could
/// be given up has been.
const SETTLES: Duration = Duration::from_millis(50);

pub(super) fn run(seed: u64, access: Option<IndexAccess>) -> SeedReport {
    let plan = IndexPlan::new(seed, access);
    let mut report = SeedReport::of(seed, &plan);
    let shared = Rc::new(Shared::new(plan.seed, plan.keys, plan.values, plan.habits));
    match Harness::new(&plan, shared.clone(), &mut report) {
        Ok(harness) => harness.play(),
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

impl Campaign for Harness<'_> {
    /// Reading a thousand keys one by one through switches that lose packets can take more than a
    /// second.
    const PATIENCE: Duration = Duration::from_secs(5);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn control(&mut self, token: u64) -> bool {
        let plan = self.plan;
        let done = match plan.disturbances.get(token as usize) {
            Some(&(_, disturbance)) => self.disturb(disturbance),
            None if token == GUIDE => {
                let period = plan
                    .network
                    .map_or(Self::PATIENCE, |network| network.period);
                let next = self.rack.now() + period;
                self.rack.at(next, GUIDE);
                self.guide_on()
            }
            None => {
                let next = self.rack.now() + LOOK_EVERY;
                self.rack.at(next, LOOK);
                self.keep_replicas().and_then(|()| self.connect())
            }
        };
        self.check(done);
        false
    }
}

impl Harness<'_> {
    /// The whole run: work during disturbances, then a quiet phase.
    fn play(mut self) {
        let plan = self.plan;
        campaign::schedule(&mut self.rack, &plan.disturbances);
        let operations = plan.habits.operations;
        for &node in &plan.compute {
            self.spawn_clients(node, || Todo::Random(operations));
        }
        for at in 0..plan.endpoints.len() {
            self.spawn_locals(at);
        }
        self.rack.at(Instant::ZERO + LOOK_EVERY, LOOK);
        if plan.network.is_some() {
            self.rack.at(Instant::ZERO, GUIDE);
        }
        if self.drive("at work: ") && self.quieten() && self.replace() && self.load_what_is() {
            let before = self.seen();
            for &node in &plan.compute {
                let shared = self.shared.clone();
                self.spawn_clients(node, || Todo::read_all(&shared));
            }
            if self.drive("reading everything: ") {
                self.check_led(&before);
            }
            self.check_trees();
        }
        self.close();
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        if self.shared.quiet.get() {
            return Ok(());
        }
        match disturbance {
            Disturbance::Move(left, place) => self.move_boundary(left, place),
            Disturbance::KillCoordinator => self.kill_coordinator(),
            Disturbance::Crash(node) => self.report.crashes += u64::from(self.crash(node)),
            Disturbance::Return(node) => return self.go_on(node),
            Disturbance::StopEndpoint(at, hard) => {
                let stopped = self.stop(usize::from(at), hard);
                self.report.restarts += u64::from(stopped);
            }
            Disturbance::StartEndpoint(at, keeps) => return self.restart(at.into(), keeps),
            Disturbance::CutCable(node) => self.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::RestartSwitch(at) => return self.restart_switch(at.into()),
            Disturbance::CutTrunk(cable) => _ = self.rack.set_cable_down(cable.into(), true),
            Disturbance::MendTrunk(cable) => _ = self.rack.set_cable_down(cable.into(), false),
        }
        Ok(())
    }

    /// A node with clients returns and resumes work.
    fn go_on(&mut self, node: NodeId) -> Result<(), String> {
        if !self.is_dead(node) {
            return Ok(());
        }
        self.revive(node)?;
        if !self.shared.quiet.get() {
            let operations = self.plan.habits.operations / 2;
            self.spawn_clients(node, || Todo::Random(operations));
        }
        Ok(())
    }

    /// Repairs everything and waits for all pending effects. False if that fails.
    fn quieten(&mut self) -> bool {
        let plan = self.plan;
        self.shared.quiet.set(true);
        self.mend_cables();
        for cable in 0..self.rack.topology().cables().count() {
            self.rack.set_cable_down(cable, false);
        }
        let before = self.report.violations.len();
        for at in 0..plan.endpoints.len() {
            let started = self.restart(at, false);
            self.check(started);
        }
        for &node in &plan.compute {
            let revived = self.go_on(node);
            self.check(revived);
        }
        // The last coordinator finishes the moves that earlier ones left, and starts none.
        self.orders.waiting.borrow_mut().clear();
        self.kill_coordinator();
        let settled = self.rack.now() + SETTLES;
        while let RunEnd::Control(token) = self.rack.run(settled) {
            self.control(token);
        }
        let is_settled = self.is_settled();
        if !is_settled {
            let stuck = format!("the coordinator does not come to rest within {SETTLES}");
            self.report.stuck.push(stuck);
        }
        let now = self.rack.now();
        self.shared.settle(now);
        is_settled && self.report.violations.len() == before
    }

    /// Waits until all values have two copies, and goes on with the second ones. False if that
    /// fails.
    fn replace(&mut self) -> bool {
        if !self.plan.replicas {
            return true;
        }
        let end = self.rack.now() + Self::PATIENCE;
        while !self.is_replicated() {
            match self.rack.run(end) {
                RunEnd::Control(token) => _ = self.control(token),
                RunEnd::Done => {}
                RunEnd::Deadline | RunEnd::Stalled => {
                    let replicas = self.index.replicas();
                    let stuck = format!("no replicas after {}: {replicas:?}", Self::PATIENCE);
                    self.report.stuck.push(stuck);
                    return false;
                }
            }
        }
        let replaced = self.replace_all();
        let is_replaced = replaced.is_ok();
        self.check(replaced);
        is_replaced
    }

    /// Loads the current trees into the switches, and reconnects all clients that query them. False
    /// if that fails.
    fn load_what_is(&mut self) -> bool {
        if self.guide.is_none() {
            return true;
        }
        self.want_load();
        let end = self.rack.now() + Self::PATIENCE;
        while !self.is_loaded() {
            match self.rack.run(end) {
                RunEnd::Control(token) => _ = self.control(token),
                RunEnd::Done => {}
                RunEnd::Deadline | RunEnd::Stalled => {
                    let stuck = format!("the switches are not loaded after {}", Self::PATIENCE);
                    self.report.stuck.push(stuck);
                    return false;
                }
            }
        }
        let renewed = self.renew_ways();
        let is_renewed = renewed.is_ok();
        self.check(renewed);
        is_renewed
    }

    fn close(mut self) {
        let guided = self.judge_network();
        let report = self.report;
        (report.loads, report.switch_restarts) = (guided.loads, guided.switch_restarts);
        for slot in &self.slots {
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
        report.changes = self.orders.moved.get();
        report.add_rack(&self.rack);
    }
}

#[cfg(test)]
mod tests;
