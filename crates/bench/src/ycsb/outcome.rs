//! The results of a run, and latencies by kind of operation.

use super::prelude::*;
use super::session::VerificationError;
use rackweave_workload::ycsb::{LatencyRecorder, LatencySummary};
use serde::Serialize;

/// The results of a run; `T` are the results specific to the table. Times are virtual in a
/// simulated rack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome<T> {
    /// Records at the start of the run.
    #[serde(skip)]
    pub records: u64,
    /// Records at its end.
    pub records_after: u64,
    /// Operations that have ended.
    pub operations: u64,
    /// From the first operation's beginning to the last one's end.
    pub seconds: f64,
    /// Real seconds until the records were available: loaded, or opened and read.
    pub load_seconds: f64,
    /// Latencies by kind of operation; only kinds that occurred.
    #[serde(rename = "latency")]
    pub latencies: Vec<Latency>,
    /// Where the time of all threads went.
    pub time: Vec<TimeShare>,
    /// Results specific to the table.
    #[serde(flatten)]
    pub table: T,
    /// Reads with wrong results, lost updates, damaged trees.
    #[serde(rename = "verification_errors")]
    pub errors: u64,
    /// The first of them.
    pub first_errors: Vec<VerificationError>,
    /// Why the run ended early.
    #[serde(skip)]
    pub failure: Option<RunError>,
    /// Why not everything was written to storage, if so.
    #[serde(skip)]
    pub not_flushed: Option<String>,
    /// Whether the user stopped the run early.
    pub interrupted: bool,
    /// Results of a simulated rack only.
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
}

/// Results that only a simulated rack has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Simulation {
    /// Real seconds of the run.
    pub real_seconds: f64,
    /// Simulator events.
    pub events: u64,
    /// Hash of all traffic; the same seed gives the same hash.
    pub trace_hash: String,
}

/// Where the time of a group of threads went, as shares of their total time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TimeShare {
    /// `clients`, `servers`, or `local` threads.
    pub who: &'static str,
    /// The operations themselves: building and verifying records, searching trees.
    pub compute: f64,
    /// Requests, READs, completions; in an embedded rack also packet forwarding.
    pub communication: f64,
    /// Idle time.
    pub waiting: f64,
}

impl<T> Outcome<T> {
    /// Whether every read was correct, and every operation was done and stored.
    pub fn is_verified(&self) -> bool {
        self.errors == 0 && self.failure.is_none() && self.not_flushed.is_none()
    }

    /// Why the run did not complete, in words.
    pub fn problems(&self) -> Vec<String> {
        let failure = self.failure.iter();
        let not_flushed = self.not_flushed.iter();
        failure
            .map(|error| format!("the run ended early: {error}"))
            .chain(not_flushed.map(|error| format!("not everything was written home: {error}")))
            .collect()
    }

    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.operations as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// Takes over the workers' measurements.
    pub(crate) fn measured<'a>(&mut self, latencies: impl Iterator<Item = &'a Latencies>) {
        let mut merged = Latencies::default();
        latencies.for_each(|latencies| merged.merge(latencies));
        self.latencies = merged.summaries();
        self.operations = merged.count();
    }

    /// Takes over the final state of `run`.
    pub(crate) fn take(&mut self, run: &Run) {
        self.records_after = run.inserts.inserted();
        (self.errors, self.first_errors) = run.errors();
        self.failure = run.failure();
    }
}

/// The kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads of one record.
    Read,
    /// Updates of one record.
    Update,
    /// New records.
    Insert,
    /// Reads of a range.
    Scan,
    /// Reads followed by an update.
    ReadModifyWrite,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Update,
        Self::Insert,
        Self::Scan,
        Self::ReadModifyWrite,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// Latencies of a kind of operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The kind.
    pub kind: Kind,
    /// The latency summary.
    #[serde(flatten)]
    pub summary: LatencySummary,
}

/// Latencies by [`Kind`].
#[derive(Clone, Debug, Default)]
pub struct Latencies([LatencyRecorder; 5]);

impl Latencies {
    /// Records an operation that was due to begin at `intended` and ended at `now`.
    pub fn record(&mut self, kind: Kind, intended: Instant, now: Instant) {
        self.0[kind as usize].record(intended, now);
    }

    /// Adds the latencies recorded by `other`.
    pub fn merge(&mut self, other: &Self) {
        for (sum, one) in self.0.iter_mut().zip(&other.0) {
            sum.merge(one);
        }
    }

    /// How many operations were recorded.
    pub fn count(&self) -> u64 {
        self.0.iter().map(LatencyRecorder::count).sum()
    }

    /// The summaries; only of kinds that occurred.
    pub fn summaries(&self) -> Vec<Latency> {
        Kind::ALL
            .into_iter()
            .zip(self.0.iter().map(LatencyRecorder::summary))
            .map(|(kind, summary)| Latency { kind, summary })
            .filter(|latency| latency.summary.count > 0)
            .collect()
    }
}
