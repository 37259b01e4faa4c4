//! An index over endpoints of a rack: shards, server threads, and clients that are connected to
//! them.
//!
//! A rack sets up and connects. Who drives server threads and clients is the caller's matter: a
//! thread in an embedded rack, an actor in a simulated one.

pub mod network;
mod running;
pub(crate) mod set_up;

use network::{IndexNetwork, IndexNetworkError};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::btree::{TreeConfig, TreeError};
use rackweave_endpoint::index::{
    AttachError, EndpointId, HandoverError, Part, PartitionMap, RemoteTree, ServerThread, Shard,
    ShardError,
};
use rackweave_endpoint::rpc::{RpcError, ServerConfig};
use rackweave_verbs::{CqError, QpError, RegisterError, Verbs};
use running::Running;
use std::sync::{Arc, Mutex, MutexGuard};

/// One endpoint of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEndpointSpec {
    /// Where it is: a storage node or a DPU.
    pub node: NodeId,
    /// What its tree is like. Its bounds and its name are chosen by the index.
    pub tree: TreeConfig,
    /// Server threads, at least one.
    pub threads: u16,
    /// What each of them is like. The incarnation is chosen by the index.
    pub server: ServerConfig,
}

impl IndexEndpointSpec {
    /// An endpoint with one server thread for up to 16 clients.
    pub fn new(node: NodeId, tree: TreeConfig) -> Self {
        Self {
            node,
            tree,
            threads: 1,
            server: ServerConfig::new(1),
        }
    }
}

/// An index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSpec {
    /// Its endpoints, as the map counts them.
    pub endpoints: Vec<IndexEndpointSpec>,
    /// Who has which keys at first.
    pub map: PartitionMap,
    /// What connections are like.
    pub attributes: PairAttributes,
}

/// Why an index, or a part of it, could not be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IndexSetUpError {
    /// The map is about another number of endpoints.
    #[error("the map is for {map} endpoints, the index has {given}")]
    Endpoints {
        /// Endpoints of the map.
        map: u16,
        /// Endpoints given.
        given: usize,
    },
    /// Requests would fit one endpoint and not another.
    #[error("{0} takes requests of another length than the first; give all one payload_max")]
    Payloads(EndpointId),
    /// No server threads.
    #[error("{0} has no server thread; one at least is needed")]
    NoThreads(EndpointId),
    /// There is no such node, or it is dead.
    #[error("{0:?} is not in the rack, or dead")]
    NoNode(NodeId),
    /// There is no such endpoint, or it is dead.
    #[error("{0} is not in the index, or dead")]
    NoEndpoint(EndpointId),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No such tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// No such shard.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A move could not be ended.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The NIC does not register the tree.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The NIC has no completion queue.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// The NIC has no queue pair.
    #[error(transparent)]
    Qp(#[from] QpError),
    /// No server, or no room at one.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// No client's end.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Two ends could not be connected.
    #[error(transparent)]
    Connect(#[from] LaneError),
    /// The network does not take part.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
}

/// A server thread that is shared between who drives it and who connects clients to it; nothing
/// once its endpoint has been stopped. Whoever needs its node, too, takes the node first.
#[derive(Clone, Debug)]
pub struct SharedServer(Arc<Mutex<Option<ServerThread>>>);

impl SharedServer {
    /// The thread's state.
    pub fn lock(&self) -> MutexGuard<'_, Option<ServerThread>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Carries out what has come. True if there was anything.
    pub fn poll(&self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let mut thread = self.lock();
        thread
            .as_mut()
            .is_some_and(|thread| thread.poll(now, verbs))
    }

    /// The thread has worked on requests for so long.
    pub fn note_busy(&self, worked: Duration) {
        if let Some(thread) = self.lock().as_ref() {
            thread.service.meter().note_busy(worked, 0);
        }
    }

    /// Whether its endpoint has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_none()
    }
}

/// An index that was set up.
#[derive(Debug)]
pub struct Index {
    spec: IndexSpec,
    running: Vec<Option<Running>>,
    map: PartitionMap,
    network: Option<IndexNetwork>,
}

/// What became of an endpoint's keys when it was restarted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexLoss {
    /// The keys whose values are gone; nothing if it had none.
    pub lost: Option<Part>,
    /// The map from now on.
    pub map: PartitionMap,
}

impl Index {
    /// The newest map that any endpoint knows.
    pub fn map(&self) -> PartitionMap {
        let running = self.running.iter().flatten();
        let maps = running.map(|running| (*running.shard.map()).clone());
        let newest = maps.max_by_key(PartitionMap::version);
        newest
            .filter(|map| map.version() > self.map.version())
            .unwrap_or_else(|| self.map.clone())
    }

    /// What it was made from.
    pub fn spec(&self) -> &IndexSpec {
        &self.spec
    }

    /// The shard of an endpoint; nothing if it is dead.
    pub fn shard(&self, endpoint: EndpointId) -> Option<&Arc<Shard>> {
        self.running(endpoint).map(|running| &running.shard)
    }

    /// The server threads of an endpoint, and its node; none if it is dead.
    pub fn servers(&self, endpoint: EndpointId) -> &[SharedServer] {
        self.running(endpoint)
            .map_or(&[], |running| &running.threads)
    }

    /// Where the tree of an endpoint is; nothing if it is dead.
    pub fn remote(&self, endpoint: EndpointId) -> Option<RemoteTree> {
        self.running(endpoint).map(|running| running.remote)
    }

    /// Endpoints, dead ones included.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> + use<> {
        (0..self.map.endpoints()).map(EndpointId)
    }

    /// The index in the network, if it was opened to it.
    pub fn network(&self) -> Option<&IndexNetwork> {
        self.network.as_ref()
    }

    /// The index in the network, to be loaded.
    pub fn network_mut(&mut self) -> Option<&mut IndexNetwork> {
        self.network.as_mut()
    }

    fn running(&self, endpoint: EndpointId) -> Option<&Running> {
        self.running.get(endpoint.index())?.as_ref()
    }
}

#[cfg(test)]
mod tests;
