//! What workers on the same records share: the keys of records, and the turns of their writers.
//!
//! An index has no latch that a client can hold from a read to the write that follows, and two
//! concurrent writes of one record may be done in either order. So that each update makes the next
//! version, writers of one record take turns, as writers of the page store do by means of the
//! page's latch. Readers never wait.
//!
//! And checks: the expected results of a scan; and when a run is over, trees, their records, the
//! versions.

use crate::ycsb::prelude::*;
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::Value;
use rackweave_rack::Index;

/// State shared by workers on the same records.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub keys: Keys,
    pub turns: Arc<Turns>,
}

/// Spreads records evenly over all keys, in order: record 0 has key 0, and neighbouring keys have
/// equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    step: u64,
}

impl Keys {
    pub fn new(records_max: u64) -> Self {
        Self {
            step: u64::MAX / records_max.max(1),
        }
    }

    /// The key of a record.
    ///
    /// A record that is not below `records_max` has the greatest key.
    #[inline]
    pub fn key(self, record: u64) -> u64 {
        record.saturating_mul(self.step)
    }

    /// The record that has a key, if one can have it.
    #[inline]
    pub fn record(self, key: u64) -> Option<u64> {
        key.is_multiple_of(self.step).then(|| key / self.step)
    }
}

/// The lowest bit says that the turn is taken; the version is above it.
const HELD: u64 = 1;

/// The turns of all records.
#[derive(Debug)]
pub struct Turns(Box<[AtomicU64]>);

impl Turns {
    /// Turns for records below `records_max`, all in version 0.
    pub fn new(records_max: u64) -> Self {
        Self((0..records_max).map(|_| AtomicU64::new(0)).collect())
    }

    /// Takes the turn of a record if it is free. Returns the version of the record.
    pub fn take(&self, record: u64) -> Option<u64> {
        let word = self.0.get(usize::try_from(record).ok()?)?;
        let before = word.fetch_or(HELD, Ordering::Acquire);
        (before & HELD == 0).then_some(before >> 1)
    }

    /// Returns the turn: the record now has this version.
    pub fn give_back(&self, record: u64, version: u64) {
        if let Some(word) = usize::try_from(record).ok().and_then(|at| self.0.get(at)) {
            word.store(version << 1, Ordering::Release);
        }
    }

    /// The version of a record, and whether its turn is free.
    pub fn version(&self, record: u64) -> Option<(u64, bool)> {
        let word = self.0.get(usize::try_from(record).ok()?)?;
        let word = word.load(Ordering::Acquire);
        Some((word >> 1, word & HELD == 0))
    }
}

#[derive(Debug)]
pub(super) struct Scan {
    /// Records that existed when it began: it must find all of them.
    pub there: Range<u64>,
    /// The requested number of records. If fewer exist, it may also find records inserted
    /// meanwhile.
    pub length: u32,
    /// Floors of the requested records, if there are no gaps.
    pub floors: Vec<Floor>,
}

impl Scan {
    /// A scan of up to `length` records from `first` on.
    pub fn new(run: &Run, first: u64, length: u32) -> Self {
        let end = first.saturating_add(length.into());
        let floors = (first..end).map(|record| run.expectations.before_read(record));
        Self {
            there: first..end.min(run.inserts.inserted()).max(first),
            length,
            floors: floors.collect(),
        }
    }

    /// Checks the entries that the scan returned. Returns the number of verified bytes.
    pub fn judge(&self, run: &Run, keys: Keys, entries: &[(u64, Value)]) -> u64 {
        let first = self.there.start;
        if entries.len() > self.length as usize {
            let found = entries.len();
            let reason = format!("a scan of {} records brought {found}", self.length);
            run.note(first, None, reason);
        }
        let (mut next, mut bytes) = (first, 0);
        for (key, value) in entries {
            let Some(record) = keys.record(*key) else {
                let reason = format!("a scan brought key {key}, which no record has");
                run.note(next, None, reason);
                continue;
            };
            if record < next {
                let reason = format!("a scan brought it behind record {}", next.saturating_sub(1));
                run.note(record, None, reason);
                continue;
            }
            // Records that are inserted meanwhile need not appear in order.
            if record > next && self.there.contains(&next) {
                let reason = format!("a scan left it out and brought record {record}");
                run.note(next, None, reason);
            }
            let floor = usize::try_from(record - first).ok();
            match floor.and_then(|at| self.floors.get(at)) {
                Some(&floor) => run.verify(record, None, value, floor),
                None => run.whole(record, None, value),
            };
            bytes += value.len() as u64;
            next = record + 1;
        }
        if self.there.contains(&next) {
            run.note(next, None, "a scan ended before it");
        }
        bytes
    }
}

/// Records all errors. A run that ended early may leave any state, so it is not checked.
pub(super) fn sweep(run: &Run, records: &Records, index: &Index) {
    if run.failure().is_some() {
        return;
    }
    // Endpoints, in order, hold consecutive records.
    let mut next = 0;
    for endpoint in index.endpoints() {
        if let Some(shard) = index.shard(endpoint) {
            match shard.tree().check() {
                Ok(_) => next = sweep_tree(run, records, shard.tree(), next),
                Err(error) => {
                    run.note(next, None, format!("the tree of {endpoint}: {error}"));
                }
            }
        }
    }
    let inserted = run.inserts.inserted();
    if next != inserted {
        let reason = format!("at the end there are {next} records and not {inserted}");
        run.note(next, None, reason);
    }
    run.check(0, None, run.expectations.settled());
}

/// Checks all entries of a tree; `next` must be the first. Returns the record after the last.
fn sweep_tree(run: &Run, records: &Records, tree: &Tree, mut next: u64) -> u64 {
    let (low, last) = tree.bounds();
    tree.scan(low..=last, Direction::Forward, &mut |key, value| {
        let Some(record) = records.keys.record(key) else {
            let reason = format!("the tree has key {key}, which no record has");
            run.note(next, None, reason);
            return true;
        };
        if record != next {
            let reason = format!("at the end it is not there, record {record} is");
            run.note(next, None, reason);
        }
        if let (Some(found), Some((version, _))) = (
            run.whole(record, None, value),
            records.turns.version(record),
        ) && found != version
        {
            let reason = format!("at the end it has version {found}, {version} was written last");
            run.note(record, None, reason);
        }
        next = record + 1;
        true
    });
    next
}

#[cfg(test)]
mod tests;
