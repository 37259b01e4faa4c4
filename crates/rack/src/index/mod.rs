//! An index over endpoints of a rack: shards, server threads, and clients that are connected to
//! them.
//!
//! This module sets up and connects, for [`crate::services::IndexService`]. Polling server threads
//! and clients is left to the caller: a thread in an embedded rack, an actor in a simulated one.
//!
//! An endpoint acts on its own node, and a user on its own ([`Attached`]). Whoever wants something
//! from an endpoint asks the agent of its node, which may be in another process (`agent`).

pub(crate) mod agent;
mod attached;
pub mod network;
mod places;
mod replica;
pub(crate) mod replication;
mod running;
pub(crate) mod serving;
pub(crate) mod set_up;
mod shared;

pub use attached::{Attach, Attached};
pub use replication::ReplicaStatus;
pub use shared::{Shared, SharedDatagramServer, SharedReplica, SharedServer};

use crate::Rack;
use crate::rack::AgentError;
use agent::{EndpointName, EndpointReply, EndpointRequest, IndexAgent};
use core::sync::atomic::AtomicU16;
use network::{IndexNetwork, IndexNetworkError};
use rackweave_base::NodeId;
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::ResourceError;
use rackweave_endpoint::btree::{TreeConfig, TreeError};
use rackweave_endpoint::index::{
    AttachError, DatagramServerConfig, EndpointId, HandoverError, Part, PartitionMap, RemoteTree,
    ReplicationError, Shard, ShardError,
};
use rackweave_endpoint::rpc::{RpcError, ServerConfig};
use rackweave_verbs::BindError;
use replication::Replication;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::vec;

/// One endpoint of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexEndpointSpec {
    /// Its node: a storage node or a DPU.
    pub node: NodeId,
    /// NICs that reach its memory: that of `node`, and those of the nodes numbered after it. Server
    /// threads are assigned to them in turn. Switches lead queries to the first.
    pub ports: u16,
    /// The configuration of its tree. Its bounds and its name are chosen by the index.
    pub tree: TreeConfig,
    /// Server threads, at least one.
    pub threads: u16,
    /// The configuration of each of them. The incarnation is chosen by the index.
    pub server: ServerConfig,
}

impl IndexEndpointSpec {
    /// An endpoint with one server thread for up to 16 clients.
    pub fn new(node: NodeId, tree: TreeConfig) -> Self {
        Self {
            node,
            ports: 1,
            tree,
            threads: 1,
            server: ServerConfig::new(1),
        }
    }
}

/// The specification of an index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexSpec {
    /// Its endpoints, in the order of the map.
    pub endpoints: Vec<IndexEndpointSpec>,
    /// The initial assignment of keys.
    pub map: PartitionMap,
    /// The attributes of connections.
    pub attributes: PairAttributes,
    /// Whether and how endpoints also answer UDP datagrams. The index chooses the incarnation.
    pub datagrams: Option<DatagramServerConfig>,
    /// The nodes that may have replicas of endpoints; empty: there are none. An endpoint's replica
    /// is at the next of these nodes after its own that is up.
    pub replicas: Vec<NodeId>,
}

impl IndexSpec {
    /// Endpoints with default attributes of connections, without datagrams and without replicas.
    pub fn new(endpoints: Vec<IndexEndpointSpec>, map: PartitionMap) -> Self {
        Self {
            endpoints,
            map,
            attributes: PairAttributes::default(),
            datagrams: None,
            replicas: Vec::new(),
        }
    }
}

/// Why an index, or a part of it, could not be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IndexSetUpError {
    /// The map has a different number of endpoints.
    #[error("the map is for {map} endpoints, the index has {given}")]
    Endpoints {
        /// Endpoints of the map.
        map: u16,
        /// Endpoints given.
        given: usize,
    },
    /// A request could fit one endpoint but not another.
    #[error("{0} takes requests of another length than the first; give all one payload_max")]
    Payloads(EndpointId),
    /// The endpoint has no server threads.
    #[error("{0} has no server thread; one at least is needed")]
    NoThreads(EndpointId),
    /// There is no such node, or it is dead.
    #[error("{0:?} is not in the rack, or dead")]
    NoNode(NodeId),
    /// There is no such endpoint, or it is dead.
    #[error("{0} is not in the index, or dead")]
    NoEndpoint(EndpointId),
    /// The memory or NIC lacks capacity.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The tree could not be made.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The shard could not be made.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A move could not be completed.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// A server could not be made, or lacks capacity.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// A client's end could not be made.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Two ends could not be connected.
    #[error(transparent)]
    Connect(#[from] LaneError),
    /// The network refused.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
    /// A port for datagrams could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A replica could not be connected.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// A node answers datagrams of one endpoint only, but may get another one's by its replica.
    #[error("an index of several endpoints cannot have both replicas and datagrams")]
    ReplicasAndDatagrams,
    /// The index does not answer datagrams.
    #[error("the index answers no datagrams; set IndexOptions::datagrams")]
    NoDatagrams,
    /// The endpoint's node is in another process, which serves no indexes, or in none.
    #[error(
        "no process serves {endpoint}: start `rackweave node {node}`, or call Rack::serve_others in \
         the program that is {node}"
    )]
    NoProcess {
        /// The endpoint.
        endpoint: EndpointId,
        /// The name of its node.
        node: String,
    },
    /// The endpoint's process refused, or does not answer.
    #[error("the process that has {0} refused: {1}")]
    Refused(EndpointId, String),
}

/// An index that has been set up, or one that another process has set up.
pub struct Index {
    rack: Rack,
    /// Its number, unique in the rack.
    number: u64,
    spec: IndexSpec,
    /// Whether it was made here.
    is_own: bool,
    /// Whether each endpoint is up, as far as it is known here.
    is_up: Vec<bool>,
    /// The node of each endpoint, as far as it is known here.
    places: Vec<AtomicU16>,
    /// The replica of each endpoint, if the index was made here.
    replication: Vec<Replication>,
    /// Number of replicas made so far.
    epochs: u64,
    /// Why the last replica was not made, or did not replace its endpoint.
    failed: Option<IndexSetUpError>,
    map: PartitionMap,
    /// Total number of starts of endpoints and replicas.
    starts: u64,
    network: Option<IndexNetwork>,
}

impl core::fmt::Debug for Index {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Index")
            .field("number", &self.number)
            .field("is_up", &self.is_up)
            .field("map", &self.map)
            .finish_non_exhaustive()
    }
}

/// The keys lost when an endpoint was restarted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexLoss {
    /// The keys whose values are lost; `None` if it had none.
    pub lost: Option<Part>,
    /// The map from now on.
    pub map: PartitionMap,
}

impl Index {
    /// An index whose endpoints do not run yet, or run for the process that made the index.
    pub(crate) fn new(rack: &Rack, number: u64, spec: IndexSpec, is_own: bool) -> Self {
        let places = spec.endpoints.iter().map(|spec| spec.node.0);
        Self {
            rack: rack.clone(),
            number,
            is_own,
            is_up: spec.endpoints.iter().map(|_| !is_own).collect(),
            places: places.map(AtomicU16::new).collect(),
            replication: vec![Replication::None; spec.endpoints.len()],
            epochs: 0,
            failed: None,
            map: spec.map.clone(),
            starts: 0,
            network: None,
            spec,
        }
    }

    /// The newest map that any endpoint or replica knows.
    pub fn map(&self) -> PartitionMap {
        let maps = self.endpoints_up().filter_map(|endpoint| {
            match self.ask(endpoint, EndpointRequest::Map) {
                Ok(EndpointReply::Map(map)) => Some(map),
                // An endpoint that is gone knows none.
                _ => None,
            }
        });
        let newest = maps
            .chain(replication::maps(self))
            .max_by_key(PartitionMap::version);
        newest
            .filter(|map| map.version() > self.map.version())
            .unwrap_or_else(|| self.map.clone())
    }

    /// Its number, unique in the rack.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The specification that it was made from.
    pub fn spec(&self) -> &IndexSpec {
        &self.spec
    }

    /// The shard of an endpoint; `None` if it is dead or in another process.
    pub fn shard(&self, endpoint: EndpointId) -> Option<Arc<Shard>> {
        self.agent().shard(self.name(endpoint))
    }

    /// The server threads of all endpoints that are here and not dead, endpoint by endpoint, each
    /// with its node.
    pub fn servers(&self) -> vec::IntoIter<(EndpointId, NodeId, SharedServer)> {
        self.agent().servers(self.number).into_iter()
    }

    /// The threads that answer datagrams, likewise.
    pub fn datagram_servers(&self) -> vec::IntoIter<(EndpointId, NodeId, SharedDatagramServer)> {
        self.agent().datagram_servers(self.number).into_iter()
    }

    /// The threads of replicas that are here, with their nodes.
    pub fn replica_servers(&self) -> Vec<(NodeId, SharedReplica)> {
        self.agent().replicas(self.number)
    }

    /// The location of an endpoint's tree; `None` if it is dead or in another process.
    pub fn remote(&self, endpoint: EndpointId) -> Option<RemoteTree> {
        self.agent().remote(self.name(endpoint))
    }

    /// Bytes of the longest request.
    pub(crate) fn payload_max(&self) -> u32 {
        let first = self.spec.endpoints.first();
        first.map_or(0, |spec| spec.server.payload_max)
    }

    /// Endpoints, dead ones included.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> + use<> {
        (0..self.map.endpoints()).map(EndpointId)
    }

    /// The index in the network, if it has been opened to it.
    pub fn network(&self) -> Option<&IndexNetwork> {
        self.network.as_ref()
    }

    /// The index in the network, for loading.
    pub fn network_mut(&mut self) -> Option<&mut IndexNetwork> {
        self.network.as_mut()
    }

    fn endpoints_up(&self) -> impl Iterator<Item = EndpointId> {
        let all = self.endpoints().zip(&self.is_up);
        all.filter_map(|(endpoint, is_up)| is_up.then_some(endpoint))
    }

    fn agent(&self) -> Arc<IndexAgent> {
        self.rack.agent()
    }

    fn name(&self, endpoint: EndpointId) -> EndpointName {
        let index = self.number;
        EndpointName { index, endpoint }
    }

    /// Sends a request to an endpoint, in whichever process it is.
    pub(crate) fn ask(
        &self,
        endpoint: EndpointId,
        request: EndpointRequest,
    ) -> Result<EndpointReply, IndexSetUpError> {
        if endpoint.index() >= self.places.len() {
            return Err(IndexSetUpError::NoEndpoint(endpoint));
        }
        let at = (self.name(endpoint), self.place(endpoint));
        ask(&self.rack, at, request)
    }
}

/// Sends a request to an endpoint at a node.
fn ask(
    rack: &Rack,
    (name, node): (EndpointName, NodeId),
    request: EndpointRequest,
) -> Result<EndpointReply, IndexSetUpError> {
    let reply = rack.ask_agent::<IndexAgent>(node, (name, request));
    reply.map_err(|error| match error {
        AgentError::NoNode(node) => IndexSetUpError::NoNode(node),
        AgentError::Here(error) => error,
        AgentError::Absent(node) => IndexSetUpError::NoProcess {
            endpoint: name.endpoint,
            node,
        },
        AgentError::Elsewhere(error) => IndexSetUpError::Refused(name.endpoint, error.to_string()),
    })
}

#[cfg(test)]
mod tests;
