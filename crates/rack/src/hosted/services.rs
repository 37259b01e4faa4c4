//! Services of this process that other processes ask by name.
//!
//! The controller passes requests on over a connection of their own, and a thread answers them one
//! after the other. So a service may ask the controller while it answers.

use super::again::Dialer;
use super::messages::{PURPOSE_SERVER, ServiceCall};
use super::{HostedError, LOOK_EVERY};
use crate::{NamedService, ProcessError};
use core::sync::atomic::Ordering;
use rackweave_control::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration as Time;

/// Interval between two attempts to connect.
const RETRY_AFTER: Time = Time::from_millis(50);

type ByName = BTreeMap<String, Arc<NamedService>>;

/// The services of a node.
#[derive(Default)]
pub(super) struct Services {
    by_name: Arc<Mutex<ByName>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread needs.
struct Serving {
    by_name: Arc<Mutex<ByName>>,
    dialer: Dialer,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().expect("no holder panics")
}

impl Services {
    /// Adds a service, before its name is known.
    ///
    /// # Errors
    /// If a service here has the name, or the controller cannot be reached.
    pub fn add(
        &self,
        dialer: &Dialer,
        (name, service): (&str, Arc<NamedService>),
    ) -> Result<(), ProcessError> {
        let mut thread = held(&self.thread);
        if thread.is_none() {
            let connection = dialer.dial(PURPOSE_SERVER);
            let connection = connection.map_err(refused)?;
            let serving = Serving {
                by_name: self.by_name.clone(),
                dialer: dialer.clone(),
            };
            let named = std::thread::Builder::new().name(format!("services-{}", dialer.name));
            let spawned = named.spawn(move || serving.run(connection));
            *thread = Some(spawned.map_err(refused)?);
        }
        match held(&self.by_name).entry(name.to_owned()) {
            std::collections::btree_map::Entry::Vacant(free) => _ = free.insert(service),
            std::collections::btree_map::Entry::Occupied(_) => {
                return Err(ProcessError::Refused(format!("the name {name:?} is taken")));
            }
        }
        Ok(())
    }

    /// Removes a service.
    pub fn remove(&self, name: &str) {
        held(&self.by_name).remove(name);
    }

    /// Waits for the thread to end, after `stop` was set and its connection closed.
    pub fn join(&self) {
        let thread = held(&self.thread).take();
        // The last user of the rack may have been a service that was answering.
        let is_other =
            |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = thread.filter(is_other) {
            // A panic of a service was reported on standard error.
            let _ = thread.join();
        }
    }
}

fn refused(error: impl std::fmt::Display) -> ProcessError {
    ProcessError::Refused(error.to_string())
}

impl Serving {
    fn run(&self, first: Connection) {
        let mut connection = Some(first);
        while !self.dialer.stop.load(Ordering::Relaxed) {
            let Some(open) = &mut connection else {
                match self.dial_again() {
                    Ok(again) => connection = Some(again),
                    Err(_) => std::thread::sleep(RETRY_AFTER),
                }
                continue;
            };
            let answered = match open.receive::<ServiceCall>(LOOK_EVERY) {
                Ok(Some(call)) => open.send(&self.answer(call)).is_ok(),
                Ok(None) => true,
                Err(_) => false,
            };
            if !answered {
                connection = None;
            }
        }
    }

    fn dial_again(&self) -> Result<Connection, HostedError> {
        let connection = self.dialer.dial(PURPOSE_SERVER)?;
        let names: Vec<String> = held(&self.by_name).keys().cloned().collect();
        for name in names {
            // A controller that knows the name already says so. If it is taken meanwhile, callers
            // reach whatever has it.
            let _taken = self.dialer.share(&name);
        }
        Ok(connection)
    }

    fn answer(&self, ServiceCall { name, body }: ServiceCall) -> Result<Value, String> {
        let service = held(&self.by_name).get(&name).cloned();
        match service {
            Some(service) => service(body),
            None => Err(format!("the service {name:?} has ended")),
        }
    }
}
