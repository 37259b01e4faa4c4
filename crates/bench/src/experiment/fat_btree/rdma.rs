//! The RDMA testbed: a tree in the memory server's memory, a client thread, two switches.

use super::client::{Reads, Seen, client};
use super::database::Database;
use crate::harness::prelude::*;
use rackweave_controller::index::KeyWeights;
use rackweave_endpoint::index::{Access, EndpointId, IndexClientConfig, ReaderConfig};
use rackweave_rack::services::TIME_LIMIT;
use rackweave_rack::{IndexEndpointSpec, IndexNetworkSpec, IndexSpec, NetworkSummary};
use rackweave_sim::testbed_fat_btree::Network;

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);

/// Timeout for all replies: nothing is lost, and liveness checks must not interfere.
const PATIENCE: Duration = Duration::from_secs(1_000);

/// Bytes of a tree node, and maximum number of an inner node's children; 0: as many as fit.
pub type Shape = (u32, u16);

/// The shape that switches support: 16 branches.
pub const REGULAR: Shape = (512, 16);

/// Limits on the switches' contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Ranges of the fat root.
    pub ranges: u16,
    /// Layers of regular nodes below it.
    pub layers: u8,
    /// Regular nodes of each layer.
    pub nodes: u16,
}

pub struct LookupRack {
    rack: Testbed,
    pub index: IndexService,
    database: Database,
    shape: Shape,
}

impl LookupRack {
    /// A tree of `shape` with the records of `database`; those in `asked`, which is ascending, may
    /// be looked up. Switches have capacity for `limits`, if anything is to be loaded into them.
    pub fn new(
        seed: u64,
        database: Database,
        shape: Shape,
        asked: &[u64],
        limits: Option<Limits>,
    ) -> Result<Self> {
        let tree = database.tree(database.keys, asked.len() as u64, shape);
        let rack = testbed(seed, tree.bytes(), limits)?;
        let map = PartitionMap::whole(1, EndpointId(0)).or_failed("the partition map")?;
        let spec = IndexSpec {
            attributes: PairAttributes {
                timeout: Duration::from_millis(20),
                ..PairAttributes::default()
            },
            ..IndexSpec::new(vec![IndexEndpointSpec::new(SERVER, tree)], map)
        };
        let index = IndexService::with_spec(&rack, spec, None, None).or_failed("the index")?;
        index
            .load(database.entries(0, database.keys, asked))
            .or_failed("the tree")?;
        Ok(Self {
            rack,
            index,
            database,
            shape,
        })
    }

    /// Looks the records up, one after another. `share` is the completed share of the experiment.
    pub fn look_up(&mut self, run: &mut Run<'_>, access: Access, asked: &[u64]) -> Result<Seen> {
        let config = IndexClientConfig {
            operations: 1,
            access,
            rpc: rpc::ClientConfig {
                timeout: PATIENCE,
                ..rpc::ClientConfig::default()
            },
            reader: ReaderConfig {
                walks: 1,
                records: 1,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        };
        let made = self.index.client(CLIENT, config).or_failed("the client")?;
        let core = Core {
            cpu: Network::Rdma.cpu(),
            caches: Network::Rdma.caches(),
        };
        let log = Rc::<RefCell<Seen>>::default();
        let node_bytes = self.shape.0;
        let toll = Reads { core, node_bytes };
        let asked = asked.iter().copied().collect();
        let actor = client(toll, made, self.database, asked, log.clone());
        self.rack.spawn(CLIENT, actor);
        self.rack.drive(run, Until::Done(PATIENCE))?;
        Ok(log.take())
    }
}

/// Gives switches capacity for `limits` and this many servers, and for nothing else.
pub fn with_index(config: &mut RackConfig, limits: Limits, servers: u16) {
    let switch = &mut config.switch;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    switch.index_queries = 64;
    switch.index_servers = servers;
    switch.index_fat_ranges = limits.ranges;
    switch.index_layers = limits.layers;
    switch.index_nodes = if limits.layers > 0 { limits.nodes } else { 0 };
}

/// Opens the index to the network, loads into the switches the paths to `keys`, weighted by their
/// frequency, and waits until they are in use.
pub fn load(index: &IndexService, keys: &[u64]) -> Result<NetworkSummary> {
    let what = "loading the switches";
    index
        .open_network(IndexNetworkSpec::default())
        .or_failed(what)?;
    let weights = KeyWeights::from_samples(keys);
    index.load_network_for(weights, TIME_LIMIT).or_failed(what)
}

/// The testbed, with `memory` bytes available for regions.
fn testbed(seed: u64, memory: u64, limits: Option<Limits>) -> Result<Testbed> {
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (64 << 20),
        node: vec![
            NodeConfig::new("client", Role::Compute),
            NodeConfig::new("server", Role::Memory),
        ],
        ..RackConfig::default()
    };
    config.switch.topology = TopologyName::Two;
    if let Some(limits) = limits {
        with_index(&mut config, limits, 1);
    }
    Testbed::with_models(&config, |world| {
        world.nodes = vec![Network::Rdma.node(); 2];
        for cable in &mut world.cables {
            cable.link = Network::Rdma.cable();
        }
    })
}
