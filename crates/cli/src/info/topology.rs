//! Which switches a rack has, where its nodes hang, and what part of an index each switch has room
//! for, with what that takes.

use super::report::{ProgramsUse, SwitchUse};
use super::{programs_use, switch_use};
use crate::switch_shape;
use rackweave_controller::Topology;
use rackweave_programs::index::Index;
use rackweave_rack::{ConfigError, RackConfig, switch_config_of};
use rackweave_switch::Ledger;
use serde::Serialize;
use std::fmt;

/// The switches.
#[derive(Clone, Debug, Serialize)]
pub struct TopologyReport {
    pub name: &'static str,
    pub switches: usize,
    pub cables: usize,
    pub nodes: Vec<NodePlace>,
    /// Switches of one role have the same programs.
    pub roles: Vec<RoleReport>,
}

/// Where a node hangs.
#[derive(Clone, Debug, Serialize)]
pub struct NodePlace {
    pub name: String,
    pub switch: usize,
    pub port: u16,
}

/// The switches of one role.
#[derive(Clone, Debug, Serialize)]
pub struct RoleReport {
    pub role: String,
    pub first: usize,
    pub last: usize,
    pub programs: SwitchUse,
    pub index: Option<IndexUse>,
}

/// The part of an index in each of them, and what it takes alone.
#[derive(Clone, Debug, Serialize)]
pub struct IndexUse {
    pub queries: u32,
    pub servers: u16,
    pub fat_ranges: u16,
    pub first_layer: u8,
    pub layers: u8,
    pub nodes: u16,
    #[serde(flatten)]
    pub takes: ProgramsUse,
}

impl TopologyReport {
    /// What a configuration asks for.
    ///
    /// # Errors
    /// If nodes cannot hang as they are to.
    pub fn of(config: &RackConfig) -> Result<Self, ConfigError> {
        let topology = config.topology()?;
        let node = |(node, place): (_, rackweave_controller::topology::NodePlace)| NodePlace {
            name: config.name_nodes(&format!("{node:?}")),
            switch: place.switch,
            port: place.port.0,
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

fn index_use(config: &RackConfig, index: Index) -> Option<IndexUse> {
    if !index.is_present() {
        return None;
    }
    let mut ledger = Ledger::default();
    index.declare(&mut ledger);
    let sizes = index.config();
    Some(IndexUse {
        queries: sizes.queries,
        servers: sizes.servers,
        fat_ranges: sizes.fat_ranges,
        first_layer: sizes.first_layer,
        layers: sizes.layers,
        nodes: sizes.nodes,
        takes: programs_use(config, &ledger),
    })
}

impl fmt::Display for TopologyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            switches,
            cables,
            ..
        } = self;
        writeln!(f, "Topology: {name}; switches {switches}, cables {cables}")?;
        for role in &self.roles {
            write!(f, "{role}")?;
        }
        if self.switches == 1 {
            return Ok(());
        }
        for at in 0..self.switches {
            let here = self.nodes.iter().filter(|node| node.switch == at);
            let here: Vec<_> = here.map(|node| node.name.as_str()).collect();
            if !here.is_empty() {
                writeln!(f, "at switch {at}: {}", here.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for RoleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first, self.last);
        match first == last {
            true => write!(f, "switch {first}")?,
            false => write!(f, "switches {first} to {last}")?,
        }
        let programs = &self.programs.programs;
        writeln!(
            f,
            ", {}: {}, {}",
            self.role,
            programs.stages(),
            programs.bytes()
        )?;
        self.index.iter().try_for_each(|index| write!(f, "{index}"))
    }
}

impl fmt::Display for IndexUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.fat_ranges > 0 {
            parts.push(format!("a fat root of {} ranges", self.fat_ranges));
        }
        for layer in self.first_layer..self.first_layer + self.layers {
            parts.push(format!("layer {layer} of {} tree nodes", self.nodes));
        }
        if parts.is_empty() {
            parts.push("first and last hop".into());
        }
        let (parts, bytes) = (parts.join(", "), self.takes.bytes());
        writeln!(f, "the index of it: {parts}; {bytes}")?;
        self.takes.write_table(f)
    }
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
                (role.first, role.last, index.fat_ranges > 0, index.layers)
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
        let text = TopologyReport::of(&config).unwrap().to_string();
        assert!(text.starts_with("Topology: two; switches 2, cables 1\nswitch 0, the first: "));
        assert!(
            text.ends_with("at switch 0: compute0, compute1\nat switch 1: storage0, storage1\n")
        );
        assert!(!text.contains("index"), "{text}");
        assert!(
            index_config(&config, rackweave_controller::topology::SwitchRole::First).servers == 0
        );
    }
}
