//! Rules for configurations, and their error messages.

use super::RackConfig;
use core::ops::RangeInclusive;
use rackweave_verbs::Mtu;
use std::collections::BTreeSet;

/// Why a configuration is invalid. One line: position, problem, and remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}; check the path given to --config")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        error: String,
    },
    /// The text is not TOML, or does not have the right structure.
    #[error("{name}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        name: String,
        /// The line, from one.
        line: usize,
        /// The character in the line, from one.
        column: usize,
        /// The problem and the remedy.
        message: String,
    },
    /// An error at a position in the file.
    #[error("{name}:{line}:{column}: {error}")]
    At {
        /// The file.
        name: String,
        /// The line, from one.
        line: usize,
        /// The character in the line, from one.
        column: usize,
        /// The error.
        error: Box<ConfigError>,
    },
    /// A value is invalid.
    #[error("{setting} is {value}: {rule}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        rule: &'static str,
    },
    /// Two nodes have one name.
    #[error("two nodes are named {0:?}; give each [[node]] a name of its own")]
    DuplicateName(String),
    /// Two stores have one name.
    #[error("two stores are named {0:?}; give each [[store]] a name of its own")]
    DuplicateStore(String),
    /// Two stores use one file.
    #[error("store {store:?}: another store lies in {path}, too; give each a file of its own")]
    SharedFile {
        /// The second of them.
        store: String,
        /// The file.
        path: String,
    },
    /// A file store without a path.
    #[error("store {0:?} has the medium \"file\" and no file; say path = \"...\" in its [[store]]")]
    NoStorePath(String),
    /// A store on a node that does not exist.
    #[error("store {store:?} is to be on the unknown node {node:?}; {hint}")]
    StoreNode {
        /// The store.
        store: String,
        /// The node.
        node: String,
        /// The name that was probably meant.
        hint: String,
    },
    /// A store on a node that cannot have one.
    #[error(
        "store {store:?} is to be on {node}, which is a {role} node; stores are on storage nodes: \
         {storage}"
    )]
    StoreRole {
        /// The store.
        store: String,
        /// The node.
        node: String,
        /// The node's role.
        role: &'static str,
        /// The nodes that can have stores.
        storage: String,
    },
    /// A packet link without its Ethernet interfaces.
    #[error(
        "node {0:?} has a packet link; say interface = \"...\" (the node's) and \
         switch_interface = \"...\" (the switch's) in its [[node]]"
    )]
    NoInterface(String),
    /// A foreign host beside a rack in one process.
    #[error(
        "host {0:?} is a machine beside a rack of processes, and this rack is in one process; add \
         a section [hosted], or remove its [[host]]"
    )]
    HostAlone(String),
    /// A foreign host without a link to the switch, or with two.
    #[error(
        "host {0:?} has no link, or two: say udp = \"ADDRESS:PORT\" (of its VXLAN device) or \
         switch_interface = \"...\" (the switch's Ethernet interface to it) in its [[host]]"
    )]
    HostLink(String),
    /// A foreign host in a rack whose packets have codes.
    #[error(
        "host {0:?} cannot make the codes of hosted.authenticate; say authenticate = false in its \
         [[host]] to take its packets without them"
    )]
    HostCodes(String),
    /// The nodes do not fit the topology.
    #[error("switch.topology: {0}")]
    Topology(String),
    /// The switch has too few lanes for the configured rings.
    #[error(
        "switch.lanes is {lanes}, but {rings} rings with {transfers} transfers each need {needed}; \
         raise switch.lanes or lower switch.consumer_rings and switch.producer_rings"
    )]
    Lanes {
        /// Lanes configured.
        lanes: u16,
        /// Rings configured.
        rings: u32,
        /// Transfers per ring.
        transfers: u8,
        /// Lanes needed.
        needed: u32,
    },
}

pub(super) fn rule(
    holds: bool,
    setting: &'static str,
    value: impl ToString,
    rule: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        Err(ConfigError::Value {
            setting,
            value: one_line(&value.to_string()),
            rule,
        })
    }
}

/// Escapes control characters in a user's text that a message quotes: a message is one line, and
/// must not control the terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Whether it is valid as the name of a node or a store.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(allowed)
}

/// Checks that a value is in its range.
pub(super) fn within<T: PartialOrd + ToString>(
    setting: &'static str,
    value: T,
    range: RangeInclusive<T>,
    needed: &'static str,
) -> Result<(), ConfigError> {
    rule(range.contains(&value), setting, value, needed)
}

/// The same for settings where 0 means that the kind of rack chooses.
fn zero_or_within(
    setting: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
    needed: &'static str,
) -> Result<(), ConfigError> {
    rule(value == 0 || range.contains(&value), setting, value, needed)
}

/// Whether a simulated link can have this rate, in Gbit/s.
fn check_rate(setting: &'static str, rate: f64) -> Result<(), ConfigError> {
    within(setting, rate, 0.1..=10_000.0, "0.1 to 10000 is possible")
}

impl RackConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        for node in &self.node {
            if !names.insert(&node.name) {
                return Err(ConfigError::DuplicateName(node.name.clone()));
            }
            let allowed = "letters, digits, - and _ are allowed";
            rule(is_name(&node.name), "node.name", &node.name, allowed)?;
        }
        self.check_sizes()?;
        self.check_topology()?;
        self.check_index()?;
        self.check_switch()?;
        self.check_stores()?;
        self.check_timing()?;
        self.check_nic()?;
        let packets = self.link.packets;
        let fits = packets.is_power_of_two() && (16..=1 << 16).contains(&packets);
        let range = "a power of two from 16 to 65536 is needed";
        rule(fits, "link.packets", packets, range)?;
        check_rate("link.gigabits_per_second", self.link.gigabits_per_second)?;
        self.faults.check()?;
        for node in &self.node {
            if let Some(rate) = node.gigabits_per_second {
                check_rate("node.gigabits_per_second", rate)?;
            }
            node.faults.over(self.faults).check_of_node()?;
        }

        self.check_hosts()?;
        let Some(hosted) = &self.hosted else {
            return Ok(());
        };
        hosted.check()?;
        self.node
            .iter()
            .try_for_each(|node| node.check_link(hosted))
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        let (nodes, threads) = (self.node.len(), self.driver_threads);
        within(
            "the number of nodes",
            nodes,
            1..=200,
            "1 to 200 are possible",
        )?;
        let (limit, least) = (self.memory_limit, "at least 1048576 bytes are needed");
        rule(limit >= 1 << 20, "memory_limit", limit, least)?;
        within("driver_threads", threads, 0..=64, "0 to 64 are possible")?;
        let range = "16 to 1048576 are possible";
        within("payload_buffers", self.payload_buffers, 16..=1 << 20, range)
    }

    fn check_nic(&self) -> Result<(), ConfigError> {
        let mtu = self.nic.mtu;
        let is_mtu = Mtu::from_bytes(mtu).is_some();
        let range = "256, 512, 1024, 2048 or 4096 is needed";
        rule(is_mtu, "nic.mtu", mtu, range)?;
        for (setting, value) in [
            ("nic.queue_pairs", self.nic.queue_pairs),
            ("nic.completion_queues", self.nic.completion_queues),
            ("nic.regions", self.nic.regions),
            ("nic.completion_entries", self.nic.completion_entries),
            ("nic.queue_entries", self.nic.queue_entries),
        ] {
            within(setting, value, 1..=1 << 20, "1 to 1048576 are possible")?;
        }
        Ok(())
    }

    fn check_switch(&self) -> Result<(), ConfigError> {
        let switch = &self.switch;
        let (consumers, producers) = (switch.consumer_rings, switch.producer_rings);
        // Without any of the others, a switch without flows would have no function.
        let others = switch.page_entries > 0 || switch.sequencers > 0 || switch.index_servers > 0;
        let none = consumers == 0 && producers == 0 && others;
        let least = "at least 1 is needed, or 0 of both beside a page directory, sequencers or \
                     an index";
        rule(
            consumers > 0 || none,
            "switch.consumer_rings",
            consumers,
            least,
        )?;
        rule(
            producers > 0 || none,
            "switch.producer_rings",
            producers,
            least,
        )?;
        self.check_pages()?;
        let range = "0 to 4096 are possible";
        within("switch.sequencers", switch.sequencers, 0..=4096, range)?;
        let (clients, range) = (switch.sequencer_clients, "1 to 16384 are possible");
        within("switch.sequencer_clients", clients, 1..=16_384, range)?;
        let (packets, range) = (switch.egress_packets, "64 to 65536 are possible");
        within("switch.egress_packets", packets, 64..=1 << 16, range)?;
        let lanes = switch.lanes;
        within(
            "switch.lanes",
            lanes,
            8..=1 << 14,
            "8 to 16384 are possible",
        )?;
        let transfers = self.flow.transfers;
        let fits = matches!(transfers, 0 | 1 | 2 | 4);
        rule(
            fits,
            "flow.transfers",
            transfers,
            "0, 1, 2 or 4 are possible",
        )?;
        let rings = u32::from(consumers) + u32::from(producers);
        let transfers = if transfers == 0 { 4 } else { transfers };
        let needed = rings * (2 + u32::from(transfers));
        if needed > u32::from(lanes) {
            return Err(ConfigError::Lanes {
                lanes,
                rings,
                transfers,
                needed,
            });
        }
        Ok(())
    }

    fn check_pages(&self) -> Result<(), ConfigError> {
        let switch = &self.switch;
        let (entries, range) = (switch.page_entries, "0 to 16777216 are possible");
        within("switch.page_entries", entries, 0..=1 << 24, range)?;
        let size = switch.page_size;
        let fits = rackweave_wire::fabric::page::is_page_size(size);
        let range = "a power of two from 4096 to 1048576 is possible";
        rule(fits, "switch.page_size", size, range)?;
        let range = "1 to 4096 are possible";
        within("switch.page_workers", switch.page_workers, 1..=4096, range)?;
        within("switch.page_slots", switch.page_slots, 1..=4096, range)?;
        let stores = switch.page_stores;
        rule(
            stores > 0,
            "switch.page_stores",
            stores,
            "at least 1 is needed",
        )
    }

    fn check_timing(&self) -> Result<(), ConfigError> {
        let (flow, transfer) = (&self.flow, &self.transfer);
        let (least, most) = (flow.poll_interval_us, flow.poll_interval_max_us);
        let range = "1 to 1000000 is possible";
        within("flow.poll_interval_us", least, 1..=1_000_000, range)?;
        let range = "0 or flow.poll_interval_us to 1000000 is possible";
        zero_or_within("flow.poll_interval_max_us", most, least..=1_000_000, range)?;
        let (batch, range) = (flow.batch_bytes.into(), "0 or 64 to 1073741824 is possible");
        zero_or_within("flow.batch_bytes", batch, 64..=1 << 30, range)?;
        let (timeout, range) = (transfer.timeout_us, "0 or 10 to 10000000 is possible");
        zero_or_within("transfer.timeout_us", timeout, 10..=10_000_000, range)?;
        let range = "1 to 1000 are possible";
        within("transfer.retries", transfer.retries, 1..=1000, range)?;
        let (every, range) = (transfer.acknowledge_every, "1 to 1024 is possible");
        within("transfer.acknowledge_every", every, 1..=1024, range)
    }
}
