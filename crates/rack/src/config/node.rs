//! A node of the configuration.

use super::faults::NodeFaults;
use super::hosted::LinkKind;
use rackweave_wire::fabric::ring::ByteOrder;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

rackweave_base::named! {
    /// The role of a node.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// Runs queries.
        Compute = "compute",
        /// Lends memory.
        Memory = "memory",
        /// Holds tables.
        Storage = "storage",
        /// A data processing unit.
        Dpu = "dpu",
        /// A place for a program that joins a hosted rack without a name of its own.
        Guest = "guest",
    }
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
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its name, unique in the rack.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its edge switch, if there are several switches; by default, the topology decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<u16>,
    /// The byte order of its rings' words.
    #[serde(default)]
    pub byte_order: Endianness,
    /// Its link to the switch of a hosted rack, if different from `hosted.link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkKind>,
    /// The Ethernet interface of a `packet` link, at the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The Ethernet interface of a `packet` link, at the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_interface: Option<String>,
    /// Where the node binds its end of a `udp` link; by default, any port of the loopback address
    /// or of the address that leads to the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<SocketAddr>,
    /// Gbit/s of its link in a simulated rack, if different from `link.gigabits_per_second`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gigabits_per_second: Option<f64>,
    /// Faults of its link, both ways, where different from `faults`.
    #[serde(default, skip_serializing_if = "NodeFaults::is_empty")]
    pub faults: NodeFaults,
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
            gigabits_per_second: None,
            faults: NodeFaults::default(),
        }
    }
}
