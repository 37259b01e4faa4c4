//! The index on the testbed: a shard in the host's memory, one in the DPU's, their server threads,
//! and clients on the compute node.

use super::client::{ClientActor, Mix};
use super::metered::Outbox;
use super::rack::{self, failed};
use super::server::{Prices, ServerActor, Slowdown};
use super::{Core, tree};
use crate::experiment::tally::{Shared, Tally};
use crate::experiment::{ExperimentError, Run};
use rackweave_base::{Duration, NodeId, Qpn, Rng};
use rackweave_endpoint::index::{
    Access, Coordinator, CoordinatorConfig, EndpointId, IndexClient, IndexClientConfig,
    IndexServer, PartitionMap, ReaderConfig, RemoteTree, ServerThread, Shard,
};
use rackweave_endpoint::rpc;
use rackweave_rack::SimulatedRack;
use rackweave_sim::devices;
use rackweave_sim::testbed::Server;
use rackweave_verbs::{self as verbs, PdId, QpCapabilities, Verbs};
use std::rc::Rc;
use std::sync::Arc;

/// The endpoints: what the host has and what the DPU has.
pub const ENDPOINTS: [(EndpointId, Server); 2] =
    [(EndpointId(0), Server::Host), (EndpointId(1), Server::Dpu)];

/// Completions that a server thread takes at a time. Assumed; replies of a batch to one client
/// share a doorbell.
const SERVER_BATCH: u16 = 16;

/// Bytes of a request or reply at most: a key and a value.
const PAYLOAD_MAX: u32 = 64;

/// Patience of clients: nothing is lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Keys that really are in the trees, from 0 on.
    pub keys: u64,
    /// Keys that each of them stands for in the cost of operations.
    pub scale: u64,
    /// Which part of the keys the DPU has, the greatest ones.
    pub offload: f64,
    /// Bytes of a tree node.
    pub node_bytes: u32,
    /// How clients read.
    pub access: Access,
    /// Threads of the compute node.
    pub clients: u16,
    /// Operations of each under way.
    pub operations: u16,
    /// What they ask for.
    pub mix: Mix,
    /// When the DPU's cores get slower, if they do.
    pub slowdown: Option<Slowdown>,
    /// The longest request or reply.
    pub payload_max: u32,
    /// Keys that each tree has room for at least, if keys are to move.
    pub room: u64,
    /// Not counted at the beginning.
    pub warm_up: Duration,
    /// Counted.
    pub counted: Duration,
}

impl Plan {
    /// The paper's threads with requests, and reads only, over `keys` real keys.
    pub fn new(keys: u64, scale: u64, mix: Mix) -> Self {
        Self {
            keys,
            scale,
            offload: 0.0,
            node_bytes: tree::NODE_BYTES,
            access: Access::Rpc,
            clients: devices::COMPUTE_THREADS,
            operations: 16,
            mix,
            slowdown: None,
            payload_max: PAYLOAD_MAX,
            room: 0,
            warm_up: Duration::from_micros(50),
            counted: Duration::from_micros(800),
        }
    }

    /// The map at the beginning.
    fn map(&self) -> Result<PartitionMap, ExperimentError> {
        let first = self.keys - (self.keys as f64 * self.offload).round() as u64;
        let map = match first {
            first if first == self.keys => PartitionMap::whole(2, EndpointId(0)),
            first => PartitionMap::split(&[first]),
        };
        map.map_err(|error| failed("the partition map", error))
    }
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    /// Operations per second.
    pub per_second: f64,
    /// Median latency in microseconds.
    pub median_us: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
}

/// One end of the index.
pub struct Endpoint {
    /// Whose cores and memory.
    pub server: Server,
    /// Its tree and what it owns.
    pub shard: Arc<Shard>,
    /// What its operations cost.
    pub prices: Rc<Prices>,
    /// The protection domain of READs and where the tree is, by port.
    ports: Vec<(PdId, RemoteTree)>,
    /// Server threads, by number.
    threads: Vec<ServerThread>,
}

/// The index, its threads not started yet.
pub struct Index {
    /// The testbed.
    pub rack: SimulatedRack,
    /// Host and DPU.
    pub endpoints: Vec<Endpoint>,
    /// The map at the beginning.
    pub map: PartitionMap,
    plan: Plan,
    rng: Rng,
}

impl Index {
    /// Loads the trees and makes the server threads.
    ///
    /// # Errors
    /// If the rack or the index cannot be built.
    pub fn new(seed: u64, plan: &Plan) -> Result<Self, ExperimentError> {
        // Trees are a half to nine tenths full; the rest is buffers of connections.
        let keys = plan.keys + 2 * plan.room;
        let room = 4 * keys * tree::ENTRY_BYTES + (512 << 20);
        let mut index = Self {
            rack: rack::testbed(seed, room)?,
            endpoints: Vec::new(),
            map: plan.map()?,
            plan: plan.clone(),
            rng: Rng::new(seed).fork("bluefield"),
        };
        for (id, server) in ENDPOINTS {
            let endpoint = index.endpoint(id, server)?;
            index.endpoints.push(endpoint);
        }
        Ok(index)
    }

    fn endpoint(&mut self, id: EndpointId, server: Server) -> Result<Endpoint, ExperimentError> {
        let plan = &self.plan;
        let part = self.map.part_of(id);
        let bounds = part.map_or((0, u64::MAX), |part| (part.low, part.last));
        let end = part.map_or(0, |part| plan.keys.min(part.last.saturating_add(1)));
        let memory = self.rack.memory().clone();
        let tree = tree::load(&memory, plan.node_bytes, bounds, (end, plan.room))?;
        let shard = Shard::new(&memory, id, tree, self.map.clone());
        let shard = Arc::new(shard.map_err(|error| failed("a shard", error))?);
        let mut endpoint = Endpoint {
            server,
            prices: Prices::new(server, plan.keys, plan.scale, plan.node_bytes),
            ports: Vec::new(),
            threads: Vec::new(),
            shard,
        };
        for port in 0..devices::CARD_PORTS {
            let mut nic = rack::nic(&mut self.rack, server, port)?;
            let pd = nic.create_pd();
            let blocks = [
                endpoint.shard.tree().block(),
                endpoint.shard.version_block(),
            ];
            let mut regions = Vec::new();
            for block in blocks {
                let region = nic.register(pd, block.clone(), verbs::Access::REMOTE_READ);
                regions.push(region.map_err(|error| failed("a tree's region", error))?);
            }
            let remote = endpoint.shard.remote(&regions[0], &regions[1]);
            endpoint.ports.push((pd, remote));
        }
        for index in 0..server.threads() {
            let thread = self.server_thread(&endpoint, index)?;
            endpoint.threads.push(thread);
        }
        Ok(endpoint)
    }

    fn server_thread(
        &mut self,
        endpoint: &Endpoint,
        index: u16,
    ) -> Result<ServerThread, ExperimentError> {
        let memory = self.rack.memory().clone();
        let config = rpc::ServerConfig {
            clients_max: self.plan.clients + 4,
            receives: self.plan.operations.max(8) * 2,
            payload_max: self.plan.payload_max,
            // One request per message, as in the paper.
            batch_bytes: 0,
            completions_max: SERVER_BATCH,
            ..rpc::ServerConfig::new(u64::from(index) + 1)
        };
        let mut nic = rack::nic(&mut self.rack, endpoint.server, index)?;
        let pd = nic.create_pd();
        let rpc = rpc::Server::new(&mut *nic, &memory, pd, config);
        Ok(ServerThread {
            rpc: rpc.map_err(|error| failed("a server thread", error))?,
            service: IndexServer::new(endpoint.shard.clone()),
        })
    }

    /// A client on a node of the compute server, thread `index`, with its links to one thread of
    /// each endpoint.
    ///
    /// # Errors
    /// If NICs have no room.
    pub fn client(&mut self, index: u16) -> Result<IndexClient, ExperimentError> {
        let plan = self.plan.clone();
        let config = IndexClientConfig {
            operations: plan.operations,
            access: plan.access,
            rpc: rpc::ClientConfig {
                window: plan.operations,
                payload_max: plan.payload_max,
                batch_bytes: 0,
                timeout: PATIENCE,
                ..rpc::ClientConfig::default()
            },
            reader: ReaderConfig {
                walks: plan.operations,
                records: 1,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        };
        let mut client = IndexClient::new(self.map.clone(), config);
        let near = Server::Compute.of_thread(index);
        let memory = self.rack.memory().clone();
        for (at, (endpoint, _)) in ENDPOINTS.into_iter().enumerate() {
            let (pd, remote) = self.endpoints[at].ports[usize::from(index % devices::CARD_PORTS)];
            let mut nic = rack::nic(&mut self.rack, Server::Compute, index)?;
            let own = nic.create_pd();
            let ends = client.attach(&mut *nic, &memory, own, endpoint, remote);
            let ends = ends.map_err(|error| failed("a link", error))?;
            drop(nic);
            self.connect_rpc(at, index, (near, ends.rpc))?;
            if let Some(reader) = ends.reader {
                self.connect_reader(at, index, pd, (near, reader))?;
            }
        }
        Ok(client)
    }

    /// Connects a client's queue pair to the server thread that client `index` uses.
    fn connect_rpc(
        &mut self,
        at: usize,
        index: u16,
        near: (NodeId, Qpn),
    ) -> Result<(), ExperimentError> {
        let endpoint = &mut self.endpoints[at];
        let count = endpoint.threads.len();
        let thread = &mut endpoint.threads[usize::from(index) % count].rpc;
        let mut nic = rack::nic(&mut self.rack, endpoint.server, index)?;
        let qpn = thread.accept(&mut *nic);
        let qpn = qpn.map_err(|error| failed("a connection", error))?;
        let far = (endpoint.server.of_thread(index), qpn);
        drop(nic);
        self.rack
            .connect(near, far, &rack::attributes())
            .map_err(|error| failed("a connection", error))?;
        let mut nic = rack::nic(&mut self.rack, endpoint.server, index)?;
        thread
            .connected(&mut *nic, qpn)
            .map_err(|error| failed("a connection", error))
    }

    /// A coordinator on the compute node with its links to both endpoints.
    ///
    /// # Errors
    /// If NICs have no room.
    pub fn coordinator(
        &mut self,
        config: CoordinatorConfig,
    ) -> Result<Coordinator, ExperimentError> {
        let mut coordinator = Coordinator::new(self.map.clone(), config);
        let memory = self.rack.memory().clone();
        for (at, (endpoint, _)) in ENDPOINTS.into_iter().enumerate() {
            let mut nic = rack::nic(&mut self.rack, Server::Compute, 0)?;
            let pd = nic.create_pd();
            let qpn = coordinator.attach(&mut *nic, &memory, pd, endpoint);
            let qpn = qpn.map_err(|error| failed("the coordinator", error))?;
            drop(nic);
            self.connect_rpc(at, 0, (Server::Compute.at_port(0), qpn))?;
        }
        Ok(coordinator)
    }

    fn connect_reader(
        &mut self,
        at: usize,
        index: u16,
        pd: PdId,
        near: (NodeId, Qpn),
    ) -> Result<(), ExperimentError> {
        let server = self.endpoints[at].server;
        let mut nic = rack::nic(&mut self.rack, server, index)?;
        let cq = nic
            .create_cq(1)
            .map_err(|error| failed("a reader", error))?;
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        let qpn = nic.create_qp(pd, cq, cq, capabilities);
        let qpn = qpn.map_err(|error| failed("a reader", error))?;
        let far = (server.of_thread(index), qpn);
        drop(nic);
        self.rack
            .connect(near, far, &rack::attributes())
            .map_err(|error| failed("a reader", error))
    }

    /// Starts server threads and clients.
    ///
    /// # Errors
    /// If NICs have no room.
    pub fn start(&mut self, tally: &Shared) -> Result<(), ExperimentError> {
        for index in 0..self.plan.clients {
            let client = self.client(index)?;
            let name = format!("client {index}");
            let actor = ClientActor::new(
                client,
                Core::of(Server::Compute),
                self.plan.mix.clone(),
                self.rng.fork(&name),
                tally,
            );
            let node = Server::Compute.of_thread(index);
            self.rack.spawn(node, Box::new(actor));
        }
        for endpoint in &mut self.endpoints {
            let slow = self
                .plan
                .slowdown
                .filter(|_| endpoint.server == Server::Dpu);
            for (index, thread) in endpoint.threads.drain(..).enumerate() {
                let actor = ServerActor {
                    thread,
                    outbox: Outbox::default(),
                    prices: endpoint.prices.clone(),
                    slowdown: slow,
                    tally: tally.clone(),
                };
                let node = endpoint.server.of_thread(index as u16);
                self.rack.spawn(node, Box::new(actor));
            }
        }
        Ok(())
    }
}

/// Builds the index, runs it, and says what was seen.
///
/// # Errors
/// If it cannot be built, an answer is wrong, or the user wishes to stop.
pub fn measure(run: &mut Run<'_>, share: f64, plan: &Plan) -> Result<Seen, ExperimentError> {
    let mut index = Index::new(run.seed, plan)?;
    let tally = Tally::new(index.rack.now(), plan.warm_up, plan.counted);
    index.start(&tally)?;
    rack::drive(run, share, &mut index.rack, &tally)?;
    let tally = tally.borrow();
    Ok(Seen {
        per_second: tally.per_second(),
        median_us: tally.quantile_us(0.5),
        mean_us: tally.mean_us(),
    })
}
