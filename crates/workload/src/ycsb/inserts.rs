//! Numbers for new records, shared by all workers.
//!
//! A number is given when an insert starts and acknowledged when the record is there. Others may
//! read a record once it and all before it were acknowledged, so readers never meet a hole. YCSB
//! does the same (`AcknowledgedCounterGenerator`).

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Gives record numbers to inserts and tells how many records there are.
#[derive(Debug)]
pub struct InsertCounter {
    /// The next number to give.
    next: AtomicU64,
    /// All records below were acknowledged.
    inserted: AtomicU64,
    /// A number that was acknowledged and is not counted yet is in its place, plus one. Whole
    /// numbers, not bits: a worker that slept cannot take the number of a later round for its own.
    waiting: Box<[AtomicU64]>,
    records_max: u64,
}

/// Why there is no number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InsertError {
    /// There is no room for more records.
    #[error("there is room for {records_max} records, and all are taken; give the run more room")]
    Full {
        /// Records that there is room for.
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
    /// The most inserts between the oldest that is under way and the next.
    pub const UNDER_WAY_MAX: u64 = 4096;

    /// Counts on from `records` records that are there, up to `records_max`.
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

    /// How many records there are: all below this number may be read.
    pub fn inserted(&self) -> u64 {
        self.inserted.load(SeqCst)
    }

    /// Gives the number of a new record. It must be acknowledged at last, as no later record is
    /// counted before it: an insert that fails is to be tried again.
    ///
    /// # Errors
    /// If there is no room, or too many inserts are under way.
    pub fn begin(&self) -> Result<u64, InsertError> {
        let mut key = self.next.load(SeqCst);
        loop {
            if key >= self.records_max {
                let records_max = self.records_max;
                return Err(InsertError::Full { records_max });
            }
            // An old value is smaller, so at worst this refuses what would just fit.
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

    /// Record `key`, whose number came from [`Self::begin`], is there.
    pub fn acknowledge(&self, key: u64) {
        self.place(key).store(key + 1, SeqCst);
        // Whoever takes the number of the next record out of its place counts it, and looks again.
        // A worker that finds nothing may leave: its own number was in its place before it read
        // `inserted`, so the one who moves `inserted` there will find it.
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
