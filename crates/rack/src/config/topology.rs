//! The part of the configuration about several switches: their cables, the places of nodes, and the
//! part of an index that each has capacity for.

use super::RackConfig;
use super::check::{ConfigError, rule, within};
use crate::config::choices::{self, switch_of};
use rackweave_controller::Topology;
use rackweave_controller::topology::{PODS_MAX, Shape, SwitchRole, TopologyError};
use rackweave_programs::index::{IndexConfig, NODES_MAX};
use serde::{Deserialize, Serialize};

rackweave_base::named! {
    /// The number of switches and their cables.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TopologyName {
        /// One switch.
        #[default]
        One = "one",
        /// Two in a row. By default, compute nodes are at switch 0 and all others at switch 1.
        Two = "two",
        /// The tree below one core switch of a fat tree of `pods` pods. By default, nodes fill the
        /// edge switches in order.
        FatTree = "fat-tree",
    }
}

impl RackConfig {
    /// The switches, the cables between them, and the places of nodes.
    ///
    /// # Errors
    /// If the topology is invalid, or has no place for a node.
    pub fn topology(&self) -> Result<Topology, ConfigError> {
        let shape = self.shape();
        let nodes = self.node.iter();
        let wishes: Vec<_> = nodes.map(|node| switch_of(self, node).value).collect();
        let refusal =
            |error: TopologyError| ConfigError::Topology(self.name_nodes(&error.to_string()));
        Topology::new(shape, &wishes).map_err(refusal)
    }

    /// The arrangement of the switches.
    pub fn shape(&self) -> Shape {
        match self.switch.topology {
            TopologyName::One => Shape::One,
            TopologyName::Two => Shape::Two,
            TopologyName::FatTree => Shape::FatTree {
                pods: self.switch.pods,
            },
        }
    }

    pub(super) fn check_topology(&self) -> Result<(), ConfigError> {
        let pods = self.switch.pods;
        let fits = pods.is_multiple_of(2) && (2..=PODS_MAX).contains(&pods);
        rule(fits, "switch.pods", pods, "2, 4, 6 or 8 is needed")?;
        let topology = self.switch.topology;
        rule(
            topology == TopologyName::One || self.hosted.is_none(),
            "switch.topology",
            topology.name(),
            "a rack of processes has one switch; remove this setting or the section [hosted]",
        )?;
        self.topology().map(|_| ())
    }

    pub(super) fn check_index(&self) -> Result<(), ConfigError> {
        let switch = &self.switch;
        let (queries, range) = (switch.index_queries, "0 to 1048576 are possible");
        within("switch.index_queries", queries, 0..=1 << 20, range)?;
        let (servers, range) = (switch.index_servers, "0 to 4096 are possible");
        within("switch.index_servers", servers, 0..=4096, range)?;
        let (ranges, nodes) = (switch.index_fat_ranges, switch.index_nodes);
        let rest = queries > 0 || ranges > 0 || nodes > 0 || switch.index_layers > 0;
        let least = "at least 1 is needed beside the other settings of an index in the network; \
                     or set those to 0";
        let fits = servers > 0 || !rest;
        rule(fits, "switch.index_servers", servers, least)?;
        let range = "1 to 65534 are needed for an index in the network";
        let fits = servers == 0 || (1..=0xfffe).contains(&ranges);
        rule(fits, "switch.index_fat_ranges", ranges, range)?;
        let (layers, shape) = (switch.index_layers, self.shape());
        let range = match shape {
            Shape::One => "one switch has room for 0 to 2",
            Shape::Two => "two switches have room for 0 to 3",
            Shape::FatTree { .. } => "a fat tree has room for 0 to 4",
        };
        let fits = layers <= shape.layers_max();
        rule(fits, "switch.index_layers", layers, range)?;
        let range = "1 to 4096 are needed for each layer of an index in the network, 0 without any";
        let fits = (nodes > 0) == (layers > 0) && nodes <= NODES_MAX;
        rule(fits, "switch.index_nodes", nodes, range)
    }
}

/// The part of an index that a switch of this role holds, by the configuration.
pub fn index_config(config: &RackConfig, role: SwitchRole) -> IndexConfig {
    let sizes = &config.switch;
    if !choices::index(config).value {
        return IndexConfig::NONE;
    }
    let part = role.index_part();
    let above = part.first_layer - 1;
    let layers = sizes
        .index_layers
        .saturating_sub(above)
        .min(part.layers_max);
    IndexConfig {
        queries: sizes.index_queries,
        servers: sizes.index_servers,
        fat_ranges: if part.fat_root {
            sizes.index_fat_ranges
        } else {
            0
        },
        first_layer: part.first_layer,
        layers,
        nodes: if layers > 0 { sizes.index_nodes } else { 0 },
        first_stage: 0,
    }
}
