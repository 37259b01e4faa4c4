//! The code that runs in real and in virtual time share: the index and its records; and the
//! switches' part of a run: the most frequent keys are loaded into them, repeatedly.

use super::options::{Access, IndexOptions};
use super::records::{Records, Turns, sweep};
use super::table::{IndexTable, Local, Way};
use super::{IndexOutcome, Outcome, endpoints};
use crate::ycsb::prelude::*;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::index::{AdapterConfig, KeyWeights};
use rackweave_endpoint::index::{EndpointId, PartitionMap};
use rackweave_rack::config::TopologyName;
use rackweave_rack::services::TIME_LIMIT;
use rackweave_rack::{IndexEndpointSpec, IndexNetworkSpec, IndexSpec, RackKind};
use rackweave_verbs::Mtu;
use serde::Serialize;

/// The writer of the initial records.
const LOADER: Stamp = Stamp {
    writer: u16::MAX,
    sequence: 0,
};

/// Records between two checks whether the user wants to stop.
const LOOK_EVERY: u64 = 4096;

/// An index run and its rack.
pub type Job = crate::ycsb::Job<IndexOptions>;

impl Job {
    /// The node of an endpoint.
    pub(super) fn endpoint(&self, at: u16) -> Option<NodeId> {
        match at {
            0 => Some(self.nodes.storage),
            _ => self.nodes.dpu,
        }
    }
}

/// An index on a rack, loaded with records; runs operate on it.
pub struct Loaded<'a> {
    pub(super) job: &'a Job,
    pub(super) index: IndexService,
    pub(super) run: Run,
    pub(super) records: Records,
    pub(super) load_seconds: f64,
}

impl<'a> Loaded<'a> {
    /// Sets up an index on a rack that is large enough ([`IndexOptions::rack`]), and loads the
    /// records. If the job's access is in-network, the index is opened to the network, and runs of
    /// any access may follow.
    ///
    /// # Errors
    /// If the run is invalid, or index or records cannot be set up.
    pub fn new(rack: &Rack, job: &'a Job, progress: Progress<'_>) -> Result<Self> {
        let options = &job.options;
        options.check()?;
        let started = std::time::Instant::now();
        let network = (options.access == Access::InNetwork).then(|| network_settings(rack));
        let (network, adapt) = network.unzip();
        let index = IndexService::with_spec(rack, spec(job)?, network, adapt)?;
        let ycsb = &options.load.ycsb;
        let run = Run::new(options.load(), ycsb.records, ycsb.records_max());
        let records = Records {
            keys: options.keys(),
            turns: Arc::new(Turns::new(ycsb.records_max())),
        };
        load(&index, &run, &records, progress)?;
        if network.is_some() {
            // Nothing is known yet about key popularity.
            index.load_network_for(KeyWeights::default(), TIME_LIMIT)?;
        }
        Ok(Self {
            job,
            index,
            run,
            records,
            load_seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// The tables of all workers, each with its node.
    pub(super) fn tables(&self, options: &IndexOptions) -> Result<Vec<(NodeId, IndexTable)>> {
        let mut tables = Vec::new();
        let mut add = |node, way| {
            let number = tables.len() as u32;
            let table = IndexTable::new(way, &self.records, number, options.scan_parts);
            tables.push((node, table));
        };
        if options.access == Access::Local {
            if let Some(shard) = self.index.index().shard(EndpointId(0)) {
                for _ in 0..options.load.threads {
                    let local = Local::new(shard.tree().clone());
                    add(self.job.nodes.storage, Way::Local(Box::new(local)));
                }
            }
            return Ok(tables);
        }
        for &node in &self.job.nodes.compute {
            for _ in 0..options.load.threads {
                match self.index.client(node, options.client()) {
                    Ok(client) => add(node, Way::Client(Box::new(client))),
                    Err(error) => {
                        tables
                            .into_iter()
                            .for_each(|(_, table)| self.release(table));
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(tables)
    }

    /// Returns the resources of a worker.
    pub(super) fn release(&self, table: IndexTable) {
        if let Way::Client(client) = table.way {
            self.index.release(*client);
        }
    }

    /// Adapts the switches' contents to the most frequent keys.
    pub(super) fn tend(&self, access: Access, now: Instant) -> Result<()> {
        if access == Access::InNetwork {
            self.index.adapt(now);
        }
        match self.index.take_network_error() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Adds a worker's counts.
    pub(super) fn count(&self, access: Access, table: &IndexTable, outcome: &mut IndexOutcome) {
        outcome.waits += table.waits;
        if let Some(client) = table.way.client() {
            *outcome.client.get_or_insert_default() += client.statistics();
            if access.is_by_read() {
                *outcome.reader.get_or_insert_default() += client.reader_statistics();
            }
        }
    }

    /// Checks everything when a run is over.
    pub(super) fn conclude(&self, access: Access, run: &Run, outcome: &mut Outcome) {
        if access == Access::InNetwork {
            outcome.table.network = network_counts(&self.index);
        }
        outcome.table.endpoints = endpoints(&self.index);
        sweep(run, &self.records, &self.index.index());
        outcome.take(run);
    }
}

/// The index that a job needs.
fn spec(job: &Job) -> Result<IndexSpec> {
    let options = &job.options;
    let workers = options.workers(job.nodes.compute.len());
    let endpoint = |at| {
        let node = job.endpoint(at).ok_or(YcsbError::NoDpu)?;
        Ok(IndexEndpointSpec {
            threads: options.server_threads,
            server: options.server(workers),
            ..IndexEndpointSpec::new(node, options.tree())
        })
    };
    let endpoints: Result<Vec<_>> = (0..options.endpoints).map(endpoint).collect();
    let first = |at| options.keys().key(records_of(options, at).start);
    let boundaries: Vec<_> = (1..options.endpoints).map(first).collect();
    Ok(IndexSpec {
        attributes: PairAttributes {
            mtu: Mtu::from_bytes(job.config.nic.mtu).unwrap_or_default(),
            ..PairAttributes::default()
        },
        ..IndexSpec::new(endpoints?, PartitionMap::split(&boundaries)?)
    })
}

/// The initial records of an endpoint.
fn records_of(options: &IndexOptions, endpoint: u16) -> Range<u64> {
    let records = options.load.ycsb.records;
    let end = |endpoints: u16| records * u64::from(endpoints) / u64::from(options.endpoints.max(1));
    end(endpoint)..end(endpoint + 1)
}

/// Loads the initial records.
fn load(index: &IndexService, run: &Run, records: &Records, progress: Progress<'_>) -> Result<()> {
    let ycsb = &run.load.ycsb;
    let mut goes_on = true;
    let entry = |record: u64| {
        let mut bytes = vec![0; ycsb.record_size as usize];
        run.check(record, None, write_record(&mut bytes, record, 0, LOADER));
        (records.keys.key(record), bytes)
    };
    let going_on = |record: &u64| {
        if record.is_multiple_of(LOOK_EVERY) {
            goes_on &= progress(Phase::Load, *record as f64 / ycsb.records as f64);
        }
        goes_on
    };
    index.load((0..ycsb.records).take_while(going_on).map(entry))?;
    match goes_on {
        true => Ok(()),
        false => Err(YcsbError::Interrupted),
    }
}

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
pub(super) fn reserve_network(config: &mut RackConfig, endpoints: u64, workers: u64) {
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
pub(super) fn network_settings(rack: &Rack) -> (IndexNetworkSpec, AdapterConfig) {
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
pub(super) fn network_counts(index: &IndexService) -> Option<NetworkCounts> {
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
