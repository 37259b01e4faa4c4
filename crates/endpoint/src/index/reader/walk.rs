//! One lookup or scan: a walk from tree node to tree node.

use super::records::Reference;
use super::{Found, NODE, Parts, Query, VERSION, Wanted};
use crate::btree::Direction;
use crate::index::op::Value;
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::tree::{self, Image, NodePointer, Unusable};

/// Maximum number of levels of a tree: a tree of 2^32 tree nodes with two children each has 32.
const DEPTH_MAX: usize = 32;

/// A walk through the tree.
#[derive(Debug)]
pub(super) struct Walk {
    pub tag: u64,
    /// The number of the walk's first READ; 0: none is posted yet.
    pub first_post: u64,
    pub(super) query: Query,
    version: u64,
    root: NodePointer,
    /// Whether the walk asks the network where to begin. Cleared when an answer is not usable.
    pub(super) network: bool,
    /// Whether a query to the network is pending.
    pub(super) asked: bool,
    /// The key that the walk is looking for.
    pub(super) cursor: u64,
    /// The tree node that is being read, and its level if that is known.
    pub(super) at: NodePointer,
    pub(super) level: Option<u8>,
    path: [NodePointer; DEPTH_MAX],
    pub(super) depth: usize,
    /// How often the tree node that is being read arrived torn.
    pub(super) torn: u32,
    /// How often the walk restarted or followed a pointer to the right.
    pub(super) restarts: u32,
    /// Entries that a scan has found, and how many of them are from finished leaves.
    pub(super) entries: Vec<(u64, Value)>,
    pub(super) finished: usize,
    /// The right neighbour of the leaf from which a scan takes entries, and the leaf's fences.
    pub(super) next: Option<NodePointer>,
    pub(super) fences: (u64, u64),
    /// The last inner tree node above the leaves that a scan visited.
    pub(super) parent: Vec<u8>,
    /// Records of the leaf; those from `batch` on are being read.
    pub(super) references: Vec<Reference>,
    pub(super) batch: usize,
    pub(super) outstanding: usize,
    /// A record did not match its leaf: the leaf must be read again.
    pub(super) spoiled: bool,
    end: Option<Found>,
}

impl Walk {
    /// A walk for `query` under map version `version`.
    pub fn new(tag: u64, query: Query, version: u64, root: NodePointer, network: bool) -> Self {
        let cursor = match query {
            Query::Get { key } => key,
            Query::Scan {
                low,
                last,
                direction,
                ..
            } => match direction {
                Direction::Forward => low,
                Direction::Backward => last,
            },
        };
        Self {
            tag,
            first_post: 0,
            query,
            version,
            root,
            network,
            asked: false,
            cursor,
            at: root,
            level: None,
            path: [NodePointer::NONE; DEPTH_MAX],
            depth: 0,
            torn: 0,
            restarts: 0,
            entries: Vec::new(),
            finished: 0,
            next: None,
            fences: (0, 0),
            parent: Vec::new(),
            references: Vec::new(),
            batch: 0,
            outstanding: 0,
            spoiled: false,
            end: None,
        }
    }

    /// The result, once the walk has completed.
    pub fn end(&mut self) -> Option<Found> {
        self.end.take()
    }

    /// Starts the walk.
    pub fn begin(&mut self, parts: &mut Parts<'_>) {
        if matches!(self.query, Query::Scan { limit: 0, .. }) {
            return self.finish(Found::Entries(Vec::new(), None));
        }
        self.start(parts);
    }

    /// Goes to the leaf of the cursor, from the network's hint or from the root.
    pub(super) fn start(&mut self, parts: &mut Parts<'_>) {
        match self.network {
            true => self.ask(parts),
            false => self.descend(parts),
        }
    }

    /// Handles a completed READ.
    pub fn landed(&mut self, parts: &mut Parts<'_>, part: u8, bytes: &[u8]) {
        match part {
            NODE if self.asked => self.answer(parts, bytes),
            NODE => self.node(parts, bytes),
            VERSION => self.versioned(parts, bytes),
            record => self.record(parts, usize::from(record), bytes),
        }
    }

    /// Bytes of a record that is being read.
    pub fn record_len(&self, part: u8) -> usize {
        let reference = self.references.get(self.batch + usize::from(part));
        reference.map_or(0, |reference| reference.value.bytes())
    }

    pub(super) fn finish(&mut self, found: Found) {
        self.end = Some(found);
    }

    /// Descends from the root to the leaf of the cursor.
    pub(super) fn descend(&mut self, parts: &mut Parts<'_>) {
        self.asked = false;
        self.depth = 0;
        self.at = self.root;
        self.level = None;
        self.go(parts);
    }

    /// Descends through cached tree nodes, and reads the first one that is not cached.
    pub(super) fn go(&mut self, parts: &mut Parts<'_>) {
        while self.level != Some(0) && parts.config.cache_bytes > 0 {
            let Some(image) = parts.cache.get(self.at) else {
                parts.statistics.cache_misses += 1;
                break;
            };
            let level = image.meta().level;
            let fits = self.level.is_none_or(|expected| expected == level)
                && (image.low()..=image.last()).contains(&self.cursor);
            let child = image.child(self.cursor).filter(|_| fits);
            let Some((_, child)) = child else {
                self.forget(parts, self.at);
                break;
            };
            parts.statistics.cache_hits += 1;
            if !self.step_down(parts, level, child) {
                return;
            }
        }
        self.read(parts);
    }

    /// Records that the current tree node leads to `child`. False if that is impossible.
    fn step_down(&mut self, parts: &mut Parts<'_>, level: u8, child: NodePointer) -> bool {
        if !is_place(parts, child) || self.depth == DEPTH_MAX || level == 0 {
            self.finish(Found::Corrupt);
            return false;
        }
        self.path[self.depth] = self.at;
        self.depth += 1;
        self.at = child;
        self.level = Some(level - 1);
        self.torn = 0;
        true
    }

    /// Reads the current tree node.
    pub(super) fn read(&mut self, parts: &mut Parts<'_>) {
        let layout = parts.remote.layout;
        parts.wanted.push(Wanted {
            part: NODE,
            address: parts.remote.address + layout.offset(self.at.index),
            rkey: parts.remote.rkey,
            length: layout.bytes() as u32,
        });
    }

    fn forget(&mut self, parts: &mut Parts<'_>, pointer: NodePointer) {
        parts.statistics.cache_stale += u64::from(parts.cache.forget(pointer));
    }

    /// Drops the cached tree nodes that led here and restarts at the root.
    pub(super) fn restart(&mut self, parts: &mut Parts<'_>) {
        for at in 0..self.depth {
            self.forget(parts, self.path[at]);
        }
        self.parent.clear();
        self.torn = 0;
        parts.statistics.restarts += 1;
        if self.is_patient(parts) {
            self.descend(parts);
        }
    }

    pub(super) fn is_patient(&mut self, parts: &mut Parts<'_>) -> bool {
        self.restarts += 1;
        let patient = self.restarts <= parts.config.restarts_max;
        if !patient {
            parts.statistics.given_up += 1;
            self.finish(Found::GivenUp);
        }
        patient
    }

    fn node(&mut self, parts: &mut Parts<'_>, bytes: &[u8]) {
        let remote = parts.remote;
        let verified = Image::verify(remote.layout, bytes, remote.tree, self.at);
        let image = match verified {
            Ok(image) => image,
            Err(Unusable::Torn) if planted(Canary::IndexNoTornCheck) => {
                Image::unverified(remote.layout, bytes)
            }
            Err(Unusable::Stale { .. }) if planted(Canary::IndexMissingRestart) => {
                Image::unverified(remote.layout, bytes)
            }
            Err(Unusable::Torn) => return self.again(parts),
            Err(Unusable::Stale { .. }) => {
                parts.statistics.stale += 1;
                return self.restart(parts);
            }
            Err(Unusable::Foreign { .. }) => return self.finish(Found::Gone),
            Err(Unusable::Malformed) => return self.finish(Found::Corrupt),
        };
        self.sound(parts, &image, bytes);
    }

    /// Continues from the current tree node, which is sound.
    pub(super) fn sound(&mut self, parts: &mut Parts<'_>, image: &Image<'_>, bytes: &[u8]) {
        self.torn = 0;
        let level = image.meta().level;
        if self.level.is_some_and(|expected| expected != level) {
            parts.statistics.stale += 1;
            return self.restart(parts);
        }
        let belongs = (image.low()..=image.last()).contains(&self.cursor);
        if !belongs && !planted(Canary::IndexMissingRestart) {
            return self.astray(parts, image);
        }
        if image.is_leaf() {
            return self.leaf(parts, image);
        }
        if parts.config.cache_bytes > 0 {
            let evicts = parts.cache.keep(self.at, bytes);
            parts.statistics.cache_evictions += u64::from(evicts);
        }
        if level == 1 && matches!(self.query, Query::Scan { .. }) {
            self.parent.clear();
            self.parent.extend_from_slice(bytes);
        }
        let Some((_, child)) = image.child(self.cursor) else {
            return self.restart(parts);
        };
        if self.step_down(parts, level, child) {
            self.go(parts);
        }
    }

    /// Reads a torn tree node again.
    fn again(&mut self, parts: &mut Parts<'_>) {
        parts.statistics.torn += 1;
        self.torn += 1;
        if self.torn > parts.config.torn_max {
            return self.restart(parts);
        }
        self.read(parts);
    }

    /// The tree node is sound, but the key belongs to another one.
    fn astray(&mut self, parts: &mut Parts<'_>, image: &Image<'_>) {
        if self.at.index == tree::ROOT {
            parts.statistics.moved += 1;
            return self.finish(Found::Moved);
        }
        let next = image.next().filter(|_| self.cursor > image.last());
        let Some(next) = next else {
            parts.statistics.stale += 1;
            return self.restart(parts);
        };
        if !is_place(parts, next) {
            return self.finish(Found::Corrupt);
        }
        // It was split since its parent was read; the cached parent is outdated.
        if let Some(at) = self.depth.checked_sub(1) {
            self.forget(parts, self.path[at]);
        }
        self.parent.clear();
        parts.statistics.followed += 1;
        if self.is_patient(parts) {
            self.at = next;
            self.read(parts);
        }
    }

    fn leaf(&mut self, parts: &mut Parts<'_>, image: &Image<'_>) {
        let Query::Get { key } = self.query else {
            return self.scan_leaf(parts, image);
        };
        match image.find(key) {
            Some(tree::Value::Inline(word)) => {
                let value = Value::from(&word.to_le_bytes()[..]);
                self.finish(Found::Value(Some(value)));
            }
            Some(tree::Value::Reference(value)) => {
                let entry = 0;
                self.references.clear();
                self.references.push(Reference { key, value, entry });
                self.read_records(parts, 0);
            }
            None => self.read_version(parts),
        }
    }

    /// Reads the map version, which confirms that the result is complete.
    pub(super) fn read_version(&mut self, parts: &mut Parts<'_>) {
        parts.wanted.push(Wanted {
            part: VERSION,
            address: parts.remote.version_address,
            rkey: parts.remote.version_rkey,
            length: 8,
        });
    }

    fn versioned(&mut self, parts: &mut Parts<'_>, bytes: &[u8]) {
        let version = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if version != Some(self.version) {
            parts.statistics.moved += 1;
            return self.finish(Found::Moved);
        }
        let found = match self.query {
            Query::Get { .. } => Found::Value(None),
            Query::Scan {
                low,
                last,
                direction,
                ..
            } => {
                let beyond = match direction {
                    Direction::Forward => last.checked_add(1),
                    Direction::Backward => low.checked_sub(1),
                };
                Found::Entries(core::mem::take(&mut self.entries), beyond)
            }
        };
        self.finish(found);
    }
}

/// Whether a pointer's index is valid.
pub(super) fn is_place(parts: &Parts<'_>, pointer: NodePointer) -> bool {
    (tree::ROOT..parts.remote.tree_nodes).contains(&pointer.index)
}
