//! What a run found.

use super::error::RunError;
use super::network::NetworkCounts;
use super::run::Run;
use super::session::Session;
use crate::ycsb::{Kind, Latencies, Simulation, VerificationError};
use rackweave_endpoint::index::{ClientStatistics, EndpointReport, ReaderStatistics};
use rackweave_rack::services::IndexService;
use rackweave_workload::ycsb::LatencySummary;
use serde::Serialize;

/// What a run found. Times are virtual in a simulated rack.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Records at the start of the run.
    pub records: u64,
    /// Records at its end.
    pub records_after: u64,
    /// Operations that have ended.
    pub operations: u64,
    /// From the first operation's beginning to the last one's end.
    pub seconds: f64,
    /// Real seconds until the rack was built and the records loaded.
    pub load_seconds: f64,
    /// Latencies by kind of operation; only kinds that there were.
    pub latencies: Vec<(Kind, LatencySummary)>,
    /// Changes that found another one of their record under way and waited for it.
    pub waits: u64,
    /// What clients have seen; nothing if access is local.
    pub client: Option<ClientStatistics>,
    /// What one-sided readers have seen, if there were any.
    pub reader: Option<ReaderStatistics>,
    /// What the switches did, if they lead.
    pub network: Option<NetworkCounts>,
    /// The endpoints at the end.
    pub endpoints: Vec<EndpointCounts>,
    /// Where the time of all threads went.
    pub time: Vec<TimeShare>,
    /// Reads that were not what they should be, updates that were lost, trees that are damaged.
    pub errors: u64,
    /// The first of them.
    pub first_errors: Vec<VerificationError>,
    /// Why the run ended early.
    pub failure: Option<RunError>,
    /// Whether the user wanted it to.
    pub interrupted: bool,
    /// Of a simulated rack.
    pub simulation: Option<Simulation>,
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
    /// Operations that began again because a writer came in between.
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

/// Where the time of a group of threads went, in parts of all of it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TimeShare {
    /// `clients`, `servers`, or `local` threads.
    pub who: &'static str,
    /// Operations themselves: records made and verified, trees searched.
    pub compute: f64,
    /// Requests, READs, completions; in an embedded rack also carrying packets.
    pub communication: f64,
    /// Nothing to do.
    pub waiting: f64,
}

impl Outcome {
    /// Whether everything that was read is what it should be, and everything was done.
    pub fn is_verified(&self) -> bool {
        self.errors == 0 && self.failure.is_none()
    }

    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.operations as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// READs for one lookup, if lookups were one-sided.
    pub fn reads_per_lookup(&self) -> Option<f64> {
        let reader = self.reader.filter(|reader| reader.lookups > 0)?;
        Some(reader.reads as f64 / reader.lookups as f64)
    }

    /// Takes what `run`, its sessions and its endpoints know at the end.
    pub(super) fn take<'a>(
        &mut self,
        run: &Run,
        sessions: impl Iterator<Item = &'a Session>,
        service: &IndexService,
    ) {
        let (index, config) = (service.index(), service.rack().config());
        let mut merged = Latencies::default();
        for session in sessions {
            merged.merge(session.latencies());
            self.waits += session.waits();
        }
        self.latencies = merged.summaries();
        self.operations = merged.count();
        self.records_after = run.inserts.inserted();
        for (endpoint, spec) in index.endpoints().zip(&index.spec().endpoints) {
            let name = config.node.get(usize::from(spec.node.0));
            let name = name.map(|node| node.name.clone()).unwrap_or_default();
            if let Some(shard) = index.shard(endpoint) {
                let (tree, report) = (shard.tree().statistics(), EndpointReport::of(shard));
                self.endpoints.push(EndpointCounts {
                    node: name,
                    levels: shard.tree().levels(),
                    tree_nodes: tree.tree_nodes,
                    heap_bytes: tree.heap_bytes,
                    restarts: tree.restarts,
                    splits: tree.splits,
                    merges: tree.merges,
                    gets: report.statistics.gets,
                    writes: report.statistics.writes,
                    scans: report.statistics.scans,
                });
            }
        }
        super::sweep::sweep(run, &index);
        (self.errors, self.first_errors) = run.findings.errors();
        self.failure = run.findings.failure();
    }
}
