//! The engine's log: a changed page leaves its node only when the log is durable up to the page's
//! LSN.

use super::{Pool, lock};
use rackweave_base::Instant;
use rackweave_base::canary::{Canary, planted};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The redo log of the engine above, as a pool knows it ([`Pool::set_log`]).
///
/// # Guarantees
/// Before a page that was given an LSN ([`PageGuard::set_lsn`]) leaves its node, `make_durable` has
/// returned this LSN or a higher one. A page leaves when its latch is released, since from then on
/// any node may read it from this node's memory, and when it is written home. Until then it stays
/// latched: other fixes wait, and get neither the old version nor the new one.
///
/// A change without an LSN does not wait for the log.
///
/// # Requirements
/// LSNs have one order across all nodes that share the pages, start above zero, and grow for the
/// lifetime of the store. The record of a change is appended to the log before the guard is
/// dropped.
///
/// [`PageGuard::set_lsn`]: crate::page_store::PageGuard::set_lsn
pub trait RedoLog: Send + Sync {
    /// Makes the log durable up to `lsn`, or starts to, and returns the highest LSN up to which it
    /// is durable now.
    ///
    /// `lsn` is the highest LSN of all pages that are about to leave, so one call commits the
    /// changes of all threads of the node. The returned value is trusted from then on, so the same
    /// `lsn` is seldom requested twice. If the returned value is lower than requested, the pages
    /// above it stay, and the call is repeated after some 10 µs to 1 ms.
    ///
    /// It is called in the thread of a worker that is polled, that is, within `fix`, `unfix`,
    /// `settle`, `flush` and `poll` of any worker of the node, and by several threads concurrently.
    /// It may block, and blocks that worker; the machines of the rack continue meanwhile, unless
    /// [`Worker::poll`](crate::page_store::Worker::poll) is called while the caller holds the
    /// node's NIC. It must not use a worker, and must not wait for a thread that does; so a lock
    /// that it takes must not be held while a worker waits.
    ///
    /// A log that cannot be written returns the LSN that was durable before, and everything that
    /// depends on it is blocked: see
    /// [`FixError::NotLogged`](crate::page_store::FixError::NotLogged).
    fn make_durable(&self, lsn: u64) -> u64;
}

/// The pool's state of the engine's log.
#[derive(Default)]
pub(super) struct Gate {
    is_set: AtomicBool,
    log: Mutex<Option<Arc<dyn RedoLog>>>,
    /// The highest LSN that the log has confirmed.
    durable: AtomicU64,
    behind_since: Mutex<Option<Instant>>,
}

impl Pool {
    /// Installs the engine's log, replacing any previous one. The pool keeps it for its lifetime;
    /// it must not own the pool or a worker, since neither would ever be dropped.
    ///
    /// Pages that were changed earlier wait for it too, if they were given an LSN and have not been
    /// written home.
    pub fn set_log(&self, log: Arc<dyn RedoLog>) {
        *lock(&self.gate.log) = Some(log);
        self.gate.durable.store(0, Ordering::Release);
        self.gate.is_set.store(true, Ordering::Release);
    }

    /// The engine's log, if one was installed.
    pub fn log(&self) -> Option<Arc<dyn RedoLog>> {
        lock(&self.gate.log).clone()
    }

    /// Whether a log is installed.
    #[inline]
    pub(in super::super) fn has_log(&self) -> bool {
        self.gate.is_set.load(Ordering::Relaxed)
    }

    /// Whether a page with this LSN may leave the node. Zero means that it has no LSN.
    #[inline]
    pub(in super::super) fn may_leave(&self, lsn: u64) -> bool {
        let durable = || self.gate.durable.load(Ordering::Acquire);
        lsn == 0 || !self.has_log() || lsn <= durable() || planted(Canary::PagesLogNotAsked)
    }

    /// Requests that the log be made durable up to `lsn`. False if it is behind.
    pub(in super::super) fn ask_log(&self, lsn: u64, now: Instant) -> bool {
        let Some(log) = self.log() else {
            return true;
        };
        let durable = log.make_durable(lsn);
        let before = self.gate.durable.fetch_max(durable, Ordering::AcqRel);
        let is_behind = durable < lsn;
        let mut behind_since = lock(&self.gate.behind_since);
        if !is_behind || durable > before {
            *behind_since = None;
        }
        if is_behind {
            behind_since.get_or_insert(now);
        }
        !is_behind
    }

    /// Since when the log has been behind without progress, if it is.
    pub(in super::super) fn log_behind_since(&self) -> Option<Instant> {
        *lock(&self.gate.behind_since)
    }
}

impl core::fmt::Debug for Gate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gate")
            .field("is_set", &self.is_set)
            .field("durable", &self.durable)
            .field("behind_since", &self.behind_since)
            .finish_non_exhaustive()
    }
}
