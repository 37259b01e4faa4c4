//! The switches of a rack, the attachment of its nodes, and the part of an index that each switch
//! can hold, with the resources of that part.

use super::{programs_use, switch_use};
use crate::report::object;
use crate::switch_shape;
use rackweave_controller::Topology;
use rackweave_programs::index::Index;
use rackweave_rack::{ConfigError, RackConfig, switch_config_of};
use rackweave_switch::Ledger;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The switches.
#[derive(Clone, Debug, Serialize)]
pub struct TopologyReport {
    pub name: &'static str,
    pub switches: usize,
    pub cables: usize,
    /// The switch of each node.
    pub nodes: Vec<Value>,
    /// Switches of one role have the same programs.
    pub roles: Vec<RoleReport>,
}

/// The switches of one role.
#[derive(Clone, Debug, Serialize)]
pub struct RoleReport {
    pub role: String,
    pub first: usize,
    pub last: usize,
    /// The resources of their programs.
    pub programs: Map<String, Value>,
    /// The part of an index in each of them, and its resources.
    pub index: Option<Map<String, Value>>,
}

impl TopologyReport {
    /// The topology of a configuration.
    ///
    /// # Errors
    /// If nodes cannot be attached as configured.
    pub fn of(config: &RackConfig) -> Result<Self, ConfigError> {
        let topology = config.topology()?;
        let node = |(node, place): (_, rackweave_controller::topology::NodePlacement)| {
            let name = config.name_nodes(&format!("{node:?}"));
            json!({"name": name, "switch": place.switch, "port": place.port.0})
        };
        Ok(Self {
            name: config.switch.topology.name(),
            switches: topology.switches(),
            cables: topology.cables().count(),
            nodes: topology.nodes().map(node).collect(),
            roles: roles(config, &topology),
        })
    }
}

fn roles(config: &RackConfig, topology: &Topology) -> Vec<RoleReport> {
    let mut roles: Vec<RoleReport> = Vec::new();
    for at in 0..topology.switches() {
        let role = topology.role(at);
        match roles.last_mut() {
            Some(last) if last.role == role.to_string() => last.last = at,
            _ => {
                let all = switch_shape::pipeline_config(config);
                let programs = switch_config_of(all, config, topology, at);
                roles.push(RoleReport {
                    role: role.to_string(),
                    first: at,
                    last: at,
                    programs: switch_use(config, &switch_shape::ledger(&programs)),
                    index: index_use(config, Index::new(programs.index, programs.hosts)),
                });
            }
        }
    }
    roles
}

fn index_use(config: &RackConfig, index: Index) -> Option<Map<String, Value>> {
    if !index.is_present() {
        return None;
    }
    let mut ledger = Ledger::default();
    index.declare(&mut ledger);
    let sizes = index.config();
    let mut part = object(json!({
        "queries": sizes.queries,
        "servers": sizes.servers,
        "fat_ranges": sizes.fat_ranges,
        "first_layer": sizes.first_layer,
        "layers": sizes.layers,
        "nodes": sizes.nodes,
    }));
    part.extend(programs_use(config, &ledger));
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_rack::config::{TopologyName, index_config};

    fn config(topology: TopologyName) -> RackConfig {
        let mut config = RackConfig::default();
        let switch = &mut config.switch;
        switch.topology = topology;
        (switch.consumer_rings, switch.producer_rings) = (0, 0);
        switch.index_queries = 1024;
        switch.index_servers = 4;
        switch.index_fat_ranges = 1024;
        switch.index_layers = if topology == TopologyName::One { 1 } else { 3 };
        switch.index_nodes = 4096;
        config
    }

    #[test]
    fn every_switch_has_its_part_and_it_fits_the_budget() {
        for (topology, expected) in [
            (TopologyName::One, vec![(0, 0, true, 1)]),
            (TopologyName::Two, vec![(0, 0, true, 1), (1, 1, false, 2)]),
            (
                TopologyName::FatTree,
                vec![(0, 0, true, 0), (1, 4, false, 2), (5, 12, false, 1)],
            ),
        ] {
            let config = config(topology);
            config.check().unwrap();
            let report = TopologyReport::of(&config).unwrap();
            let part = |role: &RoleReport| {
                let index = role.index.as_ref().unwrap();
                let count = |name: &str| index[name].as_u64().unwrap();
                (
                    role.first,
                    role.last,
                    count("fat_ranges") > 0,
                    count("layers"),
                )
            };
            let parts: Vec<_> = report.roles.iter().map(part).collect();
            assert_eq!(parts, expected);
            for at in 0..report.switches {
                let all = switch_shape::pipeline_config(&config);
                let topology = config.topology().unwrap();
                let programs = switch_config_of(all, &config, &topology, at);
                let ledger = switch_shape::ledger(&programs);
                switch_shape::budget(&config).check(&ledger).unwrap();
            }
        }
    }

    #[test]
    fn a_rack_without_an_index_says_where_nodes_hang() {
        let mut config = RackConfig::default();
        config.switch.topology = TopologyName::Two;
        let report = TopologyReport::of(&config).unwrap();
        assert_eq!((report.name, report.switches, report.cables), ("two", 2, 1));
        let at = |at: usize| (&report.nodes[at]["name"], &report.nodes[at]["switch"]);
        let places = [0, 2].map(at);
        let expect = [("storage0", 1), ("compute0", 0)].map(|(n, at)| (n.into(), at.into()));
        assert_eq!(
            places,
            [(&expect[0].0, &expect[0].1), (&expect[1].0, &expect[1].1)]
        );
        assert!(report.roles.iter().all(|role| role.index.is_none()));
        assert!(
            index_config(&config, rackweave_controller::topology::SwitchRole::First).servers == 0
        );
    }
}
