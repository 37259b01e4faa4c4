//! Runs state machines in real time: a thread runs one, and other threads access it through a lock.

use rackweave_base::Instant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the thread sleeps when it has no work: short compared to the response of an emulated
/// guest.
const REST: Duration = Duration::from_micros(50);

/// A state machine that a thread can run.
pub trait Machine: Send + 'static {
    /// Does all work that is possible now. True if there was any.
    fn run(&mut self, now: Instant) -> bool;
}

/// A state machine run by a thread. It stops when dropped.
pub struct Driver<M: Machine> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<M> {
    machine: Mutex<M>,
    stop: AtomicBool,
    epoch: std::time::Instant,
}

impl<M> Shared<M> {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, M> {
        // A test that panicked with the lock held left the machine between two of its steps.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Machine> Driver<M> {
    /// Runs `machine` on a thread of its own.
    pub fn start(machine: M) -> Self {
        let shared = Arc::new(Shared {
            machine: Mutex::new(machine),
            stop: AtomicBool::new(false),
            epoch: std::time::Instant::now(),
        });
        let theirs = shared.clone();
        let thread = thread::spawn(move || {
            while !theirs.stop.load(Ordering::Relaxed) {
                let moved = theirs.lock().run(theirs.now());
                if moved {
                    thread::yield_now();
                } else {
                    thread::sleep(REST);
                }
            }
        });
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// The machine's time.
    pub fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Accesses the machine between two of its steps.
    pub fn with<R>(&self, act: impl FnOnce(&mut M) -> R) -> R {
        act(&mut self.shared.lock())
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported on the console.
            let _ = thread.join();
        }
    }
}

/// Calls `poll` until it returns a value, for `limit` at most.
pub fn wait_for<T>(limit: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = std::time::Instant::now() + limit;
    loop {
        if let Some(found) = poll() {
            return Some(found);
        }
        if std::time::Instant::now() > deadline {
            return None;
        }
        thread::sleep(REST);
    }
}
