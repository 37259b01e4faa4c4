//! What workers on the same records share: the keys of records, and the turns of their writers.
//!
//! An index has no latch that a client can hold from a read to the write that follows, and two
//! concurrent writes of one record may be done in either order. So that each update makes the next
//! version, writers of one record take turns, as writers of the page store do by means of the
//! page's latch. Readers never wait.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

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

#[cfg(test)]
mod tests;
