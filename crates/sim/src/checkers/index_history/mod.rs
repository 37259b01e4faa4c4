//! Checks an index of keys and values: every operation and its result.
//!
//! Users of the index report each operation when it begins and when it ends; the harness reports
//! what was loaded, and when a part of the index restarted. The order of the reports is the order
//! of events: an operation reported as ended before another was reported as begun came before it.
//! The checker knows nothing of trees, their nodes, or the placement of keys.
//!
//! Requirements (docs/faults.md, docs/index.md):
//! - the operations on a key can be put in a sequence (linearizability): each appears to take
//!   effect at one moment between its beginning and its end, and has the result that corresponds to
//!   that moment. This is decided exactly, key by key, which suffices: histories are linearizable
//!   if those of their objects are (Herlihy and Wing 1990, theorem 1);
//! - a scan returns every key that was present throughout the scan, each once, in order, none
//!   outside its range, and each with a value that it had at some moment during the scan. It need
//!   not show all keys at one moment;
//! - every value is exactly one value that was written to its key.
//!
//! An operation with an unknown result may or may not have taken effect, until an observation shows
//! which.

mod content;
mod operation;
mod search;
mod violation;

pub use content::{TornValue, VALUE_BYTES_MIN, ValueStamp, check_value, fill_value};
pub use operation::{Operation, Outcome, ScanOrder};
pub use violation::IndexViolation;

use super::found::Found;
use core::ops::RangeInclusive;
use operation::{End, Moment, Point, Reset, Scan};
use rackweave_base::Instant;
use search::{Call, Failure, Needs, State};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum operations listed with a violation.
const BEFORE_MAX: usize = 8;

/// An operation that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointId(usize);

/// A scan that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanId(usize);

/// The result of a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// Keys and values, in the order in which they came.
    pub entries: Vec<(u64, ValueStamp)>,
    /// Whether it reached the end of its range. If not, it was stopped after its last entry.
    pub whole: bool,
}

/// How much a history has checked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IndexCounts {
    /// Gets with a result.
    pub gets: u64,
    /// Other operations with a result.
    pub changes: u64,
    /// Operations with an unknown result.
    pub unknown: u64,
    /// Scans with a result.
    pub scans: u64,
    /// Keys that they returned.
    pub scanned: u64,
}

/// The history of an index.
#[derive(Debug, Default)]
pub struct IndexHistory {
    events: u64,
    points: Vec<Point>,
    scans: Vec<Scan>,
    resets: Vec<Reset>,
    loaded: BTreeMap<u64, ValueStamp>,
    stamps: HashSet<ValueStamp>,
    violations: Found<IndexViolation>,
}

impl IndexHistory {
    /// The history of an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a key is present from the beginning.
    ///
    /// # Panics
    /// If the value was written before, or the key loaded before.
    pub fn load(&mut self, key: u64, stamp: ValueStamp) {
        self.note_stamp(stamp);
        let before = self.loaded.insert(key, stamp);
        assert_eq!(before, None, "a key is loaded once");
    }

    /// Records the beginning of an operation.
    ///
    /// # Panics
    /// If it writes a value that was written before: the two could not be distinguished.
    pub fn begin(&mut self, now: Instant, who: u32, key: u64, operation: Operation) -> PointId {
        if let Some(stamp) = operation.stamp() {
            self.note_stamp(stamp);
        }
        let begun = self.moment(now);
        self.points.push(Point {
            who,
            key,
            operation,
            begun,
            end: End::Open,
        });
        PointId(self.points.len() - 1)
    }

    /// Records the result of an operation.
    ///
    /// # Panics
    /// If it cannot have such a result, or has ended before.
    pub fn end(&mut self, now: Instant, id: PointId, outcome: Outcome) {
        let moment = self.moment(now);
        let point = &mut self.points[id.0];
        assert!(
            point.operation.can_end(outcome),
            "{:?} does not end with {outcome:?}",
            point.operation
        );
        Self::close(point, End::Known(moment, outcome));
    }

    /// Records that an operation's result will never be known; it has taken effect by now or never
    /// will.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn lost(&mut self, now: Instant, id: PointId) {
        let moment = self.moment(now);
        Self::close(&mut self.points[id.0], End::Lost(moment));
    }

    /// Records that an operation was refused: it has not taken effect.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn refused(&mut self, id: PointId) {
        Self::close(&mut self.points[id.0], End::Refused);
    }

    /// Records that a get returned bytes that are not a value of its key.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn torn(&mut self, now: Instant, id: PointId, error: TornValue) {
        self.refused(id);
        let point = &self.points[id.0];
        let what = format!("{point}, ended at {} ns", now.as_nanos());
        let key = point.key;
        self.violations
            .push(IndexViolation::Torn { key, what, error });
    }

    fn close(point: &mut Point, end: End) {
        assert_eq!(point.end, End::Open, "an operation ends once");
        point.end = end;
    }

    /// Records the beginning of a scan.
    pub fn begin_scan(
        &mut self,
        now: Instant,
        who: u32,
        range: RangeInclusive<u64>,
        order: ScanOrder,
    ) -> ScanId {
        let begun = self.moment(now);
        self.scans.push(Scan {
            who,
            range,
            order,
            begun,
            ended: None,
        });
        ScanId(self.scans.len() - 1)
    }

    /// Records the result of a scan. A scan without a result is not checked.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn end_scan(&mut self, now: Instant, id: ScanId, scanned: Scanned) {
        let moment = self.moment(now);
        let scan = &mut self.scans[id.0];
        assert!(scan.ended.is_none(), "a scan ends once");
        scan.ended = Some((moment, scanned));
        let scan = scan.clone();
        self.judge_order(&scan);
    }

    /// Records that a scan returned bytes that are not a value of their key. The scan has to be
    /// ended without this key, or not at all.
    pub fn torn_in_scan(&mut self, id: ScanId, key: u64, error: TornValue) {
        let what = self.scans[id.0].to_string();
        self.violations
            .push(IndexViolation::Torn { key, what, error });
    }

    /// Records that the index lost a range of keys after `begun` (an event taken by
    /// [`Self::moment_now`]): by now the keys in `kept` are present again and no others. With
    /// `certain` false it may also have kept everything.
    ///
    /// # Panics
    /// If a kept value was never written.
    pub fn restarted(
        &mut self,
        now: Instant,
        begun: Began,
        range: RangeInclusive<u64>,
        kept: Vec<(u64, ValueStamp)>,
        certain: bool,
    ) {
        let known = |(_, stamp): &(u64, ValueStamp)| self.stamps.contains(stamp);
        assert!(kept.iter().all(known), "what is kept was there");
        let ended = self.moment(now);
        self.resets.push(Reset {
            range,
            kept,
            begun: begun.0,
            ended,
            certain,
        });
    }

    /// Records that an event begins now that is reported later.
    pub fn moment_now(&mut self, now: Instant) -> Began {
        Began(self.moment(now))
    }

    /// The number of things checked.
    pub fn counts(&self) -> IndexCounts {
        let mut counts = IndexCounts::default();
        for point in &self.points {
            match point.end {
                End::Known(_, Outcome::Found(_)) => counts.gets += 1,
                End::Known(..) => counts.changes += 1,
                End::Open | End::Lost(_) => counts.unknown += 1,
                End::Refused => {}
            }
        }
        for (_, scanned) in self.scans.iter().filter_map(|scan| scan.ended.as_ref()) {
            counts.scans += 1;
            counts.scanned += scanned.entries.len() as u64;
        }
        counts
    }

    /// The verdict.
    ///
    /// # Errors
    /// All violations, the first ones in full; for each key at most one linearizability violation
    /// is found.
    pub fn finish(mut self) -> Result<IndexCounts, Vec<IndexViolation>> {
        let mut keys: BTreeSet<u64> = self.loaded.keys().copied().collect();
        keys.extend(self.points.iter().map(|point| point.key));
        for (_, scanned) in self.scans.iter().filter_map(|scan| scan.ended.as_ref()) {
            keys.extend(scanned.entries.iter().map(|&(key, _)| key));
        }
        let mut points: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, point) in self.points.iter().enumerate() {
            points.entry(point.key).or_default().push(at);
        }
        for key in keys {
            let of_key = points.get(&key).map_or(&[][..], |of_key| of_key);
            if let Some(violation) = self.judge(key, of_key) {
                self.violations.push(violation);
            }
        }
        let counts = self.counts();
        self.violations.judge(counts)
    }

    /// Number of violations so far, including those not kept in full.
    pub fn violation_count(&self) -> u64 {
        self.violations.count()
    }

    fn moment(&mut self, time: Instant) -> Moment {
        self.events += 1;
        let number = self.events;
        Moment { number, time }
    }

    fn note_stamp(&mut self, stamp: ValueStamp) {
        assert!(self.stamps.insert(stamp), "{stamp} is written once");
    }
}

/// The recorded beginning of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Began(Moment);

mod judge;

#[cfg(test)]
mod tests;
