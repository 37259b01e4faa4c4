//! The rack's configuration: one TOML file, every setting with a default.
//!
//! Times are in microseconds, sizes in bytes, rates in the units that their names say. Unknown keys
//! are refused with the nearest known name; values are checked before anything is built.

mod check;
mod hosted;
pub mod nearest;
mod topology;

use rackweave_base::Duration;
use rackweave_link::FaultConfig;
use rackweave_wire::fabric::ring::ByteOrder;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;

pub use check::ConfigError;
pub use hosted::{HostedSection, LinkKind, SecurityKind};
pub use topology::{TopologyName, index_config};

/// What a node is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs queries.
    Compute,
    /// Lends memory.
    Memory,
    /// Holds tables.
    Storage,
    /// A data processing unit.
    Dpu,
}

/// The byte order of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Endianness {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl From<Endianness> for ByteOrder {
    fn from(order: Endianness) -> Self {
        match order {
            Endianness::Little => ByteOrder::Little,
            Endianness::Big => ByteOrder::Big,
        }
    }
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its name, unique in the rack.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The switch that it hangs at, where there are several; without it, as the topology says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<u16>,
    /// The byte order of its rings' words.
    #[serde(default)]
    pub byte_order: Endianness,
    /// How it reaches the switch of a hosted rack, if not as `hosted.link` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkKind>,
    /// The Ethernet interface of a `packet` link, at the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The Ethernet interface of a `packet` link, at the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_interface: Option<String>,
    /// Where the node binds its end of a `udp` link; without it, any port of the loopback address
    /// or of the address that leads to the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<SocketAddr>,
}

impl NodeConfig {
    /// A node with every other setting at its default.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            switch: None,
            byte_order: Endianness::Little,
            link: None,
            interface: None,
            switch_interface: None,
            udp: None,
        }
    }
}

/// The whole rack.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RackConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Bytes of region memory that the rack gives out at most.
    pub memory_limit: u64,
    /// Payload buffers of 4096 bytes for READ responses that cannot refer to their region.
    pub payload_buffers: u32,
    /// Threads of an embedded rack that drive it beside those who wait.
    pub driver_threads: u32,
    /// The nodes.
    pub node: Vec<NodeConfig>,
    /// The switch.
    pub switch: SwitchSection,
    /// The transfer engine.
    pub transfer: TransferSection,
    /// The flows.
    pub flow: FlowSection,
    /// Every NIC.
    pub nic: NicSection,
    /// Every link.
    pub link: LinkSection,
    /// What goes wrong, on every link.
    pub faults: FaultSection,
    /// Processes, for a hosted rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted: Option<HostedSection>,
}

/// What the switch is taken for.
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

/// How the ICRC of a rewritten packet is kept right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IcrcMethod {
    /// The trailer is updated.
    Update,
    /// The header is balanced so that the old trailer fits.
    Balance,
}

/// The switch, or all of them: with several, what is said of flows, pages and sequencers is said of
/// switch 0, the rest of each.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchSection {
    /// How many there are, and how they are cabled.
    pub topology: TopologyName,
    /// Pods of a fat tree: 2, 4, 6 or 8.
    pub pods: u16,
    /// What the programs must fit.
    pub budget: BudgetName,
    /// Bytes of tables and registers under the budget `software`.
    pub memory: u64,
    /// Queue pairs of the switch.
    pub lanes: u16,
    /// Consumer rings at a time.
    pub consumer_rings: u16,
    /// Producer rings at a time.
    pub producer_rings: u16,
    /// Packets that a port's egress queue holds.
    pub egress_packets: u32,
    /// How the ICRC of rewritten packets is kept right.
    pub icrc: IcrcMethod,
    /// Pages that the page directory indexes; zero: there is no page directory. It and the flows
    /// together fit no hardware switch: set `consumer_rings` and `producer_rings` to zero then, or
    /// `budget` to `software`.
    pub page_entries: u32,
    /// Bytes of a page, a power of two from 4096 to 1048576.
    pub page_size: u32,
    /// Workers of all nodes together that ask for pages.
    pub page_workers: u16,
    /// Requests for pages of all workers together that may be under way.
    pub page_slots: u16,
    /// Stores of pages: namespaces of NVMe targets.
    pub page_stores: u8,
    /// Requests for a page that is not indexed after which it is, rounded up to a power of two;
    /// zero: never.
    pub page_promote_at: u32,
    /// Sequencers at a time; zero: there are none in the switch. On `tofino1` they fit beside the
    /// transfer engine alone, without flows and page directory; on `tofino2` beside either.
    pub sequencers: u16,
    /// Clients of all sequencers together: queue pairs that ask the switch for numbers.
    pub sequencer_clients: u16,
    /// Queue pairs over which clients query indexes in the network.
    pub index_queries: u32,
    /// Servers of such indexes; zero: no part of an index is in a switch. An index fits no hardware
    /// switch beside flows or a page directory.
    pub index_servers: u16,
    /// Ranges of the fat root, which is in switch 0.
    pub index_fat_ranges: u16,
    /// Layers of tree nodes below the fat root, in all switches of a way together: at most 2 with
    /// one switch, 3 with two, 4 in a fat tree.
    pub index_layers: u8,
    /// Tree nodes of each layer in each switch that has it.
    pub index_nodes: u16,
}

/// The transfer engine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransferSection {
    /// Microseconds without a sign of life before something is asked for again. Zero: chosen by
    /// the kind of rack (embedded 50 000, simulated 250).
    pub timeout_us: u64,
    /// How often to ask again before giving up.
    pub retries: u32,
    /// Fragments after which the target is asked for an acknowledgement.
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
    /// Bytes of one transfer at most. Zero: chosen by the kind of rack (embedded 1 MiB; simulated
    /// 256 KiB, so that a port's queue holds all transfers of a consumer; hosted over shared memory
    /// 4 MiB, since every transfer costs processes their turns; hosted over other links 256 KiB, so
    /// that a socket's buffer holds it).
    pub batch_bytes: u32,
    /// Transfers of one consumer under way at a time: 1, 2 or 4. Zero: chosen by the kind of rack
    /// (embedded 2, so that they stay within a cache; simulated 4, so that no link idles; hosted
    /// over shared memory 4, so that no process waits for another, over other links 2).
    pub transfers: u8,
}

/// Every NIC.
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
    /// Entries of one completion queue at most.
    pub completion_entries: u32,
    /// Entries of one send or receive queue at most.
    pub queue_entries: u32,
    /// Whether rate control (DCQCN) is on. Only a simulated rack has a line rate to control.
    pub congestion_control: bool,
}

/// Whether the ICRC is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckPolicy {
    /// Only where a link does not promise integrity.
    Auto,
    /// Everywhere.
    Always,
}

/// Every link.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSection {
    /// Packets that an in-process link holds each way, a power of two.
    pub packets: u32,
    /// Whether the ICRC is computed.
    pub icrc: CheckPolicy,
    /// Gbit/s of a simulated link.
    pub gigabits_per_second: f64,
}

/// What goes wrong, as probabilities per packet.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSection {
    /// Lost.
    pub loss: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Overtaken by later ones.
    pub reorder: f64,
    /// A bit flipped.
    pub corrupt: f64,
    /// Microseconds for which a packet that is overtaken is held back at most.
    pub reorder_delay_us: u64,
}

impl Default for RackConfig {
    /// Two storage and two compute nodes.
    fn default() -> Self {
        Self {
            seed: 1,
            memory_limit: 1 << 30,
            payload_buffers: 1024,
            driver_threads: 1,
            node: vec![
                NodeConfig::new("storage0", Role::Storage),
                NodeConfig::new("storage1", Role::Storage),
                NodeConfig::new("compute0", Role::Compute),
                NodeConfig::new("compute1", Role::Compute),
            ],
            switch: SwitchSection::default(),
            transfer: TransferSection::default(),
            flow: FlowSection::default(),
            nic: NicSection::default(),
            link: LinkSection::default(),
            faults: FaultSection::default(),
            hosted: None,
        }
    }
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
        }
    }
}

impl Default for FaultSection {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            reorder_delay_us: 5,
        }
    }
}

impl FaultSection {
    /// Whether anything goes wrong at all.
    pub fn any(&self) -> bool {
        [self.loss, self.duplicate, self.reorder, self.corrupt]
            .iter()
            .any(|&rate| rate > 0.0)
    }

    /// The same for the links.
    pub fn to_links(self) -> FaultConfig {
        FaultConfig {
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            corrupt: self.corrupt,
            reorder_delay: Duration::from_micros(self.reorder_delay_us),
            ..FaultConfig::default()
        }
    }
}

impl RackConfig {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read or says something that makes no sense: file, line and remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.display().to_string(),
            error: error.to_string(),
        })?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        if let (Some(hosted), Some(folder)) = (&mut config.hosted, path.parent()) {
            hosted.resolve_paths(folder);
        }
        Ok(config)
    }

    /// Reads TOML text; `name` stands for it in messages.
    ///
    /// # Errors
    /// As for [`RackConfig::read`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| check::syntax(text, name, &error))?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as TOML text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every setting has a TOML form")
    }

    /// The nodes of a role, by number.
    pub fn nodes_of(&self, role: Role) -> Vec<rackweave_base::NodeId> {
        let numbered = self
            .node
            .iter()
            .enumerate()
            .filter(|(_, node)| node.role == role);
        numbered
            .map(|(at, _)| rackweave_base::NodeId(at as u16))
            .collect()
    }

    /// An error's text with the names of nodes for their numbers: lower rooms know only those
    /// (`node2`).
    pub fn name_nodes(&self, text: &str) -> String {
        let mut named = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("node") {
            let (before, from) = rest.split_at(at);
            let digits = from[4..].bytes().take_while(u8::is_ascii_digit).count();
            let (token, after) = from.split_at(4 + digits);
            let number = token[4..].parse::<usize>().ok();
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let stands_alone = !before.ends_with(is_word) && !after.starts_with(is_word);
            let node = number.and_then(|number| self.node.get(number));
            named.push_str(before);
            named.push_str(match node {
                Some(node) if stands_alone => &node.name,
                _ => token,
            });
            rest = after;
        }
        named + rest
    }

    /// Whether links between nodes and switch promise integrity, so that the ICRC may be left out.
    pub fn needs_check(&self) -> bool {
        self.link.icrc == CheckPolicy::Always || self.faults.corrupt > 0.0
    }
}

#[cfg(test)]
mod tests;
