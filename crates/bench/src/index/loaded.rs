//! The code that runs in real and in virtual time share: the index and its records.

use super::checks::sweep;
use super::options::{Access, IndexOptions};
use super::outcome::{IndexOutcome, endpoints};
use super::records::{Records, Turns};
use super::table::{IndexTable, Local, Way};
use super::{Outcome, network};
use crate::ycsb::prelude::*;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::index::KeyWeights;
use rackweave_endpoint::index::{EndpointId, PartitionMap};
use rackweave_rack::services::TIME_LIMIT;
use rackweave_rack::{IndexEndpointSpec, IndexSpec};
use rackweave_verbs::Mtu;

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
        let network = (options.access == Access::InNetwork).then(|| network::settings(rack));
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
            outcome.table.network = network::counts(&self.index);
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
