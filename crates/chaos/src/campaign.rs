//! How campaigns run: the loop that drives a rack and disturbs it, and what its actors report.

use crate::SeedReport;
use core::cell::{Cell, RefCell};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::testing::Faults;
use rackweave_rack::{RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::Step;

/// Violations kept that the checkers of histories do not judge.
const FINDINGS_MAX: usize = 10;

/// What must not be and no history shows.
#[derive(Default)]
pub(crate) struct Findings(RefCell<Vec<String>>);

impl Findings {
    pub fn push(&self, what: String) {
        let mut findings = self.0.borrow_mut();
        if findings.len() < FINDINGS_MAX {
            findings.push(what);
        }
    }

    pub fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Counts one more.
pub(crate) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// Rounds of an actor's step at most: time stands still meanwhile, so that each must bring it
/// further.
pub(crate) const ROUNDS_MAX: u32 = 10_000;

/// Waits until something is due even if no packet comes, and at least until time has gone on.
pub(crate) fn wait(now: Instant, due: Option<Instant>) -> Step {
    let soonest = now + Duration::from_nanos(1);
    due.map_or(Step::WaitForPacket, |due| Step::WaitUntil(due.max(soonest)))
}

/// A run over one rack.
pub(crate) trait Campaign {
    /// Virtual time after which a phase that has not ended is taken for stuck.
    const PATIENCE: Duration;

    fn rack(&mut self) -> &mut SimulatedRack;

    fn report(&mut self) -> &mut SeedReport;

    /// Does what is due by the token of a control event. True if the phase has ended.
    fn control(&mut self, token: u64) -> bool;

    /// Whether the phase is broken off, since no end would be worth anything.
    fn is_broken_off(&self) -> bool {
        false
    }

    /// Time beside [`Self::PATIENCE`] that the plan holds a phase up.
    fn stalls(&self) -> Duration {
        Duration::ZERO
    }

    /// What is still to come to its end, in words.
    fn open(&self) -> String {
        String::new()
    }

    fn check(&mut self, done: Result<(), String>) {
        self.report().violations.extend(done.err());
    }

    /// Runs until all actors are done, doing what the plan says when it is due. False if that never
    /// comes. `doing` is what a report of that begins with.
    fn drive(&mut self, doing: &str) -> bool {
        let end = self.rack().now() + Self::PATIENCE + self.stalls();
        while !self.is_broken_off() {
            let stuck = match self.rack().run(end) {
                RunEnd::Done => return true,
                RunEnd::Control(token) => match self.control(token) {
                    true => return true,
                    false => continue,
                },
                RunEnd::Deadline => format!("not at its end after {}", Self::PATIENCE),
                RunEnd::Stalled => "nothing will ever happen again".into(),
            };
            let stuck = format!("{doing}{stuck}{}", self.open());
            self.report().stuck.push(stuck);
            return false;
        }
        false
    }

    /// No cable to a node is cut any more.
    fn mend_cables(&mut self) {
        for node in 0..self.rack().config().node.len() {
            self.rack().set_link_down(NodeId(node as u16), false);
        }
    }
}

/// A rack as planned.
pub(crate) fn rack_of(config: &RackConfig) -> Result<SimulatedRack, String> {
    SimulatedRack::new(config).map_err(|error| format!("no rack: {error}"))
}

/// Enters what a plan does at its times, by its numbers.
pub(crate) fn schedule<D>(rack: &mut SimulatedRack, disturbances: &[(Instant, D)]) {
    for (token, &(time, _)) in (0..).zip(disturbances) {
        rack.at(time, token);
    }
}

/// The switch forgets everything, and is told it again.
pub(crate) fn restart_switch(rack: &SimulatedRack) -> Result<(), String> {
    let restarted = rack.restart_switch();
    restarted.map_err(|error| format!("the switch did not restart: {error}"))
}

/// A node that is dead is there again, with nothing in its memory.
pub(crate) fn revive_node(rack: &mut SimulatedRack, node: NodeId) -> Result<(), String> {
    match rack.revive_node(node) {
        true => Ok(()),
        false => Err(format!("{node:?} could not be revived")),
    }
}

impl SeedReport {
    /// That of a seed from which this plan follows.
    pub(crate) fn of(seed: u64, plan: &impl fmt::Display) -> Self {
        Self {
            seed,
            plan: plan.to_string(),
            ..Self::default()
        }
    }

    /// Takes over what a checker has found. Its summary, if nothing is wrong.
    pub(crate) fn judge<T, V: fmt::Display>(&mut self, found: Result<T, Vec<V>>) -> Option<T> {
        let wrong = match found {
            Ok(summary) => return Some(summary),
            Err(wrong) => wrong,
        };
        let wrong = wrong.iter().map(ToString::to_string);
        self.violations.extend(wrong);
        None
    }
}
