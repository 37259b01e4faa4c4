//! The switches' part of a run: the most frequent keys are loaded into them, repeatedly.

use crate::ycsb::prelude::*;
use rackweave_controller::index::AdapterConfig;
use rackweave_rack::config::TopologyName;
use rackweave_rack::{IndexNetworkSpec, RackKind};
use serde::Serialize;

/// Default sizes of the switches' tables. Source: fat-btree, section IV-A.
const FAT_RANGES: u16 = 1024;
const NODES: u16 = 4096;

/// What the switches did during a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NetworkCounts {
    /// Plans that took effect.
    pub loads: u64,
    /// Ranges of the fat root in the last plan.
    pub ranges: usize,
    /// Tree nodes of each layer in the last plan.
    pub nodes: Vec<usize>,
    /// Tree nodes that no longer existed when they were to be pinned.
    pub gone: u64,
    /// Queries by the depth to which the switches led them: to the root, below the fat root, below
    /// the first layer, and so on.
    pub by_depth: Vec<u64>,
    /// Queries dropped because their queue pair was unknown.
    pub unknown_pairs: u64,
}

/// Reserves switch tables for an index if the configuration has none, in place of those for flows:
/// a hardware switch cannot hold both.
pub(super) fn reserve(config: &mut RackConfig, endpoints: u64, workers: u64) {
    let layers = match (config.switch.topology, config.switch.budget) {
        (TopologyName::One, BudgetName::Tofino1) => 1,
        (TopologyName::One, _) => 2,
        (TopologyName::Two, _) => 3,
        (TopologyName::FatTree, _) => 4,
    };
    let switch = &mut config.switch;
    if switch.index_servers == 0 && switch.budget != BudgetName::Software {
        (switch.consumer_rings, switch.producer_rings) = (0, 0);
    }
    let set = |given: &mut u16, usual| {
        if *given == 0 {
            *given = usual;
        }
    };
    // An endpoint that restarts gets a new number.
    set(&mut switch.index_servers, (endpoints * 2 + 2) as u16);
    set(&mut switch.index_fat_ranges, FAT_RANGES);
    set(&mut switch.index_nodes, NODES);
    if switch.index_layers == 0 {
        switch.index_layers = layers;
    }
    let pairs = (endpoints * workers) as u32;
    switch.index_queries = switch.index_queries.max(pairs.next_power_of_two());
}

/// The part of an index that is opened to the network, and how often its plan is adapted to the
/// load; often, because virtual time is short.
pub(super) fn settings(rack: &Rack) -> (IndexNetworkSpec, AdapterConfig) {
    let usual = IndexNetworkSpec::default();
    let (grace, every) = match rack.backend().kind() {
        RackKind::Simulated => (Duration::from_millis(1), Duration::from_millis(5)),
        RackKind::Embedded | RackKind::Hosted => (usual.grace, Duration::from_secs(2)),
    };
    let adapt = AdapterConfig {
        every,
        half_life: every * 4,
        ..AdapterConfig::default()
    };
    (IndexNetworkSpec { grace, ..usual }, adapt)
}

/// What the switches did; none if the index is not in the network.
pub(super) fn counts(index: &IndexService) -> Option<NetworkCounts> {
    let all = index.network_counters()?;
    let index = index.index();
    let summary = index.network()?.summary();
    let deepest = all.by_depth.iter().rposition(|&queries| queries > 0);
    Some(NetworkCounts {
        loads: summary.loads,
        ranges: summary.plan.ranges,
        nodes: summary.plan.nodes.clone(),
        gone: summary.gone,
        by_depth: all.by_depth[..deepest.map_or(0, |at| at + 1)].to_vec(),
        unknown_pairs: all.unknown_pair,
    })
}
