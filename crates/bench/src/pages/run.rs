//! What all workers of a run share.

use super::heap::Heap;
use super::options::PagesOptions;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_endpoint::page_store::FixError;
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{Expectations, InsertCounter, InsertError};
use std::sync::{Mutex, MutexGuard};

/// Records whose versions are remembered; of more, every n-th.
const REMEMBERED_MAX: u64 = 1 << 22;

/// Verification errors that are kept; the others are counted.
const KEPT: usize = 8;

/// A read that was not what it should be.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct VerificationError {
    /// The record.
    pub key: u64,
    /// Its page in the store.
    pub page: u64,
    /// What is wrong.
    pub reason: String,
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// A page could not be had.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// A record could not be inserted.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// The store has no page for it.
    #[error(transparent)]
    Allocate(#[from] rackweave_endpoint::page_store::AllocateError),
}

/// What all workers of a run share.
#[derive(Debug)]
pub struct Run {
    /// What was asked for.
    pub options: PagesOptions,
    /// Where records are.
    pub heap: Heap,
    /// Which versions they have.
    pub expectations: Expectations,
    /// How many there are.
    pub inserts: InsertCounter,
    /// Operations that have ended.
    pub ended: AtomicU64,
    stop: AtomicBool,
    errors: AtomicU64,
    first_errors: Mutex<Vec<VerificationError>>,
    failure: Mutex<Option<RunError>>,
}

impl Run {
    /// A run over a heap of `records` records, all in version 0.
    pub fn new(options: PagesOptions, heap: Heap, records: u64) -> Self {
        let records_max = heap.records_max();
        Self {
            options,
            expectations: Expectations::new(records_max, REMEMBERED_MAX),
            inserts: InsertCounter::new(records, records_max),
            heap,
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            first_errors: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Has all workers begin nothing new.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether nothing new is to begin.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Something was not what it should be.
    pub fn note(&self, key: u64, page: PageId, reason: impl ToString) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_errors);
        if first.len() < KEPT {
            first.push(VerificationError {
                key,
                page: page.index(),
                reason: reason.to_string(),
            });
        }
    }

    /// It cannot go on.
    pub fn fail(&self, error: impl Into<RunError>) {
        lock(&self.failure).get_or_insert(error.into());
        self.stop();
    }

    /// A page could not be had: what it says of the page's content is a verification error, and
    /// everything else the end.
    pub fn fix_failed(&self, key: u64, page: PageId, error: FixError) {
        match error {
            FixError::Corrupt { .. } | FixError::WrongPage { .. } | FixError::Lost(_) => {
                self.note(key, page, error);
            }
            other => self.fail(other),
        }
    }

    /// How many things were not what they should be, and the first of them.
    pub fn errors(&self) -> (u64, Vec<VerificationError>) {
        let first = lock(&self.first_errors).clone();
        (self.errors.load(Ordering::Relaxed), first)
    }

    /// Why it ended early, if it did.
    pub fn failure(&self) -> Option<RunError> {
        *lock(&self.failure)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}
