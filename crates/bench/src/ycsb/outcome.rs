//! The results of a run.

use super::error::RunError;
use super::latencies::{Latencies, Latency};
use super::run::{Run, VerificationError};
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
