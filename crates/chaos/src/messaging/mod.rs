//! The campaign against messaging: compute units that call storage units, several connections at a
//! time, with messages of all lengths each way; packet faults, cut cables, streams that break at
//! any byte of the handshake, units that die at any step and come back, that close in the middle,
//! read slowly or not at all, and rogues that send nonsense or write lies into a peer's memory.
//!
//! What must hold is judged by the history of messages (`rackweave_sim::checkers::messages`): each
//! delivered once, whole and in order, or an error at both units, for a reason that exists. A
//! rogue has to be found out, for the right reason. In the end everything is mended, everybody
//! talks to everybody, and then nothing may be left of any connection: no memory, no queue pair, no
//! completion queue, no region.
//!
//! [`plan`] makes rack, units and calls of a seed and what goes wrong; [`unit`] is the program of a
//! node, [`side`] its part of a connection with [`sending`] and [`receiving`] at the ends;
//! [`stream`] carries handshakes; [`misbehaviour`], [`forger`] and [`liar`] are the rogues.

mod forger;
mod liar;
mod misbehaviour;
mod plan;
mod receiving;
mod sending;
mod shared;
mod side;
mod spare;
mod stream;
mod unit;

use crate::SeedReport;
use core::cell::RefCell;
use plan::{Disturbance, MessagingPlan};
use rackweave_base::{Block, Duration, Instant, NodeId, Rng};
use rackweave_endpoint::messaging::Role;
use rackweave_rack::testing::Faults;
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::checkers::MessageHistory;
use rackweave_wire::fabric::message::CloseReason;
use shared::{Counts, Shared};
use spare::Spare;
use std::rc::Rc;
use unit::UnitActor;

/// Virtual time after which a run that has not ended is taken for stuck. What lasts longest is that
/// NICs repeat until they give up, after tens of milliseconds, and that twice.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is asked whether all is over.
const ATTENTION: Duration = Duration::from_micros(50);

/// What the rack calls the end of such a time.
const ATTEND: u64 = u64::MAX;

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = MessagingPlan::new(seed);
    let mut report = SeedReport {
        seed,
        plan: plan.to_string(),
        ..SeedReport::default()
    };
    match set_up(&plan) {
        Ok((rack, block)) => Campaign::new(rack, block, plan, &mut report).play(),
        Err(error) => report.violations.push(error),
    }
    report
}

fn set_up(plan: &MessagingPlan) -> Result<(SimulatedRack, Block), String> {
    let rack = SimulatedRack::new(&plan.config).map_err(|error| format!("no rack: {error}"))?;
    let block = rack.memory().allocate(64);
    let block = block.map_err(|error| format!("no memory: {error}"))?;
    Ok((rack, block))
}

/// A run over one rack.
struct Campaign<'a> {
    rack: SimulatedRack,
    shared: Rc<Shared>,
    /// Bytes of memory held and room in the NICs without any connection.
    bytes_in_use: usize,
    spare: Vec<Spare>,
    /// What regions are made of in order to count how many there is room for.
    block: Block,
    /// Nothing is to go wrong any more.
    quiet: bool,
    report: &'a mut SeedReport,
}

impl<'a> Campaign<'a> {
    fn new(
        rack: SimulatedRack,
        block: Block,
        plan: MessagingPlan,
        report: &'a mut SeedReport,
    ) -> Self {
        let memory = rack.memory().clone();
        let history = MessageHistory::new(plan.seed, CloseReason::TransportBroken as u16);
        let shared = Shared {
            memory,
            history: RefCell::new(history),
            wrong: RefCell::default(),
            counts: Counts::default(),
            calls: RefCell::default(),
            dead: RefCell::default(),
            plan,
        };
        for &call in &shared.plan.calls {
            shared.add_call(call);
        }
        Self {
            bytes_in_use: rack.memory().bytes_in_use(),
            rack,
            shared: Rc::new(shared),
            spare: Vec::new(),
            block,
            quiet: false,
            report,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.shared.plan.units.len()).map(|at| NodeId(at as u16))
    }

    fn violate(&mut self, what: String) {
        self.report.violations.push(what);
    }

    /// The whole story: work among disturbances, then quiet.
    fn play(mut self) {
        let shared = self.shared.clone();
        for (token, &(time, _)) in shared.plan.disturbances.iter().enumerate() {
            self.rack.at(time, token as u64);
        }
        for node in self.nodes() {
            self.spare
                .push(Spare::of(&mut self.rack, node, &self.block));
            self.spawn(node);
        }
        self.rack.at(Instant::ZERO + ATTENTION, ATTEND);
        if self.drive("at work") {
            self.quieten();
        }
        self.close();
    }

    fn spawn(&mut self, node: NodeId) {
        let actor = UnitActor::new(self.shared.clone(), self.rack.now(), node);
        self.rack.spawn_server(node, Box::new(actor));
    }

    /// Whether nothing more will happen by itself.
    fn is_over(&self) -> bool {
        let disturbances = &self.shared.plan.disturbances;
        let last = disturbances.iter().map(|&(at, _)| at).max();
        let disturbed = self.quiet || last.is_none_or(|last| last < self.rack.now());
        disturbed && self.shared.all_over()
    }

    /// Runs until all is over, doing what the plan says when it is due. False if that never comes.
    fn drive(&mut self, doing: &str) -> bool {
        let end = self.rack.now() + PATIENCE;
        loop {
            if !self.report.violations.is_empty() || self.shared.history.borrow().violations() > 0 {
                return false;
            }
            let stuck = match self.rack.run(end) {
                RunEnd::Control(ATTEND) => {
                    let next = self.rack.now() + ATTENTION;
                    self.rack.at(next, ATTEND);
                    if self.is_over() {
                        return true;
                    }
                    continue;
                }
                RunEnd::Control(token) => {
                    let (_, disturbance) = self.shared.plan.disturbances[token as usize];
                    self.disturb(disturbance);
                    continue;
                }
                RunEnd::Deadline => format!("not at its end after {PATIENCE}"),
                RunEnd::Stalled | RunEnd::Done => "nothing will ever happen again".into(),
            };
            let calls = self.shared.calls.borrow();
            let open = calls.iter().filter(|call| !call.is_over());
            let open: Vec<_> = open.map(|call| call.number).collect();
            drop(calls);
            let stuck = format!("{doing}: {stuck}; connections {open:?}");
            self.report.stuck.push(stuck);
            return false;
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        if self.quiet {
            return;
        }
        match disturbance {
            Disturbance::Crash(node) => {
                if !self.shared.is_dead(node) {
                    self.shared.died(self.rack.now(), node);
                    self.rack.crash_node(node);
                    self.report.crashes += 1;
                }
            }
            Disturbance::Return(node) => self.revive(node),
            Disturbance::CutCable(node) => self.rack.set_link_down(node, true),
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::RestartSwitch => {
                self.report.restarts += 1;
                if let Err(error) = self.rack.restart_switch() {
                    self.violate(format!("the switch did not restart: {error}"));
                }
            }
        }
    }

    /// A node is there again, with nothing in its memory.
    fn revive(&mut self, node: NodeId) {
        if !self.shared.is_dead(node) {
            return;
        }
        self.shared.dead.borrow_mut().retain(|&dead| dead != node);
        if !self.rack.revive_node(node) {
            return self.violate(format!("{node:?} could not be revived"));
        }
        self.spare[usize::from(node.0)] = Spare::of(&mut self.rack, node, &self.block);
        self.spawn(node);
    }

    /// Everything is mended, everybody is there and talks to everybody; then nothing may be left.
    fn quieten(&mut self) {
        self.quiet = true;
        for node in self.nodes() {
            self.rack.set_link_down(node, false);
            self.revive(node);
        }
        let shared = self.shared.clone();
        for call in shared.calls.borrow().iter().filter(|call| !call.is_begun()) {
            call.cancel();
        }
        let mut rng = Rng::new(shared.plan.seed).fork("last calls");
        // Where room is tight only one after the other finds some.
        for from in shared.plan.nodes(Role::Compute) {
            for to in shared.plan.nodes(Role::Storage) {
                let now = self.rack.now();
                shared.add_call(shared.plan.last_call(&mut rng, from, to, now));
                if shared.plan.tight && !self.drive("talking once more") {
                    return;
                }
            }
        }
        if self.drive("talking once more") {
            self.look_for_rests();
        }
    }

    fn look_for_rests(&mut self) {
        let held = self.rack.memory().bytes_in_use();
        if held != self.bytes_in_use {
            let before = self.bytes_in_use;
            self.violate(format!(
                "{held} bytes of memory are held; before it were {before}"
            ));
        }
        for node in self.nodes() {
            let spare = Spare::of(&mut self.rack, node, &self.block);
            let before = self.spare[usize::from(node.0)];
            if spare != before {
                self.violate(format!(
                    "{node:?} has room for {spare:?}; before for {before:?}"
                ));
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
        // What was broken off has not ended; that is said already.
        let broken_off = !report.is_sound();
        let history = shared.history.replace(empty);
        if broken_off && history.violations() == 0 {
            return;
        }
        match history.finish() {
            Ok(summary) => {
                report.messages = summary.messages;
                report.message_bytes = summary.bytes;
                report.connections = summary.connections;
                report.connections_closed = summary.closed + summary.accused;
                report.connections_broken = summary.broken;
            }
            Err(violations) => {
                let violations = violations.iter().map(ToString::to_string);
                report.violations.extend(violations);
            }
        }
    }
}

#[cfg(test)]
mod tests;
