//! Value records, which are read after the leaf that refers to them.

use super::walk::Walk;
use super::{Found, Parts, Query, Wanted};
use crate::index::op::Value;
use rackweave_wire::fabric::tree::{RecordError, ValueRef};

/// A reference to a value record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub key: u64,
    pub value: ValueRef,
    /// The index of the scan entry that it belongs to.
    pub entry: usize,
}

impl Walk {
    /// Reads the records from number `from` on, as many as may be in flight.
    pub(super) fn read_records(&mut self, parts: &mut Parts<'_>, from: usize) {
        let most = usize::from(parts.config.records);
        self.batch = from;
        self.outstanding = self.references[from..].len().min(most);
        self.spoiled = false;
        for part in 0..self.outstanding {
            if !self.read_record(parts, part) {
                return self.finish(Found::Corrupt);
            }
        }
    }

    /// False if the record is not in the heap.
    fn read_record(&mut self, parts: &mut Parts<'_>, part: usize) -> bool {
        let remote = parts.remote;
        let value = self.references[self.batch + part].value;
        let length = value.bytes() as u64;
        let inside = value.length <= remote.value_max
            && value.offset().saturating_add(length) <= remote.heap_bytes;
        if inside {
            let heap = remote.address + remote.layout.offset(remote.tree_nodes);
            parts.wanted.push(Wanted {
                part: part as u8,
                address: heap + value.offset(),
                rkey: remote.rkey,
                length: length as u32,
            });
        }
        inside
    }

    pub(super) fn record(&mut self, parts: &mut Parts<'_>, part: usize, bytes: &[u8]) {
        let Some(&reference) = self.references.get(self.batch + part) else {
            return;
        };
        match reference.value.value(reference.key, bytes) {
            Ok(value) => {
                let value = Value::from(value);
                match self.query {
                    Query::Get { .. } => return self.finish(Found::Value(Some(value))),
                    Query::Scan { .. } => self.entries[reference.entry].1 = value,
                }
            }
            Err(RecordError::Torn) if self.torn < parts.config.torn_max => {
                parts.statistics.records_torn += 1;
                self.torn += 1;
                self.read_record(parts, part);
                return;
            }
            Err(_) => {
                parts.statistics.records_stale += 1;
                self.spoiled = true;
            }
        }
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        if self.spoiled {
            return self.leaf_again(parts);
        }
        let next = self.batch + usize::from(parts.config.records);
        if next < self.references.len() {
            self.read_records(parts, next);
        } else {
            self.leaf_done(parts);
        }
    }

    /// A record was freed since the leaf was read: reads the leaf again.
    fn leaf_again(&mut self, parts: &mut Parts<'_>) {
        self.entries.truncate(self.finished);
        self.references.clear();
        self.torn = 0;
        if self.is_patient(parts) {
            self.read(parts);
        }
    }
}
