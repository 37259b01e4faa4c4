//! What a run found.

use super::error::RunError;
use super::latencies::{Latencies, Latency};
use super::run::{Run, VerificationError};
use serde::Serialize;

/// What a run found; `T` is what there is to say of the table. Times are virtual in a simulated
/// rack.
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
    /// Real seconds until the records were there: loaded, or opened and read.
    pub load_seconds: f64,
    /// Latencies by kind of operation; only kinds that there were.
    #[serde(rename = "latency")]
    pub latencies: Vec<Latency>,
    /// Where the time of all threads went.
    pub time: Vec<TimeShare>,
    /// What there is to say of the table.
    #[serde(flatten)]
    pub table: T,
    /// Reads that were not what they should be, updates that were lost, trees that are damaged.
    #[serde(rename = "verification_errors")]
    pub errors: u64,
    /// The first of them.
    pub first_errors: Vec<VerificationError>,
    /// Why the run ended early.
    #[serde(skip)]
    pub failure: Option<RunError>,
    /// Why not everything was written home, if it was not.
    #[serde(skip)]
    pub not_flushed: Option<String>,
    /// Whether the user wanted it to end early.
    pub interrupted: bool,
    /// Of a simulated rack.
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
}

/// What only a simulated rack has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Simulation {
    /// Real seconds of the run.
    pub real_seconds: f64,
    /// Events.
    pub events: u64,
    /// Of everything that travelled; the same seed gives the same hash.
    pub trace_hash: String,
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

impl<T> Outcome<T> {
    /// Whether everything that was read is what it should be, and everything was done and kept.
    pub fn is_verified(&self) -> bool {
        self.errors == 0 && self.failure.is_none() && self.not_flushed.is_none()
    }

    /// What kept the run from its end, in words.
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

    /// Takes what the workers have measured.
    pub(crate) fn measured<'a>(&mut self, latencies: impl Iterator<Item = &'a Latencies>) {
        let mut merged = Latencies::default();
        latencies.for_each(|latencies| merged.merge(latencies));
        self.latencies = merged.summaries();
        self.operations = merged.count();
    }

    /// Takes what `run` knows at the end.
    pub(crate) fn take(&mut self, run: &Run) {
        self.records_after = run.inserts.inserted();
        (self.errors, self.first_errors) = run.errors();
        self.failure = run.failure();
    }
}
