//! Tasks of executors that wait for progress of the rack.

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

/// The wakers of waiting tasks, each to be woken the next time something moves.
#[derive(Default)]
pub(super) struct Tasks {
    any: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Tasks {
    /// Registers a waiting task, which checks again afterwards: something may just have happened.
    pub fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.any.store(true, Ordering::SeqCst);
    }

    /// Whether any task waits.
    pub fn wait(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Wakes all waiting tasks.
    pub fn wake(&self) {
        if !self.wait() {
            return;
        }
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::SeqCst);
        let woken = core::mem::take(&mut *wakers);
        drop(wakers);
        woken.into_iter().for_each(Waker::wake);
    }
}
