//! Machines behind locks: which thread drives which of them, and when they are due.

use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::Instant;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration as Time;

/// Nothing is due.
pub(crate) const NEVER: u64 = u64::MAX;

/// Attempts to lock a machine before the thread sleeps: some microseconds, in which the thread that
/// drives the machine finishes a burst.
const TRIES_AWAKE: u32 = 256;

/// A machine behind its lock, and the time when it is due.
pub(crate) struct LockedMachine<S> {
    linked: Mutex<S>,
    deadline: AtomicU64,
    /// When it last moved much, whichever thread drove it, in nanoseconds.
    busy: AtomicU64,
    /// When a thread of its own node last drove it while it was busy.
    attended: AtomicU64,
}

/// How long, in nanoseconds, a machine is left to the thread of its own node that last drove it.
/// What a NIC stores is then in the cache of the core that is about to read it, and no other core
/// waits for the NIC. It is longer than that thread may be busy with what arrived; if the thread
/// has ended, waiting threads detect that by their idle rounds.
const ATTENDED: u64 = 500_000;

/// Locks a mutex unless it is locked already.
///
/// # Panics
/// If a thread that held it has panicked: otherwise the machine would look busy forever.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("what panicked is not to be trusted"),
    }
}

impl<S> LockedMachine<S> {
    pub fn new(linked: S) -> Self {
        Self {
            linked: Mutex::new(linked),
            deadline: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            attended: AtomicU64::new(0),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, S> {
        // The other thread holds the machine for less time than falling asleep and waking takes.
        for _ in 0..TRIES_AWAKE {
            if let Some(linked) = self.try_lock() {
                return linked;
            }
            core::hint::spin_loop();
        }
        self.linked
            .lock()
            .expect("a machine that panicked is not to be trusted")
    }

    /// Locks the machine, unless another thread is driving it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, S>> {
        try_lock(&self.linked)
    }

    /// Records that it has moved much just now.
    pub fn note_busy(&self, now: Instant) {
        self.busy.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Records that a thread of its own node drives it now. That counts only while it is busy; any
    /// passing thread can do a small amount of work.
    pub fn attend(&self, now: Instant) {
        if is_of_late(&self.busy, now) {
            self.attended.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Whether a thread of its own node has driven it recently.
    pub fn is_attended(&self, now: Instant) -> bool {
        is_of_late(&self.attended, now)
    }

    /// Records when it is due. Returns whether that is another time than before.
    pub fn note_deadline(&self, deadline: Option<Instant>) -> bool {
        let due = deadline.map_or(NEVER, Instant::as_nanos);
        let is_new = self.deadline.load(Ordering::Relaxed) != due;
        if is_new {
            self.deadline.store(due, Ordering::Release);
        }
        is_new
    }

    /// When it is due, in nanoseconds; [`NEVER`] if not at all.
    pub fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Acquire)
    }
}

/// Whether a time is at most [`ATTENDED`] ago.
fn is_of_late(time: &AtomicU64, now: Instant) -> bool {
    let since = now.as_nanos().wrapping_sub(time.load(Ordering::Relaxed));
    // Another thread may have read the clock later.
    since < ATTENDED || since > ATTENDED.wrapping_neg()
}

/// The time from `now` until `deadline`, both in nanoseconds, but at most `limit`.
pub(crate) fn span(deadline: u64, now: Instant, limit: Time) -> Time {
    Time::from_nanos(deadline.saturating_sub(now.as_nanos())).min(limit)
}
