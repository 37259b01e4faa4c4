//! Numbers for new records, shared by all workers.
//!
//! A number is assigned when an insert starts and acknowledged when the record exists. Others may
//! read a record once it and all before it were acknowledged, so readers never meet a gap. YCSB
//! does the same (`AcknowledgedCounterGenerator`).

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Assigns record numbers to inserts and reports the number of records.
#[derive(Debug)]
pub struct InsertCounter {
    /// The next number to assign.
    next: AtomicU64,
    /// All records below were acknowledged.
    inserted: AtomicU64,
    /// An acknowledged number that is not counted yet is stored in its slot, plus one. Whole
    /// numbers, not bits: a delayed worker must not mistake the number of a later round for its
    /// own.
    waiting: Box<[AtomicU64]>,
    records_max: u64,
}

/// Why no number is assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InsertError {
    /// The capacity for records is exhausted.
    #[error("there is room for {records_max} records, and all are taken; give the run more room")]
    Full {
        /// The capacity.
        records_max: u64,
    },
    /// An insert that began long ago has not been acknowledged.
    #[error(
        "{under_way} inserts are under way, and record {oldest} is waited for; acknowledge it first"
    )]
    TooManyUnderWay {
        /// Inserts that began and are not counted.
        under_way: u64,
        /// The oldest of them.
        oldest: u64,
    },
}

impl InsertCounter {
    /// Maximum inserts between the oldest pending one and the next.
    pub const UNDER_WAY_MAX: u64 = 4096;

    /// Continues after `records` existing records, up to `records_max`.
    pub fn new(records: u64, records_max: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            inserted: AtomicU64::new(records),
            waiting: (0..Self::UNDER_WAY_MAX)
                .map(|_| AtomicU64::new(0))
                .collect(),
            records_max,
        }
    }

    /// The number of records: all below this number may be read.
    pub fn inserted(&self) -> u64 {
        self.inserted.load(SeqCst)
    }

    /// Assigns the number of a new record. It must be acknowledged eventually, as no later record
    /// is counted before it: a failed insert has to be retried.
    ///
    /// # Errors
    /// If there is no capacity, or too many inserts are pending.
    pub fn begin(&self) -> Result<u64, InsertError> {
        let mut key = self.next.load(SeqCst);
        loop {
            if key >= self.records_max {
                let records_max = self.records_max;
                return Err(InsertError::Full { records_max });
            }
            // A stale value is smaller, so at worst this refuses an insert that would just fit.
            let oldest = self.inserted();
            let under_way = key.saturating_sub(oldest);
            if under_way >= Self::UNDER_WAY_MAX {
                return Err(InsertError::TooManyUnderWay { under_way, oldest });
            }
            match self
                .next
                .compare_exchange_weak(key, key + 1, SeqCst, SeqCst)
            {
                Ok(_) => return Ok(key),
                Err(now) => key = now,
            }
        }
    }

    /// Acknowledges that record `key`, whose number came from [`Self::begin`], exists.
    pub fn acknowledge(&self, key: u64) {
        self.place(key).store(key + 1, SeqCst);
        // The worker that takes the number of the next record out of its slot counts it, and looks
        // again. A worker that finds nothing may leave: its own number was in its slot before it
        // read `inserted`, so the worker that moves `inserted` there will find it.
        loop {
            let next = self.inserted();
            let taken = self
                .place(next)
                .compare_exchange(next + 1, 0, SeqCst, SeqCst);
            if taken.is_err() {
                return;
            }
            self.inserted.store(next + 1, SeqCst);
        }
    }

    fn place(&self, key: u64) -> &AtomicU64 {
        &self.waiting[(key % Self::UNDER_WAY_MAX) as usize]
    }
}
