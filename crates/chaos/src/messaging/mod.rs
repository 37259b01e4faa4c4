//! The campaign against messaging: compute nodes call storage nodes, with several connections at a
//! time and messages of all lengths each way. Packets suffer faults, cables are cut, streams break
//! at any byte of the handshake. Nodes crash at any step and return, close connections in the
//! middle, and read slowly or not at all. Rogues send invalid bytes or write false data into a
//! peer's memory.
//!
//! The history of messages (`rackweave_sim::checkers::messages`) judges the invariants: each
//! message is delivered once, complete and in order, or both nodes get an error with a valid
//! reason. A rogue has to be detected, for the right reason. At the end everything is repaired and
//! all nodes talk to each other; then nothing may remain of any connection: no memory, no queue
//! pair, no completion queue, no region.
//!
//! [`plan`] draws the rack, nodes, calls and faults of a seed; [`node`] is the program of a node,
//! [`side`] its part of a connection with [`sending`] and [`receiving`] at the ends; [`stream`]
//! carries handshakes; [`misbehaviour`], [`forger`] and [`liar`] are the rogues.

mod forger;
mod liar;
mod misbehaviour;
mod node;
mod plan;
mod receiving;
mod sending;
mod shared;
mod side;
mod spare;
mod stream;

use crate::SeedReport;
use crate::campaign::{self, Campaign, Findings};
use core::cell::RefCell;
use node::NodeActor;
use plan::{Disturbance, MessagingPlan};
use rackweave_base::{Block, Duration, Instant, NodeId, Rng};
use rackweave_endpoint::messaging::Role;
use rackweave_rack::SimulatedRack;
use rackweave_rack::testing::Faults;
use rackweave_sim::checkers::MessageHistory;
use rackweave_wire::fabric::message::CloseReason;
use shared::{Counts, Shared};
use spare::Spare;
use std::rc::Rc;

/// Interval at which the harness checks whether the phase is over.
const ATTENTION: Duration = Duration::from_micros(50);

/// The control token of this check.
const ATTEND: u64 = u64::MAX;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = MessagingPlan::new(seed);
    let mut report = SeedReport::of(seed, &plan);
    match MessagingCampaign::new(plan, &mut report) {
        Ok(campaign) => campaign.play(),
        Err(error) => report.violations.push(error),
    }
    report
}

/// A run over one rack.
struct MessagingCampaign<'a> {
    rack: SimulatedRack,
    shared: Rc<Shared>,
    /// Bytes of memory in use and free NIC resources without any connection.
    bytes_in_use: usize,
    spare: Vec<Spare>,
    /// The memory of trial regions that measure how many more fit.
    block: Block,
    /// No further fault is to occur.
    quiet: bool,
    report: &'a mut SeedReport,
}

impl Campaign for MessagingCampaign<'_> {
    /// The longest delay is a NIC that retries until it gives up, after tens of milliseconds, and
    /// that twice.
    const PATIENCE: Duration = Duration::from_millis(500);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn is_broken_off(&self) -> bool {
        !self.report.violations.is_empty() || self.shared.history.borrow().violations() > 0
    }

    /// Nodes are servers, so that the harness checks at intervals whether all is over.
    fn control(&mut self, token: u64) -> bool {
        if token == ATTEND {
            let next = self.rack.now() + ATTENTION;
            self.rack.at(next, ATTEND);
            return self.is_over();
        }
        if !self.quiet {
            let (_, disturbance) = self.shared.plan.disturbances[token as usize];
            let done = self.disturb(disturbance);
            self.check(done);
        }
        false
    }

    fn open(&self) -> String {
        let calls = self.shared.calls.borrow();
        let open = calls.iter().filter(|call| !call.is_over());
        let open: Vec<_> = open.map(|call| call.number).collect();
        format!("; connections {open:?}")
    }
}

impl<'a> MessagingCampaign<'a> {
    fn new(plan: MessagingPlan, report: &'a mut SeedReport) -> Result<Self, String> {
        let rack = campaign::rack_of(&plan.config)?;
        let block = rack.memory().allocate(64);
        let block = block.map_err(|error| format!("no memory: {error}"))?;
        let history = MessageHistory::new(plan.seed, CloseReason::TransportBroken as u16);
        let shared = Shared {
            memory: rack.memory().clone(),
            history: RefCell::new(history),
            wrong: Findings::default(),
            counts: Counts::default(),
            calls: RefCell::default(),
            dead: RefCell::default(),
            plan,
        };
        for &call in &shared.plan.calls {
            shared.add_call(call);
        }
        Ok(Self {
            bytes_in_use: rack.memory().bytes_in_use(),
            rack,
            shared: Rc::new(shared),
            spare: Vec::new(),
            block,
            quiet: false,
            report,
        })
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.shared.plan.nodes.len()).map(|at| NodeId(at as u16))
    }

    /// The whole run: work during disturbances, then a quiet phase.
    fn play(mut self) {
        campaign::schedule(&mut self.rack, &self.shared.plan.disturbances);
        for node in self.nodes() {
            self.spare
                .push(Spare::of(&mut self.rack, node, &self.block));
            self.spawn(node);
        }
        self.rack.at(Instant::ZERO + ATTENTION, ATTEND);
        if self.drive("at work: ") {
            self.quieten();
        }
        self.close();
    }

    fn spawn(&mut self, node: NodeId) {
        let actor = NodeActor::new(self.shared.clone(), self.rack.now(), node);
        self.rack.spawn_server(node, Box::new(actor));
    }

    /// Whether nothing more will happen without new calls.
    fn is_over(&self) -> bool {
        let disturbances = &self.shared.plan.disturbances;
        let last = disturbances.iter().map(|&(at, _)| at).max();
        let disturbed = self.quiet || last.is_none_or(|last| last < self.rack.now());
        disturbed && self.shared.all_over()
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        match disturbance {
            Disturbance::Crash(node) => {
                if !self.shared.is_dead(node) {
                    self.shared.died(self.rack.now(), node);
                    self.rack.crash_node(node);
                    self.report.crashes += 1;
                }
            }
            Disturbance::Return(node) => return self.revive(node),
            Disturbance::CutCable(node) => self.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::RestartSwitch => {
                self.report.restarts += 1;
                return campaign::restart_switch(&self.rack);
            }
        }
        Ok(())
    }

    /// A node returns with empty memory.
    fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if self.shared.is_dead(node) {
            self.shared.dead.borrow_mut().retain(|&dead| dead != node);
            campaign::revive_node(&mut self.rack, node)?;
            self.spare[usize::from(node.0)] = Spare::of(&mut self.rack, node, &self.block);
            self.spawn(node);
        }
        Ok(())
    }

    /// Repairs everything, lets all nodes talk to each other, and checks that nothing remains.
    fn quieten(&mut self) {
        self.quiet = true;
        for node in self.nodes() {
            self.rack.set_link_down(node, false);
            let revived = self.revive(node);
            self.check(revived);
        }
        let shared = self.shared.clone();
        for call in shared.calls.borrow().iter().filter(|call| !call.is_begun()) {
            call.cancel();
        }
        let mut rng = Rng::new(shared.plan.seed).fork("last calls");
        // With scarce resources they find some only one after the other.
        for from in shared.plan.nodes_of(Role::Compute) {
            for to in shared.plan.nodes_of(Role::Storage) {
                let now = self.rack.now();
                shared.add_call(shared.plan.last_call(&mut rng, from, to, now));
                if shared.plan.tight && !self.drive("talking once more: ") {
                    return;
                }
            }
        }
        if self.drive("talking once more: ") {
            self.look_for_rests();
        }
    }

    fn look_for_rests(&mut self) {
        let held = self.rack.memory().bytes_in_use();
        if held != self.bytes_in_use {
            let before = self.bytes_in_use;
            let wrong = format!("{held} bytes of memory are held; before it were {before}");
            self.report.violations.push(wrong);
        }
        for node in self.nodes() {
            let spare = Spare::of(&mut self.rack, node, &self.block);
            let before = self.spare[usize::from(node.0)];
            if spare != before {
                let wrong = format!("{node:?} has room for {spare:?}; before for {before:?}");
                self.report.violations.push(wrong);
            }
        }
    }

    fn close(self) {
        let Self {
            rack,
            shared,
            report,
            ..
        } = self;
        report.add_rack(&rack);
        report.violations.extend(shared.wrong.take());
        report.handshakes_failed = shared.counts.refused.get();
        report.rogues = shared.counts.caught.take();
        let empty = MessageHistory::new(0, 0);
        // An aborted run has not ended; that is already reported.
        let broken_off = !report.is_sound();
        let history = shared.history.replace(empty);
        if broken_off && history.violations() == 0 {
            return;
        }
        if let Some(summary) = report.judge(history.finish()) {
            report.messages = summary.messages;
            report.message_bytes = summary.bytes;
            report.connections = summary.connections;
            report.connections_closed = summary.closed + summary.accused;
            report.connections_broken = summary.broken;
        }
    }
}

#[cfg(test)]
mod tests;
