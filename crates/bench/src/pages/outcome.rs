//! What a run found.

use super::run::{Run, RunError};
use super::session::Session;
use crate::ycsb::{Kind, Latencies, Simulation, VerificationError};
use rackweave_endpoint::page_store::Statistics;
use rackweave_workload::ycsb::LatencySummary;
use serde::Serialize;

/// What a run found. Times are virtual in a simulated rack.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Records at the start of the run.
    pub records: u64,
    /// Records at its end.
    pub records_after: u64,
    /// Pages of the store.
    pub store_pages: u64,
    /// Pages of the heap, at the end.
    pub heap_pages: u64,
    /// Pages that the switch indexed at the start.
    pub indexed: u64,
    /// Operations that have ended.
    pub operations: u64,
    /// From the first operation's beginning to the last one's end.
    pub seconds: f64,
    /// Real seconds that making or opening the store took.
    pub load_seconds: f64,
    /// Latencies by kind of operation; only kinds that there were.
    pub latencies: Vec<(Kind, LatencySummary)>,
    /// What the pools have seen during the run.
    pub pages: PageCounts,
    /// Pages that were written home when the run was over.
    pub flushed: u64,
    /// Why not everything was written home, if it was not.
    pub not_flushed: Option<String>,
    /// Reads that were not what they should be, updates that were lost.
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

/// Where pages came from, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PageCounts {
    /// Pages that operations got.
    pub fixes: u64,
    /// The newest version was in the node's pool.
    pub local_hits: u64,
    /// Another operation of the node was bringing the page already.
    pub joined: u64,
    /// From another node's memory, found by the switch.
    pub memory_indexed: u64,
    /// From another node's memory, found in the memory server.
    pub memory_fallback: u64,
    /// From the SSD, found by the switch.
    pub storage_indexed: u64,
    /// From the SSD, found in the memory server.
    pub storage_fallback: u64,
    /// Copies in a pool that turned out to be old.
    pub stale_copies: u64,
    /// Times that a page was latched elsewhere, or changed while it moved.
    pub conflicts: u64,
    /// Times that nobody answered.
    pub gone: u64,
    /// Pages dropped that were the same at home.
    pub evicted_clean: u64,
    /// Pages dropped after they were written.
    pub evicted_dirty: u64,
    /// Pages written home.
    pub written: u64,
}

impl Outcome {
    /// Whether everything that was read is what it should be, and everything was done and kept.
    pub fn is_verified(&self) -> bool {
        self.errors == 0 && self.failure.is_none() && self.not_flushed.is_none()
    }

    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 {
            self.operations as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Takes what `run` and its sessions know.
    pub(super) fn take<'a>(&mut self, run: &Run, sessions: impl Iterator<Item = &'a Session>) {
        let mut merged = Latencies::default();
        for session in sessions {
            merged.merge(session.latencies());
        }
        self.latencies = merged.summaries();
        self.operations = merged.count();
        self.records_after = run.inserts.inserted();
        let pages = 0..run.heap.pages_max();
        self.heap_pages = pages.filter(|at| run.heap.page(*at).is_some()).count() as u64;
        (self.errors, self.first_errors) = run.errors();
        self.failure = run.failure();
    }
}

impl PageCounts {
    /// What was counted between two looks.
    pub fn between(before: Statistics, after: Statistics) -> Self {
        Self {
            fixes: after.fixes - before.fixes,
            local_hits: after.local_hits - before.local_hits,
            joined: after.joined - before.joined,
            memory_indexed: after.memory_indexed - before.memory_indexed,
            memory_fallback: after.memory_fallback - before.memory_fallback,
            storage_indexed: after.storage_indexed - before.storage_indexed,
            storage_fallback: after.storage_fallback - before.storage_fallback,
            stale_copies: after.stale_copies - before.stale_copies,
            conflicts: after.conflicts - before.conflicts,
            gone: after.gone - before.gone,
            evicted_clean: after.evicted_clean - before.evicted_clean,
            evicted_dirty: after.evicted_dirty - before.evicted_dirty,
            written: after.written - before.written,
        }
    }
}
