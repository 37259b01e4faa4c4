//! The loop that drives a rack and injects faults, and the findings that its actors report.

use crate::SeedReport;
use core::cell::{Cell, RefCell};
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_rack::testing::Faults;
use rackweave_rack::{RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::Step;

/// Maximum number of kept violations from outside the checkers of histories.
const FINDINGS_MAX: usize = 10;

/// Violations that no history shows.
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

/// Increments the counter.
pub(crate) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// Maximum rounds of an actor's step. Virtual time does not advance within a step, so each round
/// must make progress.
pub(crate) const ROUNDS_MAX: u32 = 10_000;

/// Waits until `due` even if no packet arrives, and at least until time has advanced.
pub(crate) fn wait(now: Instant, due: Option<Instant>) -> Step {
    let soonest = now + Duration::from_nanos(1);
    due.map_or(Step::WaitForPacket, |due| Step::WaitUntil(due.max(soonest)))
}

/// A run over one rack.
pub(crate) trait Campaign {
    /// Virtual time after which a phase that has not ended counts as stuck.
    const PATIENCE: Duration;

    fn rack(&mut self) -> &mut SimulatedRack;

    fn report(&mut self) -> &mut SeedReport;

    /// Executes the control event with this token. True if the phase has ended.
    fn control(&mut self, token: u64) -> bool;

    /// Whether the phase is aborted because its result would be meaningless.
    fn is_broken_off(&self) -> bool {
        false
    }

    /// Time in addition to [`Self::PATIENCE`] for which the plan stalls a phase.
    fn stalls(&self) -> Duration {
        Duration::ZERO
    }

    /// Describes what has not finished yet.
    fn open(&self) -> String {
        String::new()
    }

    fn check(&mut self, done: Result<(), String>) {
        self.report().violations.extend(done.err());
    }

    /// Runs until all actors are done, and executes the plan's events when they are due. False if
    /// the phase never ends. The report of a stuck phase begins with `doing`.
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

    /// Restores all cut cables to nodes.
    fn mend_cables(&mut self) {
        for node in 0..self.rack().config().node.len() {
            self.rack().set_link_down(NodeId(node as u16), false);
        }
    }
}

/// Builds the rack of a plan.
pub(crate) fn rack_of(config: &RackConfig) -> Result<SimulatedRack, String> {
    let rack = SimulatedRack::new(config);
    Ok(cutting_through(
        rack.map_err(|error| format!("no rack: {error}"))?,
    ))
}

/// The rack, in which a share of the requests from node to node is executed without packets: none
/// in half of the runs.
pub(crate) fn cutting_through(mut rack: SimulatedRack) -> SimulatedRack {
    let mut rng = Rng::new(rack.config().seed).fork("cut through");
    rack.set_cut_through(*rng.pick(&[0.0, 0.0, 0.5, 1.0]));
    rack
}

/// Schedules the disturbances of a plan at their times; their indexes are the tokens.
pub(crate) fn schedule<D>(rack: &mut SimulatedRack, disturbances: &[(Instant, D)]) {
    for (token, &(time, _)) in (0..).zip(disturbances) {
        rack.at(time, token);
    }
}

/// The switch loses all state, and is configured again.
pub(crate) fn restart_switch(rack: &SimulatedRack) -> Result<(), String> {
    let restarted = rack.restart_switch();
    restarted.map_err(|error| format!("the switch did not restart: {error}"))
}

/// Restarts a crashed node with empty memory.
pub(crate) fn revive_node(rack: &mut SimulatedRack, node: NodeId) -> Result<(), String> {
    match rack.revive_node(node) {
        true => Ok(()),
        false => Err(format!("{node:?} could not be revived")),
    }
}

impl SeedReport {
    /// The report of a seed from which this plan follows, still without results.
    pub(crate) fn of(seed: u64, plan: &impl fmt::Display) -> Self {
        Self {
            seed,
            plan: plan.to_string(),
            ..Self::default()
        }
    }

    /// Adds the violations that a checker has found. Returns its summary if there are none.
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
