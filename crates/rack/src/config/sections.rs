//! The sections of the configuration about the whole rack, and their defaults.

use super::topology::TopologyName;
use serde::{Deserialize, Serialize};

/// The hardware whose limits the switch must respect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetName {
    /// Memory is the only limit.
    Software,
    /// Intel Tofino.
    Tofino1,
    /// Intel Tofino 2.
    Tofino2,
}

/// How the ICRC of a rewritten packet is kept valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IcrcMethod {
    /// The trailer is updated.
    Update,
    /// The header is balanced so that the old trailer fits.
    Balance,
}

/// The switch, or all of them: with several, settings of flows, pages and sequencers apply to
/// switch 0, the others to each.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchSection {
    /// The number of switches and their cables.
    pub topology: TopologyName,
    /// Pods of a fat tree: 2, 4, 6 or 8.
    pub pods: u16,
    /// The budget that the programs must fit.
    pub budget: BudgetName,
    /// Bytes of tables and registers under the budget `software`.
    pub memory: u64,
    /// Queue pairs of the switch.
    pub lanes: u16,
    /// Maximum number of consumer rings.
    pub consumer_rings: u16,
    /// Maximum number of producer rings.
    pub producer_rings: u16,
    /// Capacity of a port's egress queue, in packets.
    pub egress_packets: u32,
    /// How the ICRC of rewritten packets is kept valid.
    pub icrc: IcrcMethod,
    /// Pages that the page directory indexes; zero: there is no page directory. A hardware switch
    /// cannot hold both it and the flows: set `consumer_rings` and `producer_rings` to zero then,
    /// or `budget` to `software`.
    pub page_entries: u32,
    /// Bytes of a page, a power of two from 4096 to 1048576.
    pub page_size: u32,
    /// Workers of all nodes together that request pages.
    pub page_workers: u16,
    /// Pending requests for pages of all workers together.
    pub page_slots: u16,
    /// Stores of pages: namespaces of NVMe targets.
    pub page_stores: u8,
    /// Requests for an unindexed page after which it is indexed, rounded up to a power of two;
    /// zero: never.
    pub page_promote_at: u32,
    /// Maximum number of sequencers; zero: there are none in the switch. On `tofino1` they fit only
    /// without flows and page directory, beside the transfer engine; on `tofino2` beside either.
    pub sequencers: u16,
    /// Clients of all sequencers together: queue pairs that request numbers from the switch.
    pub sequencer_clients: u16,
    /// Queue pairs over which clients query indexes in the network.
    pub index_queries: u32,
    /// Servers of such indexes; zero: no part of an index is in a switch. A hardware switch cannot
    /// hold an index with flows or a page directory.
    pub index_servers: u16,
    /// Ranges of the fat root, which is in switch 0.
    pub index_fat_ranges: u16,
    /// Layers of tree nodes below the fat root, in all switches of a path together: at most 2 with
    /// one switch, 3 with two, 4 in a fat tree.
    pub index_layers: u8,
    /// Tree nodes of each layer in each switch that holds it.
    pub index_nodes: u16,
}

/// The transfer engine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransferSection {
    /// Microseconds without a reply before a request is repeated. Zero: chosen by the kind of rack
    /// (embedded 50 000, simulated 250).
    pub timeout_us: u64,
    /// Maximum number of repetitions.
    pub retries: u32,
    /// Fragments after which the target is requested to acknowledge.
    pub acknowledge_every: u32,
}

/// The flows.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSection {
    /// Microseconds between two polls of a ring that changes.
    pub poll_interval_us: u64,
    /// Microseconds between two polls of a ring that has not changed for long. Zero: chosen by the
    /// kind of rack (embedded 4000, so that an idle rack sleeps; simulated 200).
    pub poll_interval_max_us: u64,
    /// Maximum bytes of one transfer. Zero: chosen by the kind of rack (embedded 1 MiB; simulated
    /// 256 KiB, so that a port's queue holds all transfers of a consumer; hosted over shared memory
    /// 4 MiB, since every transfer costs processes their turns; hosted over other links 256 KiB, so
    /// that a socket's buffer holds it).
    pub batch_bytes: u32,
    /// Transfers of one consumer in flight at a time: 1, 2 or 4. Zero: chosen by the kind of rack
    /// (embedded 2, so that they stay within a cache; simulated 4, so that no link idles; hosted
    /// over shared memory 4, so that no process waits for another, over other links 2).
    pub transfers: u8,
}

/// All NICs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NicSection {
    /// The path MTU of connections in bytes.
    pub mtu: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Regions.
    pub regions: u32,
    /// Maximum entries of a completion queue.
    pub completion_entries: u32,
    /// Maximum entries of a send or receive queue.
    pub queue_entries: u32,
    /// Whether rate control (DCQCN) is on. Only a simulated rack has a line rate to control.
    pub congestion_control: bool,
}

/// Whether the ICRC is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckPolicy {
    /// Only where a link does not guarantee integrity.
    Auto,
    /// Everywhere.
    Always,
}

/// All links.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSection {
    /// Capacity of an in-process link each way in packets, a power of two.
    pub packets: u32,
    /// Whether the ICRC is computed.
    pub icrc: CheckPolicy,
    /// Gbit/s of a simulated link.
    pub gigabits_per_second: f64,
    /// Whether requests from node to node may be executed without packets in an embedded rack.
    pub cut_through: bool,
}

impl Default for SwitchSection {
    fn default() -> Self {
        Self {
            topology: TopologyName::One,
            pods: 4,
            budget: BudgetName::Tofino1,
            memory: 64 << 20,
            lanes: 2048,
            consumer_rings: 64,
            producer_rings: 128,
            egress_packets: 1024,
            icrc: IcrcMethod::Update,
            page_entries: 0,
            page_size: 64 << 10,
            page_workers: 16,
            page_slots: 256,
            page_stores: 1,
            page_promote_at: 0,
            sequencers: 0,
            sequencer_clients: 256,
            index_queries: 0,
            index_servers: 0,
            index_fat_ranges: 0,
            index_layers: 0,
            index_nodes: 0,
        }
    }
}

impl Default for TransferSection {
    fn default() -> Self {
        Self {
            timeout_us: 0,
            retries: 16,
            acknowledge_every: 32,
        }
    }
}

impl Default for FlowSection {
    fn default() -> Self {
        Self {
            poll_interval_us: 5,
            poll_interval_max_us: 0,
            batch_bytes: 0,
            transfers: 0,
        }
    }
}

impl Default for NicSection {
    fn default() -> Self {
        Self {
            mtu: 4096,
            queue_pairs: 1024,
            completion_queues: 256,
            regions: 1024,
            completion_entries: 1 << 14,
            queue_entries: 1 << 12,
            congestion_control: false,
        }
    }
}

impl Default for LinkSection {
    fn default() -> Self {
        Self {
            packets: 1024,
            icrc: CheckPolicy::Auto,
            gigabits_per_second: 100.0,
            cut_through: true,
        }
    }
}
