//! Statistics of a running rack.
//!
//! [`RackObserver`] observes a rack; an embedded one from any thread. A look takes each lock as
//! readers of counters do, one at a time and for as long as copying numbers takes; names are added
//! afterwards. Two looks give rates: their difference divided by that of
//! [`RackStatistics::elapsed_seconds`].
//!
//! All counters start at zero and grow. Those of a switch's programs (pages, index) are reset when
//! that switch restarts, so differences have to be saturating.

mod collect;
mod flows;
mod observer;
mod split;
#[cfg(test)]
mod tests;

use crate::RackConfig;
use rackweave_controller::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) use collect::{Observed, by_name};
pub use observer::RackObserver;

/// Counters by name, zeros included.
pub type Counters = BTreeMap<String, u64>;

/// The state of a rack at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct RackStatistics {
    /// Seconds since the rack was built.
    pub elapsed_seconds: f64,
    /// The nodes, by number.
    pub nodes: Vec<NodeStatistics>,
    /// The switches, by number.
    pub switches: Vec<SwitchStatistics>,
    /// Running flows, and the last ones that have ended, in the order of their set-up.
    pub flows: Vec<FlowStatistics>,
    /// The number of flows set up so far.
    pub flows_made: u64,
    /// The page directory, if there is one.
    pub pages: Option<PageStatistics>,
    /// The index in the network, if a switch leads queries.
    pub index: Option<IndexStatistics>,
    /// The sequencers in the switch.
    pub sequencers: Vec<SequencerStatistics>,
}

/// The state of a node at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct NodeStatistics {
    /// Its name in the configuration.
    pub name: String,
    /// Its role: `compute`, `memory`, `storage` or `dpu`.
    pub role: String,
    /// Whether it is dead.
    pub dead: bool,
    /// Packets received, dropped ones included.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Bytes of these, from the Ethernet header to the ICRC.
    pub bytes_in: u64,
    /// The same of packets sent.
    pub bytes_out: u64,
    /// All counters of its NIC except drops, by the names that `rdma statistic` shows for
    /// `rdma_rxe` and `mlx5`.
    pub counters: Counters,
    /// Packets that its NIC dropped, by reason.
    pub drops: Counters,
    /// The NVMe target behind its NIC, if there is one.
    pub target: Option<TargetStatistics>,
}

/// The state of an NVMe target at one moment.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetStatistics {
    /// Read commands received.
    pub reads: u64,
    /// Write commands received.
    pub writes: u64,
    /// Bytes returned by reads.
    pub bytes_read: u64,
    /// Bytes stored by writes.
    pub bytes_written: u64,
    /// Completions other than success.
    pub errors: u64,
}

/// The state of a switch at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct SwitchStatistics {
    /// Its role in the topology, such as `core` or `edge`; `switch` if there is only one.
    pub role: String,
    /// All its counters except drops.
    pub counters: Counters,
    /// Packets that it dropped, by reason.
    pub drops: Counters,
}

/// The state of a flow at one moment.
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
    /// `running`, `ended`, or why it was aborted.
    pub state: String,
    /// Its weight, if it has one.
    pub weight: Option<u32>,
    /// Bytes of an item.
    pub item_bytes: u32,
    /// Items that producers have pushed.
    pub items_pushed: u64,
    /// Items delivered: in a replicated flow, to the consumer that has received most. A consumer
    /// that joins such a flow begins at its current position.
    pub items_delivered: u64,
    /// Items delivered but not yet consumed, of all consumers.
    pub items_waiting: u64,
    /// Bytes of delivered items, counting all copies.
    pub bytes_delivered: u64,
}

impl FlowStatistics {
    /// Whether items may still move.
    pub fn runs(&self) -> bool {
        self.state == Self::RUNNING
    }

    /// The state of a running flow.
    pub const RUNNING: &'static str = "running";
    /// The state of a flow whose producers have finished and whose items are all delivered.
    pub const ENDED: &'static str = "ended";
}

/// The state of the page directory at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct PageStatistics {
    /// Bytes of a page; of the smallest, if stores have several page sizes.
    pub page_bytes: u32,
    /// Pages of all stores.
    pub pages: u64,
    /// Pages that the switch indexes.
    pub pages_indexed: u64,
    /// Replies of the switch, by kind: see [`rackweave_programs::pages::PageCounters`]. One per
    /// request, except `repeated` and `dropped_meanwhile`.
    pub answers: Counters,
    /// Pages whose newest version was lost with a node.
    pub pages_lost: u64,
}

/// The state of the index in the network at one moment, all switches together.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct IndexStatistics {
    /// READs of a key, counted at their first switch.
    pub queries: u64,
    /// Requests over plain UDP, counted at their first switch.
    pub lookups: u64,
    /// How deep the switches led them, counted at the last switch: 0 to the root, 1 below the fat
    /// root, 1 + k below k layers.
    pub by_depth: Vec<u64>,
    /// Why some were not led as deep as possible, and drops.
    pub other: Counters,
}

/// The state of a sequencer at one moment.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequencerStatistics {
    /// Its number at the controller.
    pub id: u32,
    /// The next number that it hands out.
    pub next: u64,
}

/// The immutable properties of a rack.
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
