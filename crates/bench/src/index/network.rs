//! The switches' part of a run: what is asked for most is loaded into them, again and again.

use super::error::IndexRunError;
use rackweave_base::{Duration, Instant};
use rackweave_controller::index::{Adapter, AdapterConfig, KeyWeights};
use rackweave_rack::config::{BudgetName, TopologyName};
use rackweave_rack::{Index, LoadProgress, Rack, RackConfig};
use serde::Serialize;

/// The switches' tables, if the configuration does not say: those of fat-btree, section IV-A.
const FAT_RANGES: u16 = 1024;
const NODES: u16 = 4096;

/// How often an embedded run looks anew at what is asked for.
pub(super) const EVERY: Duration = Duration::from_secs(2);

/// What the switches did during a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NetworkCounts {
    /// Plans that came to serve.
    pub loads: u64,
    /// Ranges of the fat root in the last one.
    pub ranges: usize,
    /// Tree nodes of each layer in the last one.
    pub nodes: Vec<usize>,
    /// Tree nodes that were gone when they were to be pinned.
    pub gone: u64,
    /// Queries by how deep the switches led them: to the root, below the fat root, below the first
    /// layer, and so on.
    pub by_depth: Vec<u64>,
    /// Queries dropped since their queue pair was not known.
    pub unknown_pairs: u64,
}

/// Gives a configuration that says nothing of an index in its switches room for one, in place of
/// flows: no hardware switch has room for both.
pub(super) fn room(config: &mut RackConfig, endpoints: u64, workers: u64) {
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
    // An endpoint that starts again has another number.
    set(&mut switch.index_servers, (endpoints * 2 + 2) as u16);
    set(&mut switch.index_fat_ranges, FAT_RANGES);
    set(&mut switch.index_nodes, NODES);
    if switch.index_layers == 0 {
        switch.index_layers = layers;
    }
    let pairs = (endpoints * workers) as u32;
    switch.index_queries = switch.index_queries.max(pairs.next_power_of_two());
}

/// Who has the switches loaded.
#[derive(Debug)]
pub(super) struct Caching {
    adapter: Adapter,
}

impl Caching {
    /// Loads what the trees look like, with nothing known of what is asked for; looks anew every
    /// so often from `now` on.
    pub fn begin(
        rack: &Rack,
        index: &mut Index,
        (now, every): (Instant, Duration),
    ) -> Result<Self, IndexRunError> {
        let config = AdapterConfig {
            every,
            half_life: every * 4,
            ..AdapterConfig::default()
        };
        if let Some(network) = index.network_mut() {
            network.begin_load(rack, &KeyWeights::default())?;
            while network.step(rack)? == LoadProgress::More {}
        }
        Ok(Self {
            adapter: Adapter::new(config, now),
        })
    }

    /// Goes on with a load; begins one when it is worth while.
    pub fn look(&mut self, rack: &Rack, index: &mut Index) -> Result<(), IndexRunError> {
        if let Some(network) = index.network_mut() {
            network.adapt(rack, &mut self.adapter)?;
        }
        Ok(())
    }
}

/// What the switches did; nothing if the index is not in the network.
pub(super) fn counts(rack: &Rack, index: &Index) -> Option<NetworkCounts> {
    let network = index.network()?;
    let (summary, all) = (network.summary(), network.counters(rack));
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
