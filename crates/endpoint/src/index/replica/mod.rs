//! The replica of an endpoint: a tree at another node that has the values of the endpoint's keys,
//! or of a part of them.
//!
//! Only the endpoint writes it, by requests that carry its *epoch*: a number that the owner of the
//! index chooses anew for each. Requests of other epochs are refused, so an endpoint that was
//! declared dead cannot change a replica that has taken its place. Nobody reads the replica until
//! [`Replica::promote`] hands out its tree.

use super::map::PartitionMap;
use super::message::{Outcome, Request};
use super::server::outcome_of;
use crate::btree::{Direction, Tree, TreeError};
use crate::rpc::{self, Service, Status, Writer};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// Number of keys removed at a time.
const REMOVED_MAX: usize = 1024;

/// A replica, shared by its server threads.
#[derive(Debug)]
pub struct Replica {
    epoch: u64,
    /// `None` when it was promoted.
    tree: RwLock<Option<Tree>>,
    /// The newest map in which the endpoint has given a range away or taken one.
    map: Mutex<Option<PartitionMap>>,
}

impl Replica {
    /// An empty replica for one epoch, in an empty tree. The tree should have the capacity of the
    /// endpoint's: a replica that is full refuses writes.
    ///
    /// # Errors
    /// If the tree returns an error.
    pub fn new(tree: Tree, epoch: u64) -> Result<Self, TreeError> {
        tree.extend(0, u64::MAX)?;
        Ok(Self {
            epoch,
            tree: RwLock::new(Some(tree)),
            map: Mutex::new(None),
        })
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The newest map in which the endpoint has given a range away or taken one in this epoch. The
    /// endpoint and the other end of the move may both be dead, so nobody else may know it.
    pub fn map(&self) -> Option<PartitionMap> {
        self.known_map().clone()
    }

    fn known_map(&self) -> MutexGuard<'_, Option<PartitionMap>> {
        self.map.lock().expect("no holder of this lock panics")
    }

    /// Ends the replica: no request is executed any more. Returns its tree, cut to the keys that
    /// the newest map gives the endpoint, from `low` to `last`; `None` if it was promoted before.
    ///
    /// The tree has all values if the endpoint had covered all its keys
    /// ([`ReplicationState::is_whole`](super::ReplicationState::is_whole)). A write whose outcome
    /// is unknown to its client may be among them.
    ///
    /// # Errors
    /// If the tree returns an error; then it is lost.
    pub fn promote(&self, low: u64, last: u64) -> Result<Option<Tree>, TreeError> {
        let mut tree = self.tree.write().expect("no holder of this lock panics");
        let tree = tree.take();
        if let Some(tree) = &tree {
            tree.shrink(low, last)?;
        }
        Ok(tree)
    }

    /// Executes a request of the endpoint.
    fn execute(&self, request: &Request<'_>) -> Outcome {
        let tree = self.tree.read().expect("no holder of this lock panics");
        let Some(tree) = &*tree else {
            return Outcome::Conflict;
        };
        let of = |epoch: u64| epoch == self.epoch;
        let done = match *request {
            Request::ReplicaPut { epoch, key, value } if of(epoch) => {
                tree.put(key, value).map(drop)
            }
            Request::ReplicaRemove { epoch, key } if of(epoch) => tree.remove(key).map(drop),
            Request::ReplicaInstall { epoch, entries } if of(epoch) => entries
                .iter()
                .try_for_each(|(key, value)| tree.put(key, value).map(drop)),
            Request::ReplicaClear { epoch, low, last } if of(epoch) => clear(tree, low, last),
            Request::ReplicaMap { epoch, ref map } if of(epoch) => {
                let mut known = self.known_map();
                let version = known.as_ref().map(PartitionMap::version);
                if version.is_none_or(|version| version < map.version()) {
                    *known = Some(map.clone());
                }
                Ok(())
            }
            _ => return Outcome::Conflict,
        };
        done.map_or_else(|error| outcome_of(&error), |()| Outcome::Done)
    }
}

/// Removes the entries of a range.
fn clear(tree: &Tree, mut low: u64, last: u64) -> Result<(), TreeError> {
    let mut keys = Vec::new();
    while low <= last {
        keys.clear();
        tree.scan(low..=last, Direction::Forward, &mut |key, _| {
            keys.push(key);
            keys.len() < REMOVED_MAX
        });
        for key in &keys {
            tree.remove(*key)?;
        }
        match keys.get(REMOVED_MAX - 1).and_then(|key| key.checked_add(1)) {
            Some(next) => low = next,
            None => break,
        }
    }
    Ok(())
}

/// Executes requests on a replica. Each server thread has its own; all share the replica.
#[derive(Debug)]
pub struct ReplicaServer {
    replica: Arc<Replica>,
}

impl ReplicaServer {
    /// A service for one server thread.
    pub fn new(replica: Arc<Replica>) -> Self {
        Self { replica }
    }
}

impl Service for ReplicaServer {
    fn serve(
        &mut self,
        _now: Instant,
        _client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        match Request::decode(method, request) {
            Ok(request) => {
                reply.push(&[self.replica.execute(&request) as u8]);
                Status::OK
            }
            Err(error) => error.into(),
        }
    }
}

/// One server thread of a replica; its owner polls it.
#[derive(Debug)]
pub struct ReplicaThread {
    /// The connections to threads of the endpoint.
    pub rpc: rpc::Server,
    /// Executes their requests.
    pub service: ReplicaServer,
}

impl ReplicaThread {
    /// Executes received requests. True if there were any.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.rpc.poll(now, verbs, &mut self.service)
    }
}

#[cfg(test)]
mod tests;
