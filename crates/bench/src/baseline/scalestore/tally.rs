//! What workers have done, and what came of a run.

use super::cache::{CacheCounters, Source};
use rackweave_base::Duration;
use rackweave_workload::ycsb::LatencyRecorder;

/// What one worker has done, or several.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Accesses that found the page in their own node's frame.
    pub local: u64,
    /// Accesses that waited for a page which another access was fetching.
    pub joined: u64,
    /// Changes of a page that was there and had to be taken from other nodes.
    pub kept: u64,
    /// Accesses whose page came from another node.
    pub remote: u64,
    /// Accesses whose page came from storage.
    pub home: u64,
    /// How long each access took.
    pub latency: LatencyRecorder,
}

/// What came of a run, within its window.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Accesses done.
    pub operations: u64,
    /// Seconds in which they were: virtual ones in the simulator.
    pub seconds: f64,
    /// Accesses that found the page in their own node's frame.
    pub local_hits: u64,
    /// Accesses that waited for a page which another access of their node was fetching.
    pub joined: u64,
    /// Changes of a page that was there and had to be taken from other nodes.
    pub upgrades: u64,
    /// Accesses whose page came from another node.
    pub remote_hits: u64,
    /// Accesses whose page came from storage.
    pub ssd_reads: u64,
    /// How long each access took, from when a worker took it up.
    pub latency: LatencyRecorder,
    /// Messages sent, over the whole run.
    pub messages: u64,
    /// What the caches have done, over the whole run and all nodes.
    pub caches: CacheCounters,
    /// Packets that full queues dropped, over the whole run; none in an embedded rack.
    pub packets_dropped: u64,
}

impl Tally {
    /// Counts an access.
    pub fn add(&mut self, source: Source, latency: Duration) {
        *match source {
            Source::Local => &mut self.local,
            Source::Joined => &mut self.joined,
            Source::Kept => &mut self.kept,
            Source::Remote => &mut self.remote,
            Source::Home => &mut self.home,
        } += 1;
        self.latency.record_latency(latency);
    }

    /// Adds what another worker has done.
    pub fn merge(&mut self, other: &Self) {
        self.local += other.local;
        self.joined += other.joined;
        self.kept += other.kept;
        self.remote += other.remote;
        self.home += other.home;
        self.latency.merge(&other.latency);
    }
}

impl Outcome {
    /// What `tally` comes to.
    pub(super) fn new(tally: Tally, seconds: f64, messages: u64, caches: CacheCounters) -> Self {
        Self {
            operations: tally.local + tally.joined + tally.kept + tally.remote + tally.home,
            seconds,
            local_hits: tally.local,
            joined: tally.joined,
            upgrades: tally.kept,
            remote_hits: tally.remote,
            ssd_reads: tally.home,
            latency: tally.latency,
            messages,
            caches,
            packets_dropped: 0,
        }
    }

    /// Accesses per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.operations as f64 / self.seconds
        } else {
            0.0
        }
    }
}

impl CacheCounters {
    /// Adds what another cache has done.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            drops: self.drops + other.drops,
            write_backs: self.write_backs + other.write_backs,
            revocations: self.revocations + other.revocations,
            redirects_stale: self.redirects_stale + other.redirects_stale,
        }
    }
}
