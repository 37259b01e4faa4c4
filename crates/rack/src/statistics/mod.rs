//! What a rack that runs has done so far, to be looked at while it runs.
//!
//! [`RackObserver`] looks at a rack, an embedded one from any thread. A look takes each lock as
//! those do who read counters, one at a time and for as long as copying numbers takes; names are
//! put to them afterwards. Two looks give rates: their difference by that of
//! [`RackStatistics::elapsed_seconds`].
//!
//! Everything counts from zero and grows. What a switch counts in its programs (pages, index) is
//! zero again when that switch restarts, so differences are to be taken with saturation.

mod collect;
mod flows;
#[cfg(feature = "hosted")]
mod hosted;
mod observer;
mod split;
#[cfg(test)]
mod tests;

use crate::RackConfig;
use rackweave_controller::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) use collect::Observed;
pub use observer::RackObserver;

/// Counters by name, zeros included.
pub type Counters = BTreeMap<String, u64>;

/// A rack at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct RackStatistics {
    /// Seconds since the rack was built.
    pub elapsed_seconds: f64,
    /// By number.
    pub nodes: Vec<NodeStatistics>,
    /// By number.
    pub switches: Vec<SwitchStatistics>,
    /// Those that run, and the last ones that do not, in the order in which they were set up.
    pub flows: Vec<FlowStatistics>,
    /// How many flows were set up so far.
    pub flows_made: u64,
    /// The page directory, if there is one.
    pub pages: Option<PageStatistics>,
    /// The index in the network, if a switch leads queries.
    pub index: Option<IndexStatistics>,
    /// The sequencers in the switch.
    pub sequencers: Vec<SequencerStatistics>,
}

/// A node at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct NodeStatistics {
    /// Its name in the configuration.
    pub name: String,
    /// What it is: `compute`, `memory`, `storage` or `dpu`.
    pub role: String,
    /// Whether it was taken down.
    pub dead: bool,
    /// Packets received, dropped ones included.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Their bytes, from the Ethernet header to the ICRC.
    pub bytes_in: u64,
    /// The same of what was sent.
    pub bytes_out: u64,
    /// All counters of its NIC but drops, as `rdma statistic` names them for `rdma_rxe` and
    /// `mlx5`.
    pub counters: Counters,
    /// Packets that its NIC dropped, by reason.
    pub drops: Counters,
    /// The NVMe target behind its NIC, if there is one.
    pub target: Option<TargetStatistics>,
}

/// An NVMe target at one moment.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetStatistics {
    /// Read commands that came.
    pub reads: u64,
    /// Write commands that came.
    pub writes: u64,
    /// Bytes that reads gave.
    pub bytes_read: u64,
    /// Bytes that writes took.
    pub bytes_written: u64,
    /// Answers other than success.
    pub errors: u64,
}

/// A switch at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct SwitchStatistics {
    /// Its place in the topology, such as `core` or `edge`; `switch` where there is one.
    pub role: String,
    /// All its counters but drops.
    pub counters: Counters,
    /// Packets that it dropped, by reason.
    pub drops: Counters,
}

/// A flow at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct FlowStatistics {
    /// Its number at the controller.
    pub id: u32,
    /// `shuffle`, `balance` or `replicate`.
    pub shape: String,
    /// Names of the producers' nodes.
    pub producers: Vec<String>,
    /// Names of the consumers' nodes.
    pub consumers: Vec<String>,
    /// `running`, `ended`, or why it was broken off.
    pub state: String,
    /// Its weight, if it has one.
    pub weight: Option<u32>,
    /// Bytes of an item.
    pub item_bytes: u32,
    /// Items that producers have pushed.
    pub items_pushed: u64,
    /// Items that were delivered: in a replicated flow, to the consumer that has most. A consumer
    /// that joins such a flow begins where the flow is.
    pub items_delivered: u64,
    /// Items that were delivered and wait to be consumed, of all consumers.
    pub items_waiting: u64,
    /// Bytes of the items that were delivered, all copies counted.
    pub bytes_delivered: u64,
}

impl FlowStatistics {
    /// Whether items may still move.
    pub fn runs(&self) -> bool {
        self.state == Self::RUNNING
    }

    /// The state of one that runs.
    pub const RUNNING: &'static str = "running";
    /// The state of one whose producers have finished and whose items are all delivered.
    pub const ENDED: &'static str = "ended";
}

/// The page directory at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct PageStatistics {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of all stores.
    pub pages: u64,
    /// Those that the switch indexes.
    pub pages_indexed: u64,
    /// What the switch answered, by kind: see [`rackweave_programs::pages::PageCounters`]. Of each
    /// request one, `repeated` and `dropped_meanwhile` aside.
    pub answers: Counters,
    /// Pages whose newest version went down with a node.
    pub pages_lost: u64,
}

/// The index in the network at one moment, all switches together.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct IndexStatistics {
    /// READs of a key, counted at their first switch.
    pub queries: u64,
    /// Requests over plain UDP, counted at their first switch.
    pub lookups: u64,
    /// How deep the switches led them, counted at the last switch: 0 to the root, 1 below the fat
    /// root, 1 + k below k layers.
    pub by_depth: Vec<u64>,
    /// Why some were not led as deep as could be, and those dropped.
    pub other: Counters,
}

/// A sequencer at one moment.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequencerStatistics {
    /// Its number at the controller.
    pub id: u32,
    /// The number that it hands out next.
    pub next: u64,
}

/// What of a rack never changes.
pub(crate) struct Described {
    /// Names and roles of nodes.
    nodes: Vec<(String, &'static str)>,
    /// Roles of switches.
    switches: Vec<String>,
}

impl Described {
    pub fn new(config: &RackConfig, topology: &Topology) -> Self {
        let nodes = config.node.iter();
        let role = |at: usize| topology.role(at).to_string();
        Self {
            nodes: nodes
                .map(|node| (node.name.clone(), node.role.name()))
                .collect(),
            switches: (0..topology.switches()).map(role).collect(),
        }
    }

    fn name(&self, node: u16) -> String {
        let named = self.nodes.get(usize::from(node));
        named.map_or_else(|| format!("node{node}"), |(name, _)| name.clone())
    }
}
