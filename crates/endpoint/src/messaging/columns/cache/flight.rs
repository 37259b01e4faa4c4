//! A column being fetched, and the workers that wait for it.

use super::{CacheError, Pinned};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Landed = Option<Result<Pinned, CacheError>>;

/// The result of a fetch, set once.
#[derive(Default)]
pub(super) struct Flight {
    landed: Mutex<Landed>,
    changed: Condvar,
}

impl Flight {
    /// The fetch has ended.
    pub fn land(&self, result: Result<Pinned, CacheError>) {
        let mut landed = self.lock();
        debug_assert!(landed.is_none(), "a flight lands once");
        *landed = Some(result);
        drop(landed);
        self.changed.notify_all();
    }

    pub fn poll(&self) -> Landed {
        self.lock().clone()
    }

    pub fn wait(&self) -> Result<Pinned, CacheError> {
        let mut landed = self.lock();
        loop {
            if let Some(result) = &*landed {
                return result.clone();
            }
            let woken = self.changed.wait(landed);
            landed = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Landed> {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
