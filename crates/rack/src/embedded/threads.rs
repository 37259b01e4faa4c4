//! Driver threads.

use super::shared::Shared;
use crate::build::RackError;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The driver threads of a rack.
pub(super) struct Drivers(Vec<JoinHandle<()>>);

impl Drivers {
    pub fn start(shared: &Arc<Shared>, count: u32) -> Result<Self, RackError> {
        let mut drivers = Self(Vec::new());
        for at in 0..count {
            let shared_here = shared.clone();
            let started = Builder::new()
                .name(format!("rackweave-{at}"))
                .spawn(move || shared_here.run_driver(at));
            match started {
                Ok(handle) => {
                    shared.register_driver(handle.thread().clone());
                    drivers.0.push(handle);
                }
                Err(error) => {
                    drivers.stop(shared);
                    return Err(RackError::Thread(error.to_string()));
                }
            }
        }
        Ok(drivers)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn stop(&mut self, shared: &Shared) {
        shared.stop.store(true, Ordering::SeqCst);
        for handle in self.0.drain(..) {
            handle.thread().unpark();
            // A panic of a driver thread has been printed already.
            let _ = handle.join();
        }
    }
}
