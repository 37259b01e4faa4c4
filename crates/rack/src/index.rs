//! An index over endpoints of a rack: shards, server threads, and clients that are connected to
//! them.
//!
//! A rack sets up and connects. Who drives server threads and clients is the caller's matter: a
//! thread in an embedded rack, an actor in a simulated one.

use crate::{EmbeddedRack, SimulatedRack};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Instant, Memory, NodeId, Qpn};
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::btree::{Tree, TreeConfig, TreeError};
use rackweave_endpoint::index::{
    AttachError, Coordinator, CoordinatorConfig, EndpointId, HandoverError, IndexClient,
    IndexClientConfig, IndexServer, Part, PartitionMap, RemoteTree, ServerThread, Shard,
    ShardError,
};
use rackweave_endpoint::rpc::{RpcError, Server, ServerConfig};
use rackweave_verbs::{
    Access, CqError, CqId, PdId, QpCapabilities, QpError, Region, RegisterError, Verbs,
};
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

    /// Whether its endpoint has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_none()
    }
}

/// An endpoint that runs.
#[derive(Debug)]
struct Running {
    shard: Arc<Shard>,
    remote: RemoteTree,
    pd: PdId,
    /// Of queue pairs that only answer READs.
    cq: CqId,
    regions: [Region; 2],
    threads: Vec<SharedServer>,
    readers: Vec<Qpn>,
    /// Clients connected so far.
    clients: usize,
}

/// An index that was set up.
#[derive(Debug)]
pub struct Index {
    spec: IndexSpec,
    running: Vec<Option<Running>>,
    map: PartitionMap,
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

    fn running(&self, endpoint: EndpointId) -> Option<&Running> {
        self.running.get(endpoint.index())?.as_ref()
    }
}

/// What setting up needs of a rack.
trait Wiring {
    fn arena(&self) -> Memory;
    /// False if the node is not there; then `act` is not called.
    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool;
    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError>;
}

impl Wiring for &EmbeddedRack {
    fn arena(&self) -> Memory {
        self.memory().clone()
    }

    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let there = usize::from(node.0) < self.config().node.len();
        if there {
            self.node(node).with(|nic| act(nic));
        }
        there
    }

    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }
}

impl Wiring for SimulatedRack {
    fn arena(&self) -> Memory {
        self.memory().clone()
    }

    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        match self.nic_mut(node) {
            Some(nic) => {
                act(nic);
                true
            }
            None => false,
        }
    }

    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }
}

/// Acts on a node that must be there.
fn on_node<R>(
    rack: &mut impl Wiring,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> Result<R, IndexSetUpError>,
) -> Result<R, IndexSetUpError> {
    let (mut act, mut result) = (Some(act), None);
    rack.on_node(node, &mut |verbs| {
        result = act.take().map(|act| act(verbs));
    });
    result.unwrap_or(Err(IndexSetUpError::NoNode(node)))
}

impl Running {
    /// Makes shard and server threads of an endpoint.
    fn start(
        rack: &mut impl Wiring,
        spec: &IndexEndpointSpec,
        endpoint: EndpointId,
        map: &PartitionMap,
    ) -> Result<Self, IndexSetUpError> {
        if spec.threads == 0 {
            return Err(IndexSetUpError::NoThreads(endpoint));
        }
        let memory = rack.arena();
        // Different for every start of every endpoint.
        let name = (u64::from(endpoint.0) + 1) << 48 | map.since(endpoint);
        let mut config = TreeConfig {
            tree: name,
            ..spec.tree
        };
        let part = map.part_of(endpoint);
        // An endpoint without keys has an empty tree, with any bounds.
        (config.low, config.last) = part.map_or((0, 0), |part| (part.low, part.last));
        let len = usize::try_from(config.bytes()).unwrap_or(usize::MAX);
        let tree = Tree::create(memory.allocate(len)?, &config)?;
        let shard = Arc::new(Shard::new(&memory, endpoint, tree, map.clone())?);
        on_node(rack, spec.node, |verbs| {
            let pd = verbs.create_pd();
            let block = shard.tree().block().clone();
            let tree = verbs.register(pd, block, Access::REMOTE_READ)?;
            let block = shard.version_block().clone();
            let version = verbs.register(pd, block, Access::REMOTE_READ)?;
            let cq = verbs.create_cq(1)?;
            let thread = |at: u16| {
                let config = ServerConfig {
                    incarnation: name << 8 | u64::from(at) + 1,
                    ..spec.server
                };
                let rpc = Server::new(verbs, &memory, pd, config)?;
                let service = IndexServer::new(shard.clone());
                let thread = ServerThread { rpc, service };
                Ok(SharedServer(Arc::new(Mutex::new(Some(thread)))))
            };
            let threads: Result<Vec<_>, RpcError> = (0..spec.threads).map(thread).collect();
            Ok(Self {
                remote: shard.remote(&tree, &version),
                pd,
                cq,
                regions: [tree, version],
                threads: threads?,
                readers: Vec::new(),
                clients: 0,
                shard,
            })
        })
    }

    /// Gives back what the NIC holds for it. Its memory goes with the last who holds the shard.
    fn stop(self, verbs: &mut dyn Verbs) {
        for thread in &self.threads {
            if let Some(thread) = thread.lock().take() {
                thread.rpc.close(verbs);
            }
        }
        for qpn in self.readers {
            // A NIC that lost it is as good.
            let _ = verbs.destroy_qp(qpn);
        }
        let _ = verbs.destroy_cq(self.cq);
        for region in &self.regions {
            verbs.deregister(region);
        }
    }
}

fn create(rack: &mut impl Wiring, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
    let given = spec.endpoints.len();
    let map = spec.map.clone();
    if given != usize::from(map.endpoints()) {
        let map = map.endpoints();
        return Err(IndexSetUpError::Endpoints { map, given });
    }
    let payload = |spec: &IndexEndpointSpec| spec.server.payload_max;
    let mut payloads = spec.endpoints.iter().map(payload);
    let other = payloads.position(|max| max != payload(&spec.endpoints[0]));
    if let Some(at) = other {
        return Err(IndexSetUpError::Payloads(EndpointId(at as u16)));
    }
    let mut running: Vec<Option<Running>> = Vec::with_capacity(given);
    for (at, endpoint) in spec.endpoints.iter().enumerate() {
        match Running::start(rack, endpoint, EndpointId(at as u16), &map) {
            Ok(started) => running.push(Some(started)),
            Err(error) => {
                for (started, spec) in running.into_iter().zip(&spec.endpoints) {
                    stop(rack, spec.node, started);
                }
                return Err(error);
            }
        }
    }
    Ok(Index { spec, running, map })
}

fn stop(rack: &mut impl Wiring, node: NodeId, running: Option<Running>) {
    let mut running = running;
    rack.on_node(node, &mut |verbs| {
        if let Some(running) = running.take() {
            running.stop(verbs);
        }
    });
    // A dead node has nothing to give back, but its threads end.
    for thread in running.iter().flat_map(|running| &running.threads) {
        *thread.lock() = None;
    }
}

/// Connects a client on `node` to an endpoint.
fn attach(
    rack: &mut impl Wiring,
    index: &mut Index,
    node: NodeId,
    client: &mut IndexClient,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let memory = rack.arena();
    let attributes = index.spec.attributes;
    let at = endpoint.index();
    let server = index.spec.endpoints.get(at).map(|spec| spec.node);
    let running = index.running.get_mut(at).and_then(Option::as_mut);
    let (server, running) = server
        .zip(running)
        .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    let remote = running.remote;
    let ends = on_node(rack, node, |verbs| {
        let pd = verbs.create_pd();
        Ok(client.attach(verbs, &memory, pd, endpoint, remote)?)
    })?;
    let thread = running.threads[running.clients % running.threads.len()].clone();
    let accepted = on_node(rack, server, |verbs| {
        let mut thread = thread.lock();
        let thread = thread
            .as_mut()
            .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
        let call = thread.rpc.accept(verbs)?;
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        let (pd, cq) = (running.pd, running.cq);
        let read = ends
            .reader
            .map(|_| verbs.create_qp(pd, cq, cq, capabilities));
        Ok((call, read.transpose()?))
    });
    let connected = accepted.and_then(|(call, read)| {
        running.readers.extend(read);
        rack.join((node, ends.rpc), (server, call), &attributes)?;
        if let (Some(own), Some(peer)) = (ends.reader, read) {
            rack.join((node, own), (server, peer), &attributes)?;
        }
        Ok(())
    });
    match connected {
        Ok(()) => running.clients += 1,
        Err(_) => {
            rack.on_node(node, &mut |verbs| client.detach(verbs, endpoint));
        }
    }
    connected
}

/// A client on `node`, connected to all endpoints that are not dead.
fn add_client(
    rack: &mut impl Wiring,
    index: &mut Index,
    node: NodeId,
    config: IndexClientConfig,
) -> Result<IndexClient, IndexSetUpError> {
    let mut config = config;
    // Both ends must have the same.
    config.rpc.payload_max = index.spec.endpoints[0].server.payload_max;
    let mut client = IndexClient::new(index.map(), config);
    for endpoint in index.endpoints() {
        if index.running(endpoint).is_none() {
            continue;
        }
        if let Err(error) = attach(rack, index, node, &mut client, endpoint) {
            let mut client = Some(client);
            rack.on_node(node, &mut |verbs| {
                if let Some(client) = client.take() {
                    client.close(verbs);
                }
            });
            return Err(error);
        }
    }
    Ok(client)
}

/// Connects a coordinator on `node` to an endpoint.
fn attach_coordinator(
    rack: &mut impl Wiring,
    index: &mut Index,
    node: NodeId,
    coordinator: &mut Coordinator,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let memory = rack.arena();
    let running = index.running(endpoint);
    let running = running.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    let server = index.spec.endpoints[endpoint.index()].node;
    let own = on_node(rack, node, |verbs| {
        let pd = verbs.create_pd();
        Ok(coordinator.attach(verbs, &memory, pd, endpoint)?)
    })?;
    let peer = on_node(rack, server, |verbs| {
        let mut thread = running.threads[0].lock();
        let thread = thread
            .as_mut()
            .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
        Ok(thread.rpc.accept(verbs)?)
    })?;
    Ok(rack.join((node, own), (server, peer), &index.spec.attributes)?)
}

/// A coordinator on `node`, connected to all endpoints.
fn add_coordinator(
    rack: &mut impl Wiring,
    index: &mut Index,
    node: NodeId,
    config: CoordinatorConfig,
) -> Result<Coordinator, IndexSetUpError> {
    let mut config = config;
    config.rpc.payload_max = index.spec.endpoints[0].server.payload_max;
    let mut coordinator = Coordinator::new(index.map(), config);
    for endpoint in index.endpoints() {
        if index.running(endpoint).is_some() {
            attach_coordinator(rack, index, node, &mut coordinator, endpoint)?;
        }
    }
    Ok(coordinator)
}

fn kill(rack: &mut impl Wiring, index: &mut Index, endpoint: EndpointId) {
    index.map = index.map();
    let running = index
        .running
        .get_mut(endpoint.index())
        .and_then(Option::take);
    if let Some(spec) = index.spec.endpoints.get(endpoint.index()) {
        stop(rack, spec.node, running);
    }
}

/// Starts an endpoint anew, without what it had.
fn restart(
    rack: &mut impl Wiring,
    index: &mut Index,
    endpoint: EndpointId,
) -> Result<IndexLoss, IndexSetUpError> {
    let spec = index.spec.endpoints.get(endpoint.index()).copied();
    let spec = spec.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    kill(rack, index, endpoint);
    for running in index.running.iter().flatten() {
        running.shard.salvage(endpoint)?;
    }
    let before = index.map();
    let lost = before.part_of(endpoint);
    let map = before.with_restart(endpoint);
    for running in index.running.iter().flatten() {
        running.shard.note_map(&map)?;
    }
    index.map = map.clone();
    let started = Running::start(rack, &spec, endpoint, &map)?;
    index.running[endpoint.index()] = Some(started);
    Ok(IndexLoss { lost, map })
}

impl EmbeddedRack {
    /// Sets an index up.
    ///
    /// # Errors
    /// If the specification makes no sense, or a node lacks room.
    pub fn create_index(&self, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
        create(&mut &*self, spec)
    }

    /// A client on `node` for one thread, connected to all endpoints of an index. The longest
    /// request is what the endpoints take, whatever `config` says.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_client(
        &self,
        index: &mut Index,
        node: NodeId,
        config: IndexClientConfig,
    ) -> Result<IndexClient, IndexSetUpError> {
        add_client(&mut &*self, index, node, config)
    }

    /// Connects a client on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`EmbeddedRack::add_index_client`].
    pub fn attach_index_client(
        &self,
        index: &mut Index,
        node: NodeId,
        client: &mut IndexClient,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach(&mut &*self, index, node, client, endpoint)
    }

    /// A coordinator on `node`, connected to all endpoints of an index that are not dead. Any other
    /// one of the index is to be gone.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_coordinator(
        &self,
        index: &mut Index,
        node: NodeId,
        config: CoordinatorConfig,
    ) -> Result<Coordinator, IndexSetUpError> {
        add_coordinator(&mut &*self, index, node, config)
    }

    /// Connects a coordinator on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`EmbeddedRack::add_index_coordinator`].
    pub fn attach_index_coordinator(
        &self,
        index: &mut Index,
        node: NodeId,
        coordinator: &mut Coordinator,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach_coordinator(&mut &*self, index, node, coordinator, endpoint)
    }

    /// Ends an endpoint as if its process had been killed: its clients see it gone.
    pub fn kill_index_endpoint(&self, index: &mut Index, endpoint: EndpointId) {
        kill(&mut &*self, index, endpoint);
    }

    /// Starts an endpoint anew, with the keys that it had and none of their values: nobody else
    /// has them. Clients are to be attached again.
    ///
    /// # Errors
    /// If its node is dead or lacks room.
    pub fn restart_index_endpoint(
        &self,
        index: &mut Index,
        endpoint: EndpointId,
    ) -> Result<IndexLoss, IndexSetUpError> {
        restart(&mut &*self, index, endpoint)
    }
}

impl SimulatedRack {
    /// Sets an index up. Nobody drives its server threads yet.
    ///
    /// # Errors
    /// If the specification makes no sense, or a node lacks room.
    pub fn create_index(&mut self, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
        create(self, spec)
    }

    /// A client on `node` for one thread, connected to all endpoints of an index. The longest
    /// request is what the endpoints take, whatever `config` says.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_client(
        &mut self,
        index: &mut Index,
        node: NodeId,
        config: IndexClientConfig,
    ) -> Result<IndexClient, IndexSetUpError> {
        add_client(self, index, node, config)
    }

    /// Connects a client on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`SimulatedRack::add_index_client`].
    pub fn attach_index_client(
        &mut self,
        index: &mut Index,
        node: NodeId,
        client: &mut IndexClient,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach(self, index, node, client, endpoint)
    }

    /// A coordinator on `node`, connected to all endpoints of an index that are not dead. Any other
    /// one of the index is to be gone.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_coordinator(
        &mut self,
        index: &mut Index,
        node: NodeId,
        config: CoordinatorConfig,
    ) -> Result<Coordinator, IndexSetUpError> {
        add_coordinator(self, index, node, config)
    }

    /// Connects a coordinator on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`SimulatedRack::add_index_coordinator`].
    pub fn attach_index_coordinator(
        &mut self,
        index: &mut Index,
        node: NodeId,
        coordinator: &mut Coordinator,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach_coordinator(self, index, node, coordinator, endpoint)
    }

    /// Ends an endpoint as if its process had been killed: its clients see it gone.
    pub fn kill_index_endpoint(&mut self, index: &mut Index, endpoint: EndpointId) {
        kill(self, index, endpoint);
    }

    /// Starts an endpoint anew, with the keys that it had and none of their values: nobody else
    /// has them. Clients are to be attached again, server threads driven.
    ///
    /// # Errors
    /// If its node is dead or lacks room.
    pub fn restart_index_endpoint(
        &mut self,
        index: &mut Index,
        endpoint: EndpointId,
    ) -> Result<IndexLoss, IndexSetUpError> {
        restart(self, index, endpoint)
    }
}

#[cfg(test)]
mod tests;
