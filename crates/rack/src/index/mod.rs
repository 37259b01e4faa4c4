//! An index over endpoints of a rack: shards, server threads, and clients that are connected to
//! them.
//!
//! This module sets up and connects, for [`crate::services::IndexService`]. Polling server threads
//! and clients is left to the caller: a thread in an embedded rack, an actor in a simulated one.
//!
//! An endpoint acts on its own node, and a user on its own ([`Attached`]). A user sends an endpoint
//! an [`EndpointRequest`], which can travel to the endpoint's process.

mod attached;
pub mod network;
mod running;
pub(crate) mod set_up;
mod shared;

pub use attached::{Attach, Attached};
pub use running::{Accepted, Purpose};
pub use shared::{Shared, SharedDatagramServer, SharedServer};

use crate::Rack;
use network::{IndexNetwork, IndexNetworkError};
use rackweave_base::NodeId;
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::ResourceError;
use rackweave_endpoint::btree::{TreeConfig, TreeError};
use rackweave_endpoint::index::{
    AttachError, DatagramServerConfig, EndpointId, HandoverError, Part, PartitionMap, RemoteTree,
    Shard, ShardError,
};
use rackweave_endpoint::rpc::{RpcError, ServerConfig};
use rackweave_verbs::BindError;
use running::Running;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
}

impl IndexSpec {
    /// Endpoints with default attributes of connections that answer no datagrams.
    pub fn new(endpoints: Vec<IndexEndpointSpec>, map: PartitionMap) -> Self {
        Self {
            endpoints,
            map,
            attributes: PairAttributes::default(),
            datagrams: None,
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
    /// The index does not answer datagrams.
    #[error("the index answers no datagrams; set IndexOptions::datagrams")]
    NoDatagrams,
    /// The endpoint's process refused.
    #[error("the process that has {0} refused: {1}")]
    Refused(EndpointId, String),
}

/// A request of a user of an index to one of its endpoints. Data, so that it can travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EndpointRequest {
    /// Make queue pairs for one more user.
    Accept(EndpointId, Purpose),
    /// They are connected: requests will arrive.
    Open(EndpointId, Accepted),
    /// They are no longer used.
    Release(EndpointId, Accepted),
}

/// An endpoint's reply: the queue pairs, if any were requested, or why it failed.
pub type EndpointReply = Result<Option<Accepted>, String>;

impl EndpointRequest {
    fn endpoint(&self) -> EndpointId {
        match *self {
            Self::Accept(endpoint, _) | Self::Open(endpoint, _) | Self::Release(endpoint, _) => {
                endpoint
            }
        }
    }
}

/// Sends requests to endpoints that are in another process.
pub type EndpointWay = dyn Fn(EndpointRequest) -> EndpointReply + Send + Sync;

/// An index that has been set up.
pub struct Index {
    spec: IndexSpec,
    running: Vec<Option<Running>>,
    map: PartitionMap,
    /// Total number of starts of endpoints.
    starts: u64,
    network: Option<IndexNetwork>,
    /// Sends requests to endpoints that are not here.
    elsewhere: Option<Arc<EndpointWay>>,
}

impl core::fmt::Debug for Index {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Index")
            .field("running", &self.running)
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
    /// An index whose endpoints are in another process.
    pub(crate) fn elsewhere(spec: IndexSpec, way: Arc<EndpointWay>) -> Self {
        Self {
            running: spec.endpoints.iter().map(|_| None).collect(),
            map: spec.map.clone(),
            starts: 0,
            network: None,
            elsewhere: Some(way),
            spec,
        }
    }

    /// The newest map that any endpoint knows.
    pub fn map(&self) -> PartitionMap {
        let running = self.running.iter().flatten();
        let maps = running.map(|running| (*running.shard.map()).clone());
        let newest = maps.max_by_key(PartitionMap::version);
        newest
            .filter(|map| map.version() > self.map.version())
            .unwrap_or_else(|| self.map.clone())
    }

    /// The specification that it was made from.
    pub fn spec(&self) -> &IndexSpec {
        &self.spec
    }

    /// The shard of an endpoint; `None` if it is dead.
    pub fn shard(&self, endpoint: EndpointId) -> Option<&Arc<Shard>> {
        self.running(endpoint).map(|running| &running.shard)
    }

    /// The server threads of all endpoints that are here and not dead, endpoint by endpoint, each
    /// with its node.
    pub fn servers(&self) -> impl Iterator<Item = (EndpointId, NodeId, &SharedServer)> {
        self.all_running()
            .flat_map(|(endpoint, running)| running.servers(endpoint))
    }

    /// The threads that answer datagrams, likewise.
    pub fn datagram_servers(
        &self,
    ) -> impl Iterator<Item = (EndpointId, NodeId, &SharedDatagramServer)> {
        self.all_running().flat_map(|(endpoint, running)| {
            let threads = running.datagrams.iter();
            threads.map(move |server| (endpoint, running.node(), server))
        })
    }

    /// The location of an endpoint's tree; `None` if it is dead.
    pub fn remote(&self, endpoint: EndpointId) -> Option<RemoteTree> {
        self.running(endpoint).map(Running::remote)
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

    fn running(&self, endpoint: EndpointId) -> Option<&Running> {
        self.running.get(endpoint.index())?.as_ref()
    }

    fn all_running(&self) -> impl Iterator<Item = (EndpointId, &Running)> {
        let all = self.running.iter().zip(0..);
        all.filter_map(|(running, at)| Some((EndpointId(at), running.as_ref()?)))
    }

    /// Answers a user's request to an endpoint that is here.
    pub(crate) fn answer(&mut self, rack: &Rack, request: EndpointRequest) -> EndpointReply {
        self.act(rack, request).map_err(|error| error.to_string())
    }

    /// Sends a request to an endpoint, here or in another process.
    fn ask(
        &mut self,
        rack: &Rack,
        request: EndpointRequest,
    ) -> Result<Option<Accepted>, IndexSetUpError> {
        match &self.elsewhere {
            None => self.act(rack, request),
            Some(way) => {
                way(request).map_err(|why| IndexSetUpError::Refused(request.endpoint(), why))
            }
        }
    }

    fn act(
        &mut self,
        rack: &Rack,
        request: EndpointRequest,
    ) -> Result<Option<Accepted>, IndexSetUpError> {
        let endpoint = request.endpoint();
        let running = self.running.get_mut(endpoint.index());
        let running = running.and_then(Option::as_mut);
        let running = running.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
        match request {
            EndpointRequest::Accept(_, purpose) => {
                let mut accepted = running.accept(rack, endpoint, purpose)?;
                let network = self.network.as_mut().filter(|_| accepted.is_led);
                if let (Some(network), Some(qpn)) = (network, accepted.reader) {
                    let mtu = self.spec.attributes.mtu.bytes();
                    if let Err(error) = network.add_pair(rack, endpoint, qpn, mtu) {
                        accepted.is_led = false;
                        running.release(rack, &accepted);
                        return Err(error.into());
                    }
                }
                Ok(Some(accepted))
            }
            EndpointRequest::Open(_, accepted) => {
                running.open(rack, endpoint, &accepted)?;
                Ok(None)
            }
            EndpointRequest::Release(_, accepted) => {
                if !running.is_of_this_start(&accepted) {
                    // Its numbers may have been reused by now.
                    return Ok(None);
                }
                let network = self.network.as_mut().filter(|_| accepted.is_led);
                if let (Some(network), Some(qpn)) = (network, accepted.reader) {
                    network.remove_pair(rack, endpoint, qpn)?;
                }
                running.release(rack, &accepted);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests;
