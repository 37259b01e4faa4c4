//! What runs in real and in virtual time have alike: the index and its records.

use super::error::IndexRunError;
use super::network;
use super::options::{Access, IndexOptions, Nodes};
use super::run::Run;
use crate::ycsb::{Phase, Progress};
use core::ops::Range;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::index::KeyWeights;
use rackweave_endpoint::index::PartitionMap;
use rackweave_rack::services::{IndexService, TIME_LIMIT};
use rackweave_rack::{IndexEndpointSpec, IndexSpec, Rack, RackConfig};
use rackweave_verbs::Mtu;
use rackweave_workload::ycsb::{Stamp, write_record};

/// Who wrote the records of the start.
const LOADER: Stamp = Stamp {
    writer: u16::MAX,
    sequence: 0,
};

/// Records between two looks at the user.
const LOOK_EVERY: u64 = 4096;

/// What to run, and on what.
#[derive(Debug)]
pub struct Job {
    /// The rack, before there is an index in it.
    pub config: RackConfig,
    /// Its nodes.
    pub nodes: Nodes,
    /// What to do.
    pub options: IndexOptions,
}

/// An index on a rack, and its records in it: what runs go over.
pub struct Loaded<'a> {
    pub(super) job: &'a Job,
    pub(super) index: IndexService,
    pub(super) run: Run,
    pub(super) load_seconds: f64,
}

impl<'a> Loaded<'a> {
    /// Sets an index up on a rack that is large enough ([`IndexOptions::rack`]), and loads the
    /// records. If the job's access is in-network, the index is opened to the network, and runs of
    /// any access may be made.
    ///
    /// # Errors
    /// If the run makes no sense, or index or records cannot be set up.
    pub fn new(rack: &Rack, job: &'a Job, progress: Progress<'_>) -> Result<Self, IndexRunError> {
        let options = &job.options;
        options.check()?;
        let started = std::time::Instant::now();
        let network = (options.access == Access::InNetwork).then(|| network::settings(rack));
        let (network, adapt) = network.unzip();
        let index = IndexService::with_spec(rack, spec(job)?, network, adapt)?;
        let run = Run::new(options);
        load(&index, &run, &mut |fraction| {
            progress(Phase::Load, fraction)
        })?;
        if network.is_some() {
            // Nothing is known yet of what is asked for.
            index.load_network_for(KeyWeights::default(), TIME_LIMIT)?;
        }
        Ok(Self {
            job,
            index,
            run,
            load_seconds: started.elapsed().as_secs_f64(),
        })
    }
}

/// The index that a job wants.
fn spec(job: &Job) -> Result<IndexSpec, IndexRunError> {
    let options = &job.options;
    let workers = options.workers(job.nodes.compute.len());
    let endpoint = |at| {
        let node = job.nodes.endpoint(at).ok_or(IndexRunError::NoDpu)?;
        Ok(IndexEndpointSpec {
            threads: options.server_threads,
            server: options.server(workers),
            ..IndexEndpointSpec::new(node, options.tree())
        })
    };
    let endpoints: Result<Vec<_>, IndexRunError> = (0..options.endpoints).map(endpoint).collect();
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

/// The records of the start that an endpoint has.
fn records_of(options: &IndexOptions, endpoint: u16) -> Range<u64> {
    let records = options.ycsb.records;
    let end = |endpoints: u16| records * u64::from(endpoints) / u64::from(options.endpoints.max(1));
    end(endpoint)..end(endpoint + 1)
}

/// Loads the initial records. `watch` gets the progress and returns whether to continue.
fn load(
    index: &IndexService,
    run: &Run,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<(), IndexRunError> {
    let ycsb = &run.options.ycsb;
    let mut goes_on = true;
    let entry = |record: u64| {
        let mut bytes = vec![0; ycsb.record_size as usize];
        if let Err(error) = write_record(&mut bytes, record, 0, LOADER) {
            run.note(record, error);
        }
        (run.keys.key(record), bytes)
    };
    let going_on = |record: &u64| {
        if record.is_multiple_of(LOOK_EVERY) {
            goes_on &= watch(*record as f64 / ycsb.records as f64);
        }
        goes_on
    };
    index.load((0..ycsb.records).take_while(going_on).map(entry))?;
    match goes_on {
        true => Ok(()),
        false => Err(IndexRunError::Interrupted),
    }
}
