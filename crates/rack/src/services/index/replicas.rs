//! The replicas of an index's endpoints, as their owner looks after them.

use super::{IndexService, IndexServiceError, Served};
use crate::IndexSetUpError;
use crate::build::Kind;
use crate::index::{ReplicaStatus, replication, set_up};
use crate::services::wait_within;
use core::sync::atomic::Ordering;
use core::time::Duration;
use rackweave_base::{Instant, NodeId};
use rackweave_endpoint::index::EndpointId;
use std::sync::{Arc, Weak};

/// Interval between two looks at the replicas of a rack in one process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same on a rack of processes, where a look takes two requests for each endpoint.
const ASK_EVERY: Duration = Duration::from_millis(100);

impl IndexService {
    /// The copies of all endpoints, as the process that made the index knows them.
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        replication::status(&self.index())
    }

    /// Waits until every endpoint has a replica that has all its values: then the death of any one
    /// node loses none.
    ///
    /// # Errors
    /// If the time limit expires: why the last replica could not be made, if that is why.
    pub fn wait_for_replicas(&self, limit: Duration) -> Result<(), IndexServiceError> {
        let node = self.rack().any_node();
        let done = wait_within(&node, limit, || {
            self.serve();
            let all = self.replicas();
            all.iter().all(|replica| replica.is_whole).then_some(())
        });
        done.ok_or_else(|| match self.take_replica_error() {
            Some(error) => error.into(),
            None => IndexServiceError::TimedOut { after: limit },
        })
    }

    /// Why the last replica was not made, or did not take its endpoint's place, if that has
    /// happened since the previous call. It is retried.
    pub fn take_replica_error(&self) -> Option<IndexSetUpError> {
        replication::take_error(&mut self.index())
    }

    /// Looks after the replicas: makes those that are missing, and has those whose endpoint is dead
    /// take its place. Returns the endpoints that were replaced. [`IndexService::serve`] does this
    /// now and then, and on a rack of processes a thread of its own; a program that polls the
    /// servers in another way calls it.
    ///
    /// It does nothing in a process that has not made the index.
    pub fn keep_replicas(&self) -> Vec<EndpointId> {
        let mut replaced = Vec::new();
        if self.has_replicas() {
            let has_changed = replication::keep(&mut self.index(), &mut replaced);
            if has_changed {
                self.look_up_servers();
            }
        }
        replaced
    }

    /// Ends what the index has at a node, endpoints and replicas, as if the node's process had been
    /// killed. For tests.
    pub fn kill_at(&self, node: NodeId) {
        set_up::kill_at(&mut self.index(), node);
        self.look_up_servers();
    }

    /// Whether its endpoints have replicas.
    pub(super) fn is_replicated(&self) -> bool {
        self.0.is_replicated
    }

    fn has_replicas(&self) -> bool {
        self.0.is_own && self.0.is_replicated
    }

    /// Looks after the replicas if that is due and nothing else is done with the index.
    pub(super) fn look_at_replicas(&self) {
        // On a rack of processes an answer may take long; see `keep_on_a_thread`.
        if !self.has_replicas() || self.rack().backend().kind() == Kind::Hosted {
            return;
        }
        let now = self.rack().now();
        let next = Instant::from_nanos(self.0.next_look.load(Ordering::Relaxed));
        if now < next {
            return;
        }
        let next = (now + LOOK_EVERY.into()).as_nanos();
        self.0.next_look.store(next, Ordering::Relaxed);
        let mut changed = false;
        if let Ok(mut index) = self.0.index.try_lock() {
            changed = replication::keep(&mut index, &mut Vec::new());
        }
        if changed {
            self.look_up_servers();
        }
    }

    /// Looks after the replicas until the index is dropped, if it is on a rack of processes.
    pub(super) fn keep_on_a_thread(&self) {
        if !self.has_replicas() || self.rack().backend().kind() != Kind::Hosted {
            return;
        }
        let served: Weak<Served> = Arc::downgrade(&self.0);
        let keep = move || {
            while let Some(served) = served.upgrade() {
                Self(served).keep_replicas();
                std::thread::sleep(ASK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("replicas".into());
        // Without the thread there are no replicas: `wait_for_replicas` says so.
        let _ = thread.spawn(keep);
    }
}
