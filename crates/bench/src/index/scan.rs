//! The expected results of a scan.

use super::keys::Keys;
use crate::ycsb::Run;
use core::ops::Range;
use rackweave_endpoint::index::Value;
use rackweave_workload::ycsb::Floor;

/// A pending scan.
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
