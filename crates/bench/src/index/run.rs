//! What all workers of a run share.

use super::error::RunError;
use super::keys::Keys;
use super::options::{Access, IndexOptions};
use super::turns::Turns;
use crate::ycsb::Findings;
use core::sync::atomic::AtomicU64;
use rackweave_workload::ycsb::{Expectations, Floor, InsertCounter, verify_record};
use std::sync::Arc;

/// Records whose versions are remembered for readers; of more, every n-th.
const REMEMBERED_MAX: u64 = 1 << 22;

/// What all workers of a run share.
#[derive(Debug)]
pub struct Run {
    /// What was asked for.
    pub options: IndexOptions,
    /// Where records are.
    pub keys: Keys,
    /// Which versions readers may see; runs over the same records one after another share it, and
    /// the two behind it.
    pub expectations: Arc<Expectations>,
    /// Whose turn it is to change a record.
    pub turns: Arc<Turns>,
    /// How many records there are.
    pub inserts: Arc<InsertCounter>,
    /// Operations that have ended.
    pub ended: AtomicU64,
    /// What was wrong.
    pub findings: Findings<RunError>,
}

impl Run {
    /// A run over the records of the start, all in version 0.
    pub fn new(options: &IndexOptions) -> Self {
        let records_max = options.ycsb.records_max();
        Self {
            keys: options.keys(),
            expectations: Arc::new(Expectations::new(records_max, REMEMBERED_MAX)),
            turns: Arc::new(Turns::new(records_max)),
            inserts: Arc::new(InsertCounter::new(options.ycsb.records, records_max)),
            ended: AtomicU64::new(0),
            findings: Findings::default(),
            options: options.clone(),
        }
    }

    /// A run over the records that this one leaves, which has the same keys, by so many
    /// threads that come to them in another way.
    pub fn again(&self, access: Access, threads: u16) -> Self {
        Self {
            options: IndexOptions {
                access,
                threads,
                ..self.options.clone()
            },
            keys: self.keys,
            expectations: Arc::clone(&self.expectations),
            turns: Arc::clone(&self.turns),
            inserts: Arc::clone(&self.inserts),
            ended: AtomicU64::new(0),
            findings: Findings::default(),
        }
    }

    /// Something about a record is not what it should be.
    pub fn note(&self, record: u64, reason: impl ToString) {
        self.findings.note(record, None, reason);
    }

    /// Verifies what was read of a record: every byte, and that this version may be seen by who
    /// knew `floor` before. The version, if the record is whole.
    pub fn verify(&self, record: u64, bytes: &[u8], floor: Floor) -> Option<u64> {
        let version = self.whole(record, bytes)?;
        let judged = self.expectations.after_read(record, version, floor);
        if let Err(error) = judged {
            self.note(record, error);
        }
        Some(version)
    }

    /// Verifies every byte of a record; its version if it is whole.
    pub fn whole(&self, record: u64, bytes: &[u8]) -> Option<u64> {
        let expected = self.options.ycsb.record_size as usize;
        if bytes.len() != expected {
            let len = bytes.len();
            self.note(
                record,
                format!("it has {len} bytes, and {expected} were written"),
            );
            return None;
        }
        match verify_record(bytes, record) {
            Ok(view) => Some(view.version),
            Err(error) => {
                self.note(record, error);
                None
            }
        }
    }
}
