//! State shared by all workers of a run: visible versions, errors, whether it continues.

use super::prelude::*;
use rackweave_workload::ycsb::{Expectations, InsertCounter};
use std::sync::MutexGuard;

/// Number of records whose versions are remembered; if there are more, every n-th is.
const REMEMBERED_MAX: u64 = 1 << 22;

/// Number of verification errors that are kept; further ones are only counted.
const KEPT: usize = 8;

/// A read that returned something wrong.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct VerificationError {
    /// The record.
    pub key: u64,
    /// Its page in the store, if records lie in pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

/// State shared by all workers of a run.
#[derive(Debug)]
pub struct Run {
    /// The requested operations.
    pub load: Load,
    /// The versions that readers may see. Successive runs over the same records share it.
    pub expectations: Arc<Expectations>,
    /// The number of records.
    pub inserts: Arc<InsertCounter>,
    /// Operations that have ended.
    pub ended: AtomicU64,
    stop: AtomicBool,
    errors: AtomicU64,
    first_errors: Mutex<Vec<VerificationError>>,
    failure: Mutex<Option<RunError>>,
}

impl Run {
    /// A run over `records` records, all in version 0, which may grow to `records_max`.
    pub fn new(load: Load, records: u64, records_max: u64) -> Self {
        let expectations = Expectations::new(records_max, REMEMBERED_MAX);
        let inserts = InsertCounter::new(records, records_max);
        Self::over(load, Arc::new(expectations), Arc::new(inserts))
    }

    /// Another run over the records that this one leaves.
    pub fn again(&self, load: Load) -> Self {
        Self::over(
            load,
            Arc::clone(&self.expectations),
            Arc::clone(&self.inserts),
        )
    }

    fn over(load: Load, expectations: Arc<Expectations>, inserts: Arc<InsertCounter>) -> Self {
        Self {
            load,
            expectations,
            inserts,
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            first_errors: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Makes all workers begin no new operation.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether no new operation is to begin.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports the progress of the run; false if the user wants to stop.
    pub(crate) fn report(&self, progress: Progress<'_>) -> bool {
        let all = self.load.ycsb.operations.max(1);
        let ended = self.ended.load(Ordering::Relaxed);
        progress(Phase::Run, ended as f64 / all as f64)
    }

    /// Records a verification error.
    pub fn note(&self, key: u64, page: Option<u64>, reason: impl ToString) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_errors);
        if first.len() < KEPT {
            let reason = reason.to_string();
            first.push(VerificationError { key, page, reason });
        }
    }

    /// Records a verification error if there is one.
    pub(crate) fn check<E: ToString>(&self, key: u64, page: Option<u64>, checked: Result<(), E>) {
        if let Err(error) = checked {
            self.note(key, page, error);
        }
    }

    /// Ends the run, which cannot continue.
    pub fn fail(&self, error: impl Into<RunError>) {
        lock(&self.failure).get_or_insert(error.into());
        self.stop();
    }

    /// The number of verification errors, and the first of them.
    pub fn errors(&self) -> (u64, Vec<VerificationError>) {
        let first = lock(&self.first_errors).clone();
        (self.errors.load(Ordering::Relaxed), first)
    }

    /// Why the run ended early, if it did.
    pub fn failure(&self) -> Option<RunError> {
        *lock(&self.failure)
    }

    /// Verifies a record that was read: every byte, and that a reader that knew `floor` before may
    /// see this version. Returns the version if the record is intact.
    pub fn verify(&self, key: u64, page: Option<u64>, bytes: &[u8], floor: Floor) -> Option<u64> {
        let version = self.whole(key, page, bytes)?;
        self.check(key, page, self.expectations.after_read(key, version, floor));
        Some(version)
    }

    /// Verifies every byte of a record. Returns its version if the record is intact.
    pub fn whole(&self, key: u64, page: Option<u64>, bytes: &[u8]) -> Option<u64> {
        let (len, expected) = (bytes.len(), self.load.ycsb.record_size as usize);
        if len != expected {
            let reason = format!("it has {len} bytes, and {expected} were written");
            self.note(key, page, reason);
            return None;
        }
        let verified = verify_record(bytes, key).map(|view| view.version);
        verified.map_err(|error| self.note(key, page, error)).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}

#[cfg(test)]
mod tests;
