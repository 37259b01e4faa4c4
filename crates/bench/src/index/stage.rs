//! What runs in real and in virtual time set up alike: the index and its records.

use super::embedded::Job;
use super::error::IndexRunError;
use super::options::IndexOptions;
use super::run::Run;
use core::ops::Range;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::index::{EndpointId, PartitionMap};
use rackweave_rack::{Index, IndexEndpointSpec, IndexSpec};
use rackweave_verbs::Mtu;
use rackweave_workload::ycsb::{Stamp, write_record};

/// Who wrote the records of the start.
const LOADER: Stamp = Stamp {
    writer: u16::MAX,
    sequence: 0,
};

/// Records between two looks at the user.
const LOOK_EVERY: u64 = 4096;

/// The index that a job wants, with room for the clients of so many runs.
pub(super) fn spec(job: &Job, runs: u16) -> Result<IndexSpec, IndexRunError> {
    let options = &job.options;
    let workers = options.workers(job.nodes.compute.len()) * u32::from(runs);
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
        endpoints: endpoints?,
        map: PartitionMap::split(&boundaries)?,
        attributes: PairAttributes {
            mtu: Mtu::from_bytes(job.config.nic.mtu).unwrap_or_default(),
            ..PairAttributes::default()
        },
    })
}

/// The records of the start that an endpoint has.
fn records_of(options: &IndexOptions, endpoint: u16) -> Range<u64> {
    let records = options.ycsb.records;
    let end = |endpoints: u16| records * u64::from(endpoints) / u64::from(options.endpoints.max(1));
    end(endpoint)..end(endpoint + 1)
}

/// Loads the records of the start. `watch` is told how far it has come, and says whether to go on.
pub(super) fn load(
    index: &Index,
    run: &Run,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<(), IndexRunError> {
    let options = &run.options;
    let mut goes_on = true;
    for endpoint in 0..options.endpoints {
        let Some(shard) = index.shard(EndpointId(endpoint)) else {
            continue;
        };
        let entry = |record: u64| {
            let mut bytes = vec![0; options.ycsb.record_size as usize];
            if let Err(error) = write_record(&mut bytes, record, 0, LOADER) {
                run.note(record, error);
            }
            (run.keys.key(record), bytes)
        };
        let all = options.ycsb.records as f64;
        let going_on = |record: &u64| {
            if record.is_multiple_of(LOOK_EVERY) {
                goes_on &= watch(*record as f64 / all);
            }
            goes_on
        };
        let records = records_of(options, endpoint).take_while(going_on);
        shard.bulk_load(records.map(entry))?;
        if !goes_on {
            return Err(IndexRunError::Interrupted);
        }
    }
    Ok(())
}
