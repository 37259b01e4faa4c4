//! Fault campaigns. A seed determines a rack, a workload and every fault. Checkers that share no
//! code with the system under test judge the run.
//!
//! One seed is one run, and it repeats exactly: [`run`] with the same system and seed gives the
//! same report, trace hash included. A panic in the system under test is a violation like any
//! other. A run that does not finish is *stuck*: it fails as well, but is counted separately,
//! because it violates liveness and not safety.
//!
//! [`CampaignReport`] adds up the seeds of a campaign. [`hosted`] is the campaign against racks of
//! processes, which run in real time.
//!
//! This crate knows racks, endpoints and checkers. It must not know the internals of the nodes.

mod campaign;
mod flows;
pub mod hosted;
mod index;
mod messaging;
mod pages;
mod report;
mod sequencer;
#[cfg(test)]
mod short;
mod wrong;

pub use rackweave_endpoint::index::Access as IndexAccess;
pub use report::{CampaignReport, Failure};

use core::fmt;
use core::str::FromStr;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::SimulatedRack;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The system that a campaign attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Zero-sided flows of all shapes, with members that join and leave.
    Flows,
    /// The page store: directory, buffer pools, storage.
    Pages,
    /// The index: trees of hosts and DPUs, requests and one-sided reads.
    Index,
    /// Sequencers: a word in a node's memory, a counter in a server, a register of the switch.
    Sequencer,
    /// Messages between compute and storage nodes: connections, and both ends of their channels.
    Messaging,
}

impl System {
    /// Every system.
    pub const ALL: [System; 5] = [
        System::Flows,
        System::Pages,
        System::Index,
        System::Sequencer,
        System::Messaging,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            System::Flows => "flows",
            System::Pages => "pages",
            System::Index => "index",
            System::Sequencer => "sequencer",
            System::Messaging => "messaging",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an unknown system.
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

/// The result of one seed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Description of the rack that follows from the seed.
    pub plan: String,
    /// The hash of all packets.
    pub trace_hash: u64,
    /// Events of the simulator.
    pub events: u64,
    /// Virtual time.
    pub time: Duration,
    /// Items given to producers.
    pub pushed: u64,
    /// Items that consumers took.
    pub popped: u64,
    /// Pages read whose content was correct.
    pub reads: u64,
    /// Pages changed.
    pub writes: u64,
    /// Fixes refused because the newest version of the page is lost.
    pub losses: u64,
    /// Fixes that found a page damaged at its home.
    pub damaged: u64,
    /// Scans of an index.
    pub scans: u64,
    /// Operations on an index that were refused.
    pub refused: u64,
    /// Operations on an index whose outcome is unknown.
    pub unknown: u64,
    /// READs of an index that returned torn data and were repeated.
    pub torn: u64,
    /// READs of an index that found freed or outdated data.
    pub stale: u64,
    /// READs of an index that left the choice of the tree node to the network.
    pub queries: u64,
    /// Answers to them by the level of the tree node; 0 is a leaf, 7 stands for 7 and more.
    pub led: [u64; 8],
    /// Of those: the key was further right, and the reader followed the link.
    pub followed: u64,
    /// Of the queries: led to something that is not a tree node for the key.
    pub astray: u64,
    /// Times that a new plan of an index was loaded into the switches.
    pub loads: u64,
    /// Restarts of switches that lead queries.
    pub switch_restarts: u64,
    /// Ranges returned by sequencers.
    pub ranges: u64,
    /// Numbers in these ranges.
    pub numbers: u64,
    /// Calls for numbers that ended in an error.
    pub calls_failed: u64,
    /// Messages received completely.
    pub messages: u64,
    /// Bytes of messages received.
    pub message_bytes: u64,
    /// Connections established at both nodes.
    pub connections: u64,
    /// Of those: closed by a node before all work was done, or because the peer misbehaved.
    pub connections_closed: u64,
    /// Of those: broken by the network, or by the crash of a node.
    pub connections_broken: u64,
    /// Failed handshakes, except those that failed because of a rogue's invalid messages.
    pub handshakes_failed: u64,
    /// Rogues that were detected, by the misbehaviour they were reported for.
    pub rogues: BTreeMap<String, u64>,
    /// Packets lost, duplicated, delayed or corrupted on purpose.
    pub packets_disturbed: u64,
    /// Restarts of the switch, of the NVMe target, or of endpoints of an index.
    pub restarts: u64,
    /// Endpoints of an index that were replaced by their replicas.
    pub replaced: u64,
    /// Nodes that crashed.
    pub crashes: u64,
    /// Changes on command: members that joined or left, weights; pages that the switch started or
    /// stopped indexing; ranges of an index that moved to another endpoint.
    pub changes: u64,
    /// Why the workload was aborted, if it was.
    pub aborted: Option<String>,
    /// All violations.
    pub violations: Vec<String>,
    /// Where the run did not finish. Operations that were still pending then are not judged.
    pub stuck: Vec<String>,
}

impl SeedReport {
    /// Adds the counters of a rack of the run.
    fn add_rack(&mut self, rack: &SimulatedRack) {
        self.trace_hash = self.trace_hash.rotate_left(17) ^ rack.trace_hash();
        self.events += rack.events();
        self.time += rack.now() - Instant::ZERO;
        let nodes = (0..rack.config().node.len()).map(|node| NodeId(node as u16));
        let links = nodes.filter_map(|node| rack.link_report(node));
        let cables = 0..rack.topology().cables().count();
        let ways = links
            .flat_map(|links| [links.to_switch, links.from_switch])
            .chain(cables.flat_map(|cable| rack.cable_report(cable)).flatten());
        for way in ways {
            let faults = way.faults;
            self.packets_disturbed +=
                faults.lost + faults.duplicated + faults.reordered + faults.corrupted;
        }
    }

    /// Whether the run has no violation and finished.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.stuck.is_empty()
    }
}

/// Choices that are fixed in advance and not drawn from the seed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// How all clients of an index read; `None`: the seed decides for each.
    pub access: Option<IndexAccess>,
}

/// Runs one seed against a system.
pub fn run(system: System, seed: u64) -> SeedReport {
    run_with(system, seed, &Options::default())
}

/// Like [`run`], with some choices fixed in advance.
pub fn run_with(system: System, seed: u64, options: &Options) -> SeedReport {
    let report = catch_unwind(AssertUnwindSafe(|| match system {
        System::Flows => flows::run(seed),
        System::Pages => pages::run(seed),
        System::Index => index::run(seed, options.access),
        System::Sequencer => sequencer::run(seed),
        System::Messaging => messaging::run(seed),
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
pub fn replay_command(system: System, seed: u64, options: &Options) -> String {
    let mut command = format!("rackweave chaos --system {system} --seeds 1 --seed {seed}");
    if let Some(access) = options.access {
        command += &format!(" --access {}", access.name());
    }
    command
}
