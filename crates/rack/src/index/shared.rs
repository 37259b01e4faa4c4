//! Threads of the servers of an index, which the program polls and the rack stops.

use rackweave_base::{Duration, Instant};
use rackweave_endpoint::index::{DatagramServer, ReplicaThread, ServerThread};
use rackweave_verbs::Verbs;
use std::sync::{Arc, Mutex, MutexGuard};

/// A server thread that is shared between the thread that drives it and those that connect clients
/// to it; empty once its endpoint has been stopped. A caller that also locks its node must lock the
/// node first.
#[derive(Debug)]
pub struct Shared<T>(Arc<Mutex<Option<T>>>);

/// A thread that answers requests over connections.
pub type SharedServer = Shared<ServerThread>;

/// A thread that answers UDP datagrams.
pub type SharedDatagramServer = Shared<DatagramServer>;

/// A thread of a replica.
pub type SharedReplica = Shared<ReplicaThread>;

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub(crate) fn new(thread: T) -> Self {
        Self(Arc::new(Mutex::new(Some(thread))))
    }

    /// The thread's state.
    pub fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Whether it is the same thread.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its endpoint or replica has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_none()
    }
}

impl SharedServer {
    /// Executes pending requests. Returns true if there were any.
    pub fn poll(&self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let mut thread = self.lock();
        thread
            .as_mut()
            .is_some_and(|thread| thread.poll(now, verbs))
    }

    /// Whether it has to be polled again soon even if no packet arrives.
    pub fn is_waiting(&self) -> bool {
        let thread = self.lock();
        thread
            .as_ref()
            .is_some_and(|thread| thread.service.is_waiting())
    }

    /// Records that the thread has worked on requests for `worked`.
    pub fn note_busy(&self, worked: Duration) {
        if let Some(thread) = self.lock().as_ref() {
            thread.service.meter().note_busy(worked, 0);
        }
    }
}

impl SharedDatagramServer {
    /// Answers pending requests. Returns true if there were any.
    pub fn poll(&self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let mut thread = self.lock();
        let Some(thread) = thread.as_mut() else {
            return false;
        };
        let happened = thread.service().advance(now, verbs);
        let datagrams = verbs.datagrams();
        let served = datagrams.is_some_and(|datagrams| thread.poll(now, datagrams) > 0);
        thread.service().flush(now, verbs);
        happened | served
    }

    /// As [`SharedServer::is_waiting`].
    pub fn is_waiting(&self) -> bool {
        let mut thread = self.lock();
        thread
            .as_mut()
            .is_some_and(|thread| thread.service().is_waiting())
    }
}

impl SharedReplica {
    /// Executes pending requests. Returns true if there were any.
    pub fn poll(&self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let mut thread = self.lock();
        thread
            .as_mut()
            .is_some_and(|thread| thread.poll(now, verbs))
    }
}
