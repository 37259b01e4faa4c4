//! Latencies by kind of operation.

use rackweave_base::Instant;
use rackweave_workload::ycsb::{LatencyRecorder, LatencySummary};

/// The kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
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
#[derive(Clone, Copy, Debug, serde::Serialize)]
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
