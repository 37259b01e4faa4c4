//! Reading an endpoint's tree by READs of its memory, without its cores.
//!
//! A reader walks from the root, or from the deepest tree node that it has in its cache, down to
//! the leaf. The data of a READ is accepted only if its check word is right; otherwise it is torn,
//! and is read again. Its epoch must be that of the pointer that led to it, and its fences must
//! contain the key; otherwise the pointer is outdated, and the walk restarts without the tree node
//! that contained it. A leaf that passes is what the tree held for its keys at one moment of the
//! READ.
//!
//! A key that is missing from a leaf may still be on its way to it: an endpoint that takes a range
//! from another fills its tree first and owns the range afterwards. So the *absence* of a key is
//! accepted only if the endpoint's map version, read after the leaf, is the one by which the key
//! was looked up here. The presence of a key is valid in any case: a range does not change while it
//! moves.
//!
//! A walk may also ask the network where to begin ([`ReaderConfig::network`]). The query is a READ
//! with rkey 0 and the key in place of the address, which switches on the path turn into a READ of
//! the deepest tree node that they know for the key. The answer is not trusted: it must identify
//! itself as a tree node of this tree, and pass the same checks as any other. If the key is to the
//! right of it (it was split, and the switches do not know), the walk follows; otherwise it begins
//! at the root.
//!
//! A reader belongs to one thread. It is sans-IO. Many walks are in progress at a time, each in a
//! slot of its own.

mod cache;
mod config;
mod network;
mod records;
mod scan;
mod walk;

use super::statistics::ReaderStatistics;
use crate::resources::Resources;
use cache::Cache;
use rackweave_base::{Memory, Qpn, Rkey};
use rackweave_verbs::{
    Completion, CompletionStatus, Operation, PdId, PostError, QpCapabilities, Verbs, WorkRequest,
};
use rackweave_wire::fabric::tree::RECORD_HEADER_WORDS;
use std::collections::VecDeque;
use walk::Walk;

pub use config::{Found, Query, ReaderConfig, ReaderError, RemoteTree};

/// The part number of a READ of a tree node; READs of records have lower numbers.
pub(super) const NODE: u8 = 0xff;
/// The part number of a READ of the map version.
pub(super) const VERSION: u8 = 0xfe;
/// An rkey that no region has: it marks a query to the network.
pub(super) const ASK: Rkey = Rkey(0);
/// Maximum number of completions taken at once.
const POLLED_MAX: usize = 64;

/// A READ that a walk requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    /// [`NODE`], [`VERSION`], or the number of one of the walk's records.
    pub part: u8,
    pub address: u64,
    pub rkey: Rkey,
    pub length: u32,
}

/// Lookups and scans of one endpoint's tree by READs.
#[derive(Debug)]
pub struct Reader {
    remote: RemoteTree,
    config: ReaderConfig,
    qpn: Qpn,
    nic: Resources,
    /// Bytes of a slot's receive buffer, and of a record in it.
    slot_bytes: usize,
    record_bytes: usize,
    walks: Vec<Option<Walk>>,
    free: Vec<u16>,
    cache: Cache,
    /// READs for which the send queue was full.
    unsent: VecDeque<(u16, Wanted)>,
    wanted: Vec<Wanted>,
    polled: Vec<Completion>,
    landed: Vec<u8>,
    ended: VecDeque<(u64, Found)>,
    posts: u64,
    broken: bool,
    statistics: ReaderStatistics,
}

/// The work request id of a READ: slot, part, and a count that distinguishes a walk's READs from
/// those of the slot's previous walk.
fn work_id(count: u64, part: u8, slot: u16) -> u64 {
    count << 24 | u64::from(part) << 16 | u64::from(slot)
}

impl Reader {
    /// A reader of `remote`. Its queue pair must be connected to one at the endpoint that allows
    /// READs.
    ///
    /// # Errors
    /// If a setting is out of range, or the memory or the NIC has no free resources.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        remote: RemoteTree,
        config: ReaderConfig,
    ) -> Result<Self, ReaderError> {
        config.check(remote.layout)?;
        let node = remote.layout.bytes();
        let record = record_bytes(remote.value_max);
        // A lookup needs one record; a scan reads several at a time.
        let slot_bytes = 64 + node + record * usize::from(config.records);
        let bytes = slot_bytes * usize::from(config.walks);
        let sends = u32::from(config.walks) * 2 + u32::from(config.records);
        let capabilities = QpCapabilities {
            send_max: sends,
            receive_max: 1,
            segments_max: 1,
        };
        let (nic, qpn) = Resources::with_qp(verbs, memory, pd, bytes, sends + 1, capabilities)?;
        Ok(Self {
            qpn,
            nic,
            slot_bytes,
            record_bytes: record,
            walks: (0..config.walks).map(|_| None).collect(),
            free: (0..config.walks).rev().collect(),
            cache: Cache::new(remote.layout, config.cache_bytes),
            unsent: VecDeque::new(),
            wanted: Vec::new(),
            polled: Vec::with_capacity(POLLED_MAX),
            landed: vec![0; node.max(record)],
            ended: VecDeque::new(),
            posts: 0,
            broken: false,
            statistics: ReaderStatistics::default(),
            remote,
            config,
        })
    }

    /// Releases the reader's NIC resources. Pending walks are forgotten.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        // If the NIC has lost them, nothing is left to release.
        let _ = verbs.destroy_qp(self.qpn);
        self.nic.destroy(verbs);
    }

    /// The queue pair to connect.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Where the tree is.
    pub fn remote(&self) -> &RemoteTree {
        &self.remote
    }

    /// Whether the endpoint no longer answers.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the connection to the endpoint broke while the network was queried. This happens if
    /// a query reaches the endpoint unchanged: no switch on the path answers queries.
    pub fn is_refused(&self) -> bool {
        self.statistics.network_refused > 0
    }

    /// Number of walks that can begin now.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Pending walks, and those whose result has not been taken.
    pub fn under_way(&self) -> usize {
        self.walks.len() - self.free.len() + self.ended.len()
    }

    /// The reader's counters.
    pub fn statistics(&self) -> ReaderStatistics {
        self.statistics
    }

    /// Bytes of cached inner tree nodes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Begins a walk, with a query to the network if so configured. `version` is that of the map
    /// which says that the keys are here; `tag` is returned with the result. False if no slot is
    /// free.
    pub fn begin(&mut self, verbs: &mut dyn Verbs, tag: u64, query: Query, version: u64) -> bool {
        self.begin_by(verbs, tag, query, version, self.config.network)
    }

    /// As [`Self::begin`], with or without a query to the network. A reader that is not configured
    /// to query the network never does.
    pub fn begin_by(
        &mut self,
        verbs: &mut dyn Verbs,
        tag: u64,
        query: Query,
        version: u64,
        network: bool,
    ) -> bool {
        if self.broken {
            self.ended.push_back((tag, Found::Gone));
            return true;
        }
        let Some(slot) = self.free.pop() else {
            return false;
        };
        let network = network && self.config.network;
        let mut walk = Walk::new(tag, query, version, self.remote.root, network);
        self.act(&mut walk, |walk, parts| walk.begin(parts));
        self.put(verbs, slot, walk);
        true
    }

    /// Handles completions and advances the walks; returns the next completed walk with its tag.
    pub fn poll(&mut self, verbs: &mut dyn Verbs) -> Option<(u64, Found)> {
        if self.ended.is_empty() && self.free.len() < self.walks.len() {
            self.take_completions(verbs);
            self.send_unsent(verbs);
        }
        self.ended.pop_front()
    }

    fn take_completions(&mut self, verbs: &mut dyn Verbs) {
        let mut polled = core::mem::take(&mut self.polled);
        loop {
            polled.clear();
            let count = verbs.poll_cq(self.nic.cq, POLLED_MAX, &mut polled);
            for completion in &polled {
                self.completed(verbs, completion);
            }
            if count < POLLED_MAX {
                break;
            }
        }
        self.polled = polled;
    }

    fn completed(&mut self, verbs: &mut dyn Verbs, completion: &Completion) {
        if completion.status != CompletionStatus::Success {
            return self.broke();
        }
        let (slot, part) = (completion.id as u16, (completion.id >> 16) as u8);
        let current = |walk: &&mut Walk| walk.first_post <= completion.id >> 24;
        let walk = self.walks.get_mut(usize::from(slot));
        let walk = walk.and_then(Option::as_mut).filter(current);
        if walk.is_none() {
            return;
        }
        let Some(mut walk) = self.walks[usize::from(slot)].take() else {
            return;
        };
        let at = usize::from(slot) * self.slot_bytes;
        let (offset, len) = match part {
            NODE => (64, self.remote.layout.bytes()),
            VERSION => (0, 8),
            record => {
                let before = 64 + self.remote.layout.bytes();
                let offset = before + usize::from(record) * self.record_bytes;
                (offset, walk.record_len(record))
            }
        };
        let mut landed = core::mem::take(&mut self.landed);
        self.nic.region.block.read(at + offset, &mut landed[..len]);
        self.act(&mut walk, |walk, parts| {
            walk.landed(parts, part, &landed[..len]);
        });
        self.landed = landed;
        self.put(verbs, slot, walk);
    }

    /// Runs an action of a walk with the state that all walks share.
    fn act(&mut self, walk: &mut Walk, act: impl FnOnce(&mut Walk, &mut Parts<'_>)) {
        let mut parts = Parts {
            remote: &self.remote,
            config: &self.config,
            cache: &mut self.cache,
            statistics: &mut self.statistics,
            wanted: &mut self.wanted,
        };
        act(walk, &mut parts);
    }

    /// Stores a walk after an action: posts the READs that it requests, or takes its result.
    fn put(&mut self, verbs: &mut dyn Verbs, slot: u16, mut walk: Walk) {
        if let Some(found) = walk.end() {
            self.free.push(slot);
            self.wanted.clear();
            self.statistics.lookups += u64::from(matches!(found, Found::Value(_)));
            self.ended.push_back((walk.tag, found));
            return;
        }
        if walk.first_post == 0 {
            walk.first_post = self.posts + 1;
        }
        self.walks[usize::from(slot)] = Some(walk);
        let mut wanted = core::mem::take(&mut self.wanted);
        for wanted in wanted.drain(..) {
            self.post(verbs, slot, wanted);
        }
        self.wanted = wanted;
    }

    fn post(&mut self, verbs: &mut dyn Verbs, slot: u16, wanted: Wanted) {
        if self.broken {
            return;
        }
        let before = 64 + self.remote.layout.bytes();
        let offset = match wanted.part {
            VERSION => 0,
            NODE => 64,
            record => before + usize::from(record) * self.record_bytes,
        };
        let at = usize::from(slot) * self.slot_bytes + offset;
        let segment = self.nic.region.segment(at as u64, wanted.length);
        let operation = Operation::Read {
            address: wanted.address,
            rkey: wanted.rkey,
        };
        self.posts += 1;
        let id = work_id(self.posts, wanted.part, slot);
        match verbs.post_send(self.qpn, WorkRequest::new(id, operation, &[segment])) {
            Ok(()) => {
                self.statistics.reads += 1;
                let counter = match wanted.part {
                    NODE => {
                        let asks = u64::from(wanted.rkey == ASK);
                        self.statistics.network_queries += asks;
                        &mut self.statistics.node_reads
                    }
                    VERSION => &mut self.statistics.version_reads,
                    _ => &mut self.statistics.record_reads,
                };
                *counter += 1;
            }
            Err(PostError::Full(_)) => self.unsent.push_back((slot, wanted)),
            Err(_) => self.broke(),
        }
    }

    fn send_unsent(&mut self, verbs: &mut dyn Verbs) {
        for _ in 0..self.unsent.len() {
            if let Some((slot, wanted)) = self.unsent.pop_front() {
                self.post(verbs, slot, wanted);
            }
        }
    }

    /// The endpoint does not answer: ends all walks.
    fn broke(&mut self) {
        let asked = self.walks.iter().flatten().any(|walk| walk.asked);
        self.statistics.network_refused += u64::from(asked && !self.broken);
        self.broken = true;
        self.unsent.clear();
        for (slot, walk) in self.walks.iter_mut().enumerate() {
            if let Some(walk) = walk.take() {
                self.free.push(slot as u16);
                self.ended.push_back((walk.tag, Found::Gone));
            }
        }
    }
}

/// Bytes of the longest record, rounded up to whole cache lines.
fn record_bytes(value_max: u32) -> usize {
    let bytes = RECORD_HEADER_WORDS * 8 + value_max as usize;
    bytes.next_multiple_of(64)
}

/// State that all walks share.
pub(super) struct Parts<'a> {
    pub remote: &'a RemoteTree,
    pub config: &'a ReaderConfig,
    pub cache: &'a mut Cache,
    pub statistics: &'a mut ReaderStatistics,
    /// READs to post.
    pub wanted: &'a mut Vec<Wanted>,
}

#[cfg(test)]
pub(in crate::index) mod tests;
