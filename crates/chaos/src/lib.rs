//! Campaigns of faults: from a seed follow a rack, a workload and everything that goes wrong; the
//! run is judged by checkers that share no code with what they judge.
//!
//! One seed is one run, and it repeats exactly: [`run`] with the same system and seed gives the
//! same report, trace hash included. A panic in the system under test is a violation like any
//! other.
//!
//! It knows racks, endpoints and checkers. It must not know the machines' insides.

mod flows;
mod pages;

use core::fmt;
use core::str::FromStr;
use rackweave_base::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a campaign attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Zero-sided flows of all shapes, with members that come and go.
    Flows,
    /// The page store: directory, buffer pools, storage.
    Pages,
}

impl System {
    /// Every system.
    pub const ALL: [System; 2] = [System::Flows, System::Pages];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            System::Flows => "flows",
            System::Pages => "pages",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A system's name that nobody knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownSystem(String);

impl fmt::Display for UnknownSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = System::ALL.iter().map(|system| system.name()).collect();
        write!(
            f,
            "there is no system {:?}; known: {}",
            self.0,
            known.join(", ")
        )
    }
}

impl core::error::Error for UnknownSystem {}

impl FromStr for System {
    type Err = UnknownSystem;
    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        System::ALL
            .into_iter()
            .find(|system| system.name() == name)
            .ok_or_else(|| UnknownSystem(name.into()))
    }
}

/// What one seed did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// What the seed made of the rack, in words.
    pub plan: String,
    /// The hash over everything that travelled.
    pub trace_hash: u64,
    /// Events of the simulator.
    pub events: u64,
    /// Virtual time.
    pub time: Duration,
    /// Items given to producers.
    pub pushed: u64,
    /// Items that consumers took.
    pub popped: u64,
    /// Pages read and found right.
    pub reads: u64,
    /// Pages changed.
    pub writes: u64,
    /// Fixes refused because the newest version of a page is lost.
    pub losses: u64,
    /// Packets lost, doubled, delayed or damaged on purpose.
    pub packets_disturbed: u64,
    /// Restarts of the switch, or of the NVMe target.
    pub restarts: u64,
    /// Nodes that crashed.
    pub crashes: u64,
    /// What changed at the controller's command: members that joined or left, weights; pages that
    /// the switch began or ceased to index.
    pub changes: u64,
    /// Why the workload was broken off, if it was.
    pub aborted: Option<String>,
    /// Everything that must not be.
    pub violations: Vec<String>,
}

/// Runs one seed against a system.
pub fn run(system: System, seed: u64) -> SeedReport {
    let report = catch_unwind(AssertUnwindSafe(|| match system {
        System::Flows => flows::run(seed),
        System::Pages => pages::run(seed),
    }));
    report.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        SeedReport {
            seed,
            violations: vec![format!("panic: {text}")],
            ..SeedReport::default()
        }
    })
}

/// The command that repeats one seed.
pub fn replay_command(system: System, seed: u64) -> String {
    format!("rackweave chaos --system {system} --seeds 1 --seed {seed}")
}
