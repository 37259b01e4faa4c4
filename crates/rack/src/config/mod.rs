//! The rack's configuration: one TOML file, every setting with a default.
//!
//! Times are in microseconds, sizes in bytes, rates in the units given in their names. Unknown keys
//! are refused with the nearest known name; values are checked before anything is built.
//!
//! [`RackConfig`] is the whole configuration; `sections` is about the whole rack, `node` about one
//! node, `guest` about places for programs, `host` about machines beside a hosted rack, `store`
//! about the storage of pages, `faults` about injected faults, `hosted` about processes and
//! `topology` about several switches. `check` has the rules for values, `syntax` the messages for
//! refused text.

mod check;
pub(crate) mod choices;
mod faults;
mod guest;
mod host;
pub(crate) mod hosted;
pub mod nearest;
mod node;
mod sections;
mod standby;
mod store;
mod syntax;
mod topology;

use choices::Kind;
use rackweave_base::NodeId;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use check::ConfigError;
pub use faults::{FaultSection, NodeFaults};
pub use guest::GuestConfig;
pub use host::HostConfig;
pub use hosted::{HostedSection, LinkKind, SecurityKind};
pub use node::{Endianness, NodeConfig, Role};
pub use sections::{
    BudgetName, CheckPolicy, FlowSection, IcrcMethod, LinkSection, NicSection, SwitchSection,
    TransferSection,
};
pub use standby::{StandbySection, SwitchPlace};
pub use store::{Medium, StoreConfig, StoreError};
pub use topology::{TopologyName, index_config};

/// The configuration of a whole rack.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RackConfig {
    /// The seed of all randomness.
    pub seed: u64,
    /// Maximum bytes of region memory of the rack.
    pub memory_limit: u64,
    /// Payload buffers of 4096 bytes for READ responses that cannot refer to their region.
    pub payload_buffers: u32,
    /// Threads of an embedded rack that drive it besides waiting threads.
    pub driver_threads: u32,
    /// The nodes.
    pub node: Vec<NodeConfig>,
    /// Places for guests. [`RackConfig::parse`] turns them into nodes behind the others, so it
    /// leaves none here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guest: Vec<GuestConfig>,
    /// Foreign hosts: machines beside a hosted rack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<HostConfig>,
    /// Stores of pages: namespaces of NVMe targets on storage nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub store: Vec<StoreConfig>,
    /// The switch.
    pub switch: SwitchSection,
    /// The transfer engine.
    pub transfer: TransferSection,
    /// The flows.
    pub flow: FlowSection,
    /// All NICs.
    pub nic: NicSection,
    /// All links.
    pub link: LinkSection,
    /// Faults of all links.
    pub faults: FaultSection,
    /// Processes of a hosted rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted: Option<HostedSection>,
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
            guest: Vec::new(),
            host: Vec::new(),
            store: Vec::new(),
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

impl RackConfig {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read or has an invalid value: file, line and remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.display().to_string(),
            error: error.to_string(),
        })?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        if let Some(folder) = path.parent() {
            if let Some(hosted) = &mut config.hosted {
                hosted.resolve_paths(folder);
            }
            for store in &mut config.store {
                store.resolve_path(folder);
            }
        }
        Ok(config)
    }

    /// Reads TOML text; messages name it `name`.
    ///
    /// # Errors
    /// As for [`RackConfig::read`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| syntax::refusal(text, name, &error))?;
        let checked = config.place_guests().and_then(|config| {
            config.check()?;
            Ok(config)
        });
        checked.map_err(|error| syntax::at_its_place(text, name, error))
    }

    /// The configuration as TOML text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every setting has a TOML form")
    }

    /// The nodes with a role, by number.
    pub fn nodes_of(&self, role: Role) -> Vec<NodeId> {
        let numbered = self
            .node
            .iter()
            .enumerate()
            .filter(|(_, node)| node.role == role);
        numbered.map(|(at, _)| NodeId(at as u16)).collect()
    }

    /// The node of this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        let at = self.node.iter().position(|node| node.name == name)?;
        u16::try_from(at).ok().map(NodeId)
    }

    /// The faults of a node's link: its own settings override those of all links.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn faults_of(&self, node: NodeId) -> FaultSection {
        self.node[usize::from(node.0)].faults.over(self.faults)
    }

    /// An error's text with names of nodes instead of numbers: lower crates know only numbers
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

    /// Whether the ICRC is computed in a rack within one process.
    pub fn needs_check(&self) -> bool {
        choices::icrc(self, Kind::Embedded).value
    }
}

#[cfg(test)]
mod documented_tests;
#[cfg(test)]
mod mistakes_tests;
#[cfg(test)]
mod tests;
