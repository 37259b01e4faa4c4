//! What the workers of a run have found, and whether it goes on.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Verification errors that are kept; the others are counted.
const KEPT: usize = 8;

/// A read that was not what it should be.
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

/// What all workers of a run note. `E` is why it may end early.
#[derive(Debug)]
pub struct Findings<E> {
    stop: AtomicBool,
    errors: AtomicU64,
    first_errors: Mutex<Vec<VerificationError>>,
    failure: Mutex<Option<E>>,
}

impl<E> Default for Findings<E> {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            first_errors: Mutex::default(),
            failure: Mutex::default(),
        }
    }
}

impl<E: Copy> Findings<E> {
    /// Has all workers begin nothing new.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether nothing new is to begin.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Something was not what it should be.
    pub fn note(&self, key: u64, page: Option<u64>, reason: impl ToString) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_errors);
        if first.len() < KEPT {
            let reason = reason.to_string();
            first.push(VerificationError { key, page, reason });
        }
    }

    /// It cannot go on.
    pub fn fail(&self, error: impl Into<E>) {
        lock(&self.failure).get_or_insert(error.into());
        self.stop();
    }

    /// How many things were not what they should be, and the first of them.
    pub fn errors(&self) -> (u64, Vec<VerificationError>) {
        let first = lock(&self.first_errors).clone();
        (self.errors.load(Ordering::Relaxed), first)
    }

    /// Why it ended early, if it did.
    pub fn failure(&self) -> Option<E> {
        *lock(&self.failure)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_counted_and_the_first_are_kept() {
        let findings = Findings::<u32>::default();
        for key in 0..20 {
            findings.note(key, None, "wrong");
        }
        let (count, first) = findings.errors();
        let keys: Vec<_> = first.iter().map(|error| error.key).collect();
        assert_eq!((count, keys), (20, (0..KEPT as u64).collect()));
        assert!(!findings.is_stopped());
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let findings = Findings::<u32>::default();
        assert_eq!(findings.failure(), None);
        findings.fail(3u32);
        findings.fail(4u32);
        assert_eq!((findings.failure(), findings.is_stopped()), (Some(3), true));
    }
}
