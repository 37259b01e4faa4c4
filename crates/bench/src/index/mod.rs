//! YCSB over the B+tree index: every record is a value, and the records' numbers are spread over
//! all keys.
//!
//! [`IndexOptions`] are the options of a run, [`IndexOutcome`] its results specific to an index.
//! [`embedded`] runs on real threads, [`simulated`] in virtual time. [`Access`] is how workers
//! reach the tree: threads of the storage node call it, or threads of compute nodes send requests
//! or READ it.
//!
//! No scan may omit a record. After the run, the trees are checked and all records are read again.
//!
//! Keys keep the order of records in all workloads, so that a scan of keys is a scan of
//! neighbouring records and its expected result is known. New records have the greatest keys.

pub mod embedded;
mod loaded;
mod options;
mod records;
pub mod simulated;
mod table;
#[cfg(test)]
mod tests;

pub use loaded::{Job, Loaded, NetworkCounts};
pub use options::{Access, IndexOptions};

use rackweave_endpoint::index::{ClientStatistics, EndpointReport, ReaderStatistics};
use rackweave_rack::services::IndexService;
use serde::{Serialize, Serializer};

/// The results of a run.
pub type Outcome = crate::ycsb::Outcome<IndexOutcome>;

/// Results of a run specific to an index.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IndexOutcome {
    /// Changes that waited for another pending change of their record.
    pub waits: u64,
    /// Statistics of the clients; none if access is local.
    #[serde(serialize_with = "client_counters")]
    pub client: Option<ClientStatistics>,
    /// Statistics of one-sided readers, if there were any.
    #[serde(serialize_with = "reader_counters")]
    pub reader: Option<ReaderStatistics>,
    /// What the switches did, if access is in-network.
    pub network: Option<NetworkCounts>,
    /// The endpoints at the end.
    pub endpoints: Vec<EndpointCounts>,
}

/// One endpoint at the end of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndpointCounts {
    /// Its node.
    pub node: String,
    /// Levels of its tree.
    pub levels: u32,
    /// Tree nodes in use.
    pub tree_nodes: u32,
    /// Bytes of the heap of values that have been used at some time.
    pub heap_bytes: u64,
    /// Operations that restarted because of a concurrent writer.
    pub restarts: u64,
    /// Tree nodes that were split during the run.
    pub splits: u64,
    /// Tree nodes that were merged into their neighbours.
    pub merges: u64,
    /// Lookups by request.
    pub gets: u64,
    /// Inserts and updates by request.
    pub writes: u64,
    /// Pages of scans by request.
    pub scans: u64,
}

impl IndexOutcome {
    /// READs for one lookup, if lookups were one-sided.
    pub fn reads_per_lookup(&self) -> Option<f64> {
        let reader = self.reader.filter(|reader| reader.lookups > 0)?;
        Some(reader.reads as f64 / reader.lookups as f64)
    }
}

/// The endpoints of an index.
pub(super) fn endpoints(service: &IndexService) -> Vec<EndpointCounts> {
    let (index, config) = (service.index(), service.rack().config());
    let endpoints = index.endpoints().zip(&index.spec().endpoints);
    let counts = endpoints.filter_map(|(endpoint, spec)| {
        let node = config.node.get(usize::from(spec.node.0));
        let shard = index.shard(endpoint)?;
        let (tree, report) = (shard.tree().statistics(), EndpointReport::of(&shard));
        Some(EndpointCounts {
            node: node.map(|node| node.name.clone()).unwrap_or_default(),
            levels: shard.tree().levels(),
            tree_nodes: tree.tree_nodes,
            heap_bytes: tree.heap_bytes,
            restarts: tree.restarts,
            splits: tree.splits,
            merges: tree.merges,
            gets: report.statistics.gets,
            writes: report.statistics.writes,
            scans: report.statistics.scans,
        })
    });
    counts.collect()
}

/// A function that serializes each counter under its name.
macro_rules! serialize_counters {
    ($name:ident, $statistics:ty) => {
        fn $name<S: Serializer>(all: &Option<$statistics>, to: S) -> Result<S::Ok, S::Error> {
            match all {
                Some(all) => to.collect_map(all.list()),
                None => to.serialize_none(),
            }
        }
    };
}
serialize_counters!(client_counters, ClientStatistics);
serialize_counters!(reader_counters, ReaderStatistics);
