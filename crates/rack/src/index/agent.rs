//! The endpoints at the nodes of a process, of whichever index.
//!
//! An index is made by one process, and its endpoints are where its specification says. What is to
//! be done at an endpoint is an [`EndpointRequest`] to the agent of the endpoint's node
//! ([`crate::rack::Agent`]). That is a call if the node is in this process.

mod act;
mod request;

pub(crate) use request::{EndpointReply, EndpointRequest, EndpointStart, Hex};
pub(crate) use request::{ReplicaRequest, ReplicaStart, name_of};

use super::replica::ReplicaHere;
use super::running::{Accepted, Running};
use super::serving::Servers;
use super::{IndexSetUpError, SharedDatagramServer, SharedReplica, SharedServer};
use crate::Rack;
use crate::rack::{Agent, OWN};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::{NodeId, Rkey};
use rackweave_endpoint::btree::{OutlineNode, Tree};
use rackweave_endpoint::index::{EndpointId, RemoteTree, Shard};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An endpoint of an index. Ordered by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct EndpointName {
    /// The number of the index, unique in the rack.
    pub index: u64,
    /// The endpoint.
    pub endpoint: EndpointId,
}

/// The agent of a process.
#[derive(Debug, Default)]
pub(crate) struct IndexAgent {
    endpoints: Mutex<BTreeMap<EndpointName, Endpoint>>,
    /// How often an endpoint has been started or stopped.
    changes: AtomicU64,
}

/// An endpoint of this process.
#[derive(Debug)]
struct Endpoint {
    /// The process that made the index.
    user: String,
    /// `None` after it has been stopped.
    running: Option<Running>,
    /// What other processes have been given, with their names.
    given: Vec<(String, Accepted)>,
    /// Its number at the switches, if the index is in the network.
    server: Option<u16>,
    /// Bytes of a packet on its connections.
    mtu: u32,
    /// The first key that its tree ever had. For an injected bug.
    first_rkey: Option<Rkey>,
    /// What is left of an outline that is sent in parts.
    outline: Vec<OutlineNode>,
    /// Entries that have arrived of a load in parts, and their bytes.
    loading: (Vec<(u64, Vec<u8>)>, u64),
    /// Whether it may have a replica.
    has_replicas: bool,
    /// The tree with which it starts again.
    kept: Option<Tree>,
    /// Its replica, if that is here.
    replica: Option<ReplicaHere>,
    /// The epoch of the replica whose tree is kept.
    promoted: Option<u64>,
}

impl Endpoint {
    /// An endpoint that does not run yet.
    fn of(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            running: None,
            given: Vec::new(),
            server: None,
            mtu: 0,
            first_rkey: None,
            outline: Vec::new(),
            loading: (Vec::new(), 0),
            has_replicas: false,
            kept: None,
            replica: None,
            promoted: None,
        }
    }
}

impl Agent for IndexAgent {
    type Request = (EndpointName, EndpointRequest);
    type Reply = EndpointReply;
    type Error = IndexSetUpError;

    const NAME: &'static str = "index";

    fn is_first((_, request): &Self::Request) -> bool {
        matches!(request, EndpointRequest::Start(_))
    }

    fn act(
        &self,
        rack: &Rack,
        user: &str,
        (name, request): Self::Request,
    ) -> Result<EndpointReply, IndexSetUpError> {
        let mut endpoints = self.endpoints();
        let changes = match &request {
            EndpointRequest::Start(_) | EndpointRequest::Stop { .. } => true,
            EndpointRequest::Replica { request, .. } => !matches!(request, ReplicaRequest::Look),
            _ => false,
        };
        let reply = act::act(rack, &mut endpoints, user, name, request);
        drop(endpoints);
        self.changes
            .fetch_add(u64::from(changes), Ordering::Relaxed);
        reply
    }

    fn users(&self, users: &mut BTreeSet<String>) {
        for endpoint in self.endpoints().values() {
            let given = endpoint.given.iter().map(|(user, _)| user);
            let all = given.chain([&endpoint.user]);
            users.extend(all.filter(|user| *user != OWN).cloned());
        }
    }

    fn forget(&self, rack: &Rack, user: &str) {
        self.remove(rack, |endpoint| endpoint.user == user);
        for endpoint in self.endpoints().values_mut() {
            let given = endpoint.given.extract_if(.., |(of, _)| of == user);
            let given: Vec<_> = given.map(|(_, accepted)| accepted).collect();
            for accepted in given {
                // A switch that refuses keeps an entry for a queue pair that is gone.
                let _ = act::release(rack, endpoint, &accepted);
            }
        }
    }

    fn remove_others(&self, rack: &Rack) {
        self.remove(rack, |endpoint| endpoint.user != OWN);
    }
}

impl IndexAgent {
    fn endpoints(&self) -> MutexGuard<'_, BTreeMap<EndpointName, Endpoint>> {
        let endpoints = self.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes endpoints for good.
    fn remove(&self, rack: &Rack, mut which: impl FnMut(&Endpoint) -> bool) {
        let mut endpoints = self.endpoints();
        let all = core::mem::take(&mut *endpoints).into_iter();
        let (removed, kept) = all.partition::<BTreeMap<_, _>, _>(|(_, it)| which(it));
        *endpoints = kept;
        drop(endpoints);
        for endpoint in removed.into_values() {
            act::stop(rack, endpoint);
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `look` with an endpoint that is here and runs.
    fn look<R>(&self, name: EndpointName, look: impl FnOnce(&Running) -> R) -> Option<R> {
        let endpoints = self.endpoints();
        endpoints.get(&name)?.running.as_ref().map(look)
    }

    /// The shard of an endpoint that is here and runs.
    pub fn shard(&self, name: EndpointName) -> Option<Arc<Shard>> {
        self.look(name, |running| running.shard.clone())
    }

    /// The location of its tree.
    pub fn remote(&self, name: EndpointName) -> Option<RemoteTree> {
        self.look(name, Running::remote)
    }

    /// The incarnation of its node in which an endpoint has its place: its replica may have it in a
    /// later one. `None` if it has no replica.
    pub fn only_incarnation(&self, name: EndpointName) -> Option<u64> {
        let endpoints = self.endpoints();
        let endpoint = endpoints.get(&name).filter(|it| it.has_replicas)?;
        endpoint.running.as_ref().map(Running::incarnation)
    }

    /// Has an endpoint start with a tree the next time.
    pub fn keep(&self, name: EndpointName, tree: Tree) {
        let mut endpoints = self.endpoints();
        let endpoint = endpoints.entry(name);
        endpoint.or_insert_with(|| Endpoint::of(OWN)).kept = Some(tree);
    }

    /// The server threads of an index that are here, endpoint by endpoint, each with its node.
    pub fn servers(&self, index: u64) -> Vec<(EndpointId, NodeId, SharedServer)> {
        let endpoints = self.endpoints();
        let of_it = running(&endpoints).filter(|(name, _)| name.index == index);
        let servers = of_it.flat_map(|(name, running)| running.servers(name.endpoint));
        servers
            .map(|(endpoint, node, server)| (endpoint, node, server.clone()))
            .collect()
    }

    /// The threads that answer datagrams, likewise.
    pub fn datagram_servers(&self, index: u64) -> Vec<(EndpointId, NodeId, SharedDatagramServer)> {
        let endpoints = self.endpoints();
        let of_it = running(&endpoints).filter(|(name, _)| name.index == index);
        let servers = of_it.flat_map(|(name, running)| {
            let threads = running.datagrams.iter();
            threads.map(move |server| (name.endpoint, running.node(), server.clone()))
        });
        servers.collect()
    }

    /// The threads of replicas of its endpoints, likewise.
    pub fn replicas(&self, index: u64) -> Vec<(NodeId, SharedReplica)> {
        let endpoints = self.endpoints();
        let of_it = endpoints.iter().filter(|(name, _)| name.index == index);
        let replicas = of_it.filter_map(|(_, endpoint)| endpoint.replica.as_ref());
        let threads = replicas.flat_map(|replica| {
            let threads = replica.threads();
            threads.map(|thread| (replica.node, thread.clone()))
        });
        threads.collect()
    }

    /// How often an endpoint or a replica has been started or stopped.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The threads of all endpoints that other processes have made here.
    pub fn servers_of_others(&self, rack: &Rack) -> Servers {
        let endpoints = self.endpoints();
        let foreign = endpoints.iter().filter(|(_, it)| it.user != OWN);
        let indexes: BTreeSet<u64> = foreign.map(|(name, _)| name.index).collect();
        drop(endpoints);
        let mut servers = Servers::default();
        for index in indexes {
            servers.add(rack, self, index);
        }
        servers
    }
}

fn running(
    endpoints: &BTreeMap<EndpointName, Endpoint>,
) -> impl Iterator<Item = (EndpointName, &Running)> {
    let all = endpoints.iter();
    all.filter_map(|(name, endpoint)| Some((*name, endpoint.running.as_ref()?)))
}
