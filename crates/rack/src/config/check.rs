//! What a configuration must hold to, and how it is told.

use super::RackConfig;
use rackweave_verbs::Mtu;
use std::collections::BTreeSet;

/// Why a configuration is of no use. One line: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}; check the path given to --config")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        error: String,
    },
    /// The text is no TOML, or not of the right form.
    #[error("{name}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        name: String,
        /// The line, from one.
        line: usize,
        /// The character of it, from one.
        column: usize,
        /// What is wrong and what to do.
        message: String,
    },
    /// Something is wrong at a place of the file.
    #[error("{name}:{line}:{column}: {error}")]
    At {
        /// The file.
        name: String,
        /// The line, from one.
        line: usize,
        /// The character of it, from one.
        column: usize,
        /// What.
        error: Box<ConfigError>,
    },
    /// A value makes no sense.
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
    /// Two stores lie in one file.
    #[error("store {store:?}: another store lies in {path}, too; give each a file of its own")]
    SharedFile {
        /// The second of them.
        store: String,
        /// The file.
        path: String,
    },
    /// A store in a file that does not say in which.
    #[error("store {0:?} has the medium \"file\" and no file; say path = \"...\" in its [[store]]")]
    NoStorePath(String),
    /// A store on a node that there is not.
    #[error("store {store:?} is to be on the unknown node {node:?}; {hint}")]
    StoreNode {
        /// The store.
        store: String,
        /// The node.
        node: String,
        /// What was probably meant.
        hint: String,
    },
    /// A store on a node that has none.
    #[error(
        "store {store:?} is to be on {node}, which is a {role} node; stores are on storage nodes: \
         {storage}"
    )]
    StoreRole {
        /// The store.
        store: String,
        /// The node.
        node: String,
        /// What it is for.
        role: &'static str,
        /// Those that are for it.
        storage: String,
    },
    /// A link on Ethernet interfaces without interfaces.
    #[error(
        "node {0:?} has a packet link; say interface = \"...\" (the node's) and \
         switch_interface = \"...\" (the switch's) in its [[node]]"
    )]
    NoInterface(String),
    /// Nodes cannot hang as they are to.
    #[error("switch.topology: {0}")]
    Topology(String),
    /// The switch has no room for the rings that it is to have.
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

/// Escapes control characters in a text of the user's that a message quotes: a message is one line,
/// and must not control the terminal.
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

/// Whether it can be the name of a node or a store.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(allowed)
}

/// Whether a simulated link can be so fast, in Gbit/s.
fn check_rate(setting: &'static str, rate: f64) -> Result<(), ConfigError> {
    let fits = (0.1..=10_000.0).contains(&rate);
    rule(fits, setting, rate, "0.1 to 10000 is possible")
}

impl RackConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first that makes no sense.
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
        let Some(hosted) = &self.hosted else {
            return Ok(());
        };
        hosted.check()?;
        self.node
            .iter()
            .try_for_each(|node| node.check_link(hosted))
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        let nodes = self.node.len();
        rule(
            (1..=200).contains(&nodes),
            "the number of nodes",
            nodes,
            "1 to 200 are possible",
        )?;
        let limit = self.memory_limit;
        rule(
            limit >= 1 << 20,
            "memory_limit",
            limit,
            "at least 1048576 bytes are needed",
        )?;
        let threads = self.driver_threads;
        rule(
            threads <= 64,
            "driver_threads",
            threads,
            "0 to 64 are possible",
        )?;
        let buffers = self.payload_buffers;
        rule(
            (16..=1 << 20).contains(&buffers),
            "payload_buffers",
            buffers,
            "16 to 1048576 are possible",
        )?;
        Ok(())
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
            let fits = (1..=1 << 20).contains(&value);
            rule(fits, setting, value, "1 to 1048576 are possible")?;
        }
        Ok(())
    }

    fn check_switch(&self) -> Result<(), ConfigError> {
        let switch = &self.switch;
        let (consumers, producers) = (switch.consumer_rings, switch.producer_rings);
        // Without any of the others a switch without flows would do nothing.
        let others = switch.page_entries > 0 || switch.sequencers > 0 || switch.index_servers > 0;
        let none = consumers == 0 && producers == 0 && others;
        let least = "at least 1 is needed, or 0 of both beside a page directory, sequencers or \
                     an index";
        let fits = consumers > 0 || none;
        rule(fits, "switch.consumer_rings", consumers, least)?;
        let fits = producers > 0 || none;
        rule(fits, "switch.producer_rings", producers, least)?;
        self.check_pages()?;
        let sequencers = switch.sequencers;
        let range = "0 to 4096 are possible";
        rule(sequencers <= 4096, "switch.sequencers", sequencers, range)?;
        let clients = switch.sequencer_clients;
        let fits = (1..=16_384).contains(&clients);
        let range = "1 to 16384 are possible";
        rule(fits, "switch.sequencer_clients", clients, range)?;
        let packets = switch.egress_packets;
        let fits = (64..=1 << 16).contains(&packets);
        rule(
            fits,
            "switch.egress_packets",
            packets,
            "64 to 65536 are possible",
        )?;
        let lanes = switch.lanes;
        rule(
            (8..=1 << 14).contains(&lanes),
            "switch.lanes",
            lanes,
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
        let entries = switch.page_entries;
        let fits = entries <= 1 << 24;
        rule(
            fits,
            "switch.page_entries",
            entries,
            "0 to 16777216 are possible",
        )?;
        let size = switch.page_size;
        let fits = rackweave_wire::fabric::page::is_page_size(size);
        let range = "a power of two from 4096 to 1048576 is possible";
        rule(fits, "switch.page_size", size, range)?;
        let workers = switch.page_workers;
        let fits = (1..=4096).contains(&workers);
        rule(
            fits,
            "switch.page_workers",
            workers,
            "1 to 4096 are possible",
        )?;
        let slots = switch.page_slots;
        let fits = (1..=4096).contains(&slots);
        rule(fits, "switch.page_slots", slots, "1 to 4096 are possible")?;
        let stores = switch.page_stores;
        rule(
            stores > 0,
            "switch.page_stores",
            stores,
            "at least 1 is needed",
        )
    }

    fn check_timing(&self) -> Result<(), ConfigError> {
        let flow = &self.flow;
        let (least, most) = (flow.poll_interval_us, flow.poll_interval_max_us);
        let fits = (1..=1_000_000).contains(&least);
        rule(
            fits,
            "flow.poll_interval_us",
            least,
            "1 to 1000000 is possible",
        )?;
        let fits = most == 0 || (least..=1_000_000).contains(&most);
        rule(
            fits,
            "flow.poll_interval_max_us",
            most,
            "0 or flow.poll_interval_us to 1000000 is possible",
        )?;
        let batch = flow.batch_bytes;
        let fits = batch == 0 || (64..=1 << 30).contains(&batch);
        rule(
            fits,
            "flow.batch_bytes",
            batch,
            "0 or 64 to 1073741824 is possible",
        )?;
        let timeout = self.transfer.timeout_us;
        let fits = timeout == 0 || (10..=10_000_000).contains(&timeout);
        rule(
            fits,
            "transfer.timeout_us",
            timeout,
            "0 or 10 to 10000000 is possible",
        )?;
        let retries = self.transfer.retries;
        rule(
            (1..=1000).contains(&retries),
            "transfer.retries",
            retries,
            "1 to 1000 are possible",
        )?;
        let every = self.transfer.acknowledge_every;
        let fits = (1..=1024).contains(&every);
        rule(
            fits,
            "transfer.acknowledge_every",
            every,
            "1 to 1024 is possible",
        )
    }
}
