//! How much memory the streams of a query take.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The bytes that a group of streams, usually those of a query, may hold at this node in messages
/// that have arrived and were not taken. Clones are the same budget.
///
/// Each stream has its minimum window in any case. Larger windows are granted while their sum is
/// within the limit. A message that is longer than its stream's credit exceeds it once.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: u64,
    /// The sum of the windows.
    windows: AtomicU64,
    /// Bytes of messages that have arrived and were not taken.
    used: AtomicU64,
    peak: AtomicU64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Counts {
            limit,
            windows: AtomicU64::new(0),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }))
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes of the messages that have arrived and were not taken.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The maximum of [`Self::used`] so far.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// The sum of the windows of the streams that are open.
    pub fn windows(&self) -> u64 {
        self.0.windows.load(Ordering::Relaxed)
    }

    /// Adds a window that is granted in any case.
    pub(super) fn hold(&self, bytes: u32) {
        self.0.windows.fetch_add(bytes.into(), Ordering::Relaxed);
    }

    /// Adds to a window if the sum stays within the limit.
    pub(super) fn try_hold(&self, bytes: u32) -> bool {
        let more = |sum: u64| {
            sum.checked_add(bytes.into())
                .filter(|&sum| sum <= self.0.limit)
        };
        let windows = &self.0.windows;
        windows
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Gives a window back.
    pub(super) fn release(&self, bytes: u32) {
        self.0.windows.fetch_sub(bytes.into(), Ordering::Relaxed);
    }

    pub(super) fn add(&self, bytes: u64) {
        let used = self.0.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.peak.fetch_max(used, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: u64) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
