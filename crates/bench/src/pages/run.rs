//! What all workers of a run share.

use super::heap::Heap;
use super::options::PagesOptions;
use crate::ycsb::{Findings, VerificationError};
use core::sync::atomic::AtomicU64;
use rackweave_endpoint::page_store::FixError;
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{Expectations, InsertCounter, InsertError};

/// Records whose versions are remembered; of more, every n-th.
const REMEMBERED_MAX: u64 = 1 << 22;

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
    findings: Findings<RunError>,
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
            findings: Findings::default(),
        }
    }

    /// Has all workers begin nothing new.
    pub fn stop(&self) {
        self.findings.stop();
    }

    /// Whether nothing new is to begin.
    pub fn is_stopped(&self) -> bool {
        self.findings.is_stopped()
    }

    /// Something was not what it should be.
    pub fn note(&self, key: u64, page: PageId, reason: impl ToString) {
        self.findings.note(key, Some(page.index()), reason);
    }

    /// It cannot go on.
    pub fn fail(&self, error: impl Into<RunError>) {
        self.findings.fail(error);
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
        self.findings.errors()
    }

    /// Why it ended early, if it did.
    pub fn failure(&self) -> Option<RunError> {
        self.findings.failure()
    }
}
