//! The Ethernet testbed: client threads in one pod of a fat tree, four memory servers in another.

use super::database::Database;
use super::datagrams::{Asks, asking, serving};
use super::rdma::{self, Limits, REGULAR};
use super::walk::WalkCost;
use crate::harness::drive::{OrFailed, Testbed, Until};
use crate::harness::tally::{Span, Tally};
use crate::harness::work::Core;
use crate::harness::{Result, Run};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_endpoint::index::{DatagramClientConfig, DatagramServerConfig, PartitionMap};
use rackweave_endpoint::rpc::ServerConfig;
use rackweave_rack::config::{NodeConfig, Role, TopologyName};
use rackweave_rack::services::IndexService;
use rackweave_rack::{IndexEndpointSpec, IndexSpec, RackConfig};
use rackweave_sim::devices;
use rackweave_sim::testbed_fat_btree::Network;
use rackweave_wire::fabric::lookup;

/// Memory servers.
pub const SERVERS: u64 = 4;

/// The client's node; servers come after it.
const CLIENT: NodeId = NodeId(0);

/// The switch that each node is attached to, the client first: the first edge switch of pod 0, and
/// both of pod 1. Switch 0 is the core switch, 1 to 4 are the aggregation switches.
const SWITCHES: [u16; 5] = [5, 7, 7, 8, 8];

/// Time at the beginning that is not measured.
const WARM_UP: Duration = Duration::from_micros(200);

/// The load of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Client threads.
    pub clients: u16,
    /// Operations in flight of each thread.
    pub operations: u16,
    /// Measured time.
    pub counted: Duration,
}

/// Retry interval of a client: nothing is lost, but all requests may go to one server.
const PATIENCE: Duration = Duration::from_millis(10);

/// The testbed with loaded trees.
pub struct Ethernet {
    rack: Testbed,
    /// The trees.
    pub index: IndexService,
    core: Core,
    clients: u64,
    rng: Rng,
}

impl Ethernet {
    /// Trees that share the records of `database` in order; those in `asked`, which is ascending,
    /// may be requested, with this skew. Switches have capacity for `limits`.
    pub fn new(
        seed: u64,
        database: Database,
        asked: &[u64],
        (skew, limits): (f64, Limits),
    ) -> Result<Self> {
        // The first record of a server; the last server also has the remainder.
        let first = |server: u64| match server {
            SERVERS => database.keys,
            server => database.keys / SERVERS * server,
        };
        let boundaries: Vec<u64> = (1..SERVERS).map(|at| database.key(first(at))).collect();
        let map = PartitionMap::split(&boundaries).or_failed("the partition map")?;
        let trees = (0..SERVERS).map(|server| {
            let (from, to) = (first(server), first(server + 1));
            let asked = asked.partition_point(|&number| number < to)
                - asked.partition_point(|&number| number < from);
            database.tree(to - from, asked as u64, REGULAR)
        });
        // RPC connections carry no requests here.
        let rpc = ServerConfig {
            clients_max: 1,
            receives: 8,
            ..ServerConfig::new(1)
        };
        let endpoints: Vec<IndexEndpointSpec> = (1..)
            .zip(trees)
            .map(|(node, tree)| IndexEndpointSpec {
                threads: devices::FAT_BTREE_SERVER_THREADS,
                server: rpc,
                ..IndexEndpointSpec::new(NodeId(node), tree)
            })
            .collect();
        let memory = endpoints.iter().map(|endpoint| endpoint.tree.bytes()).sum();
        let mut rack = testbed(seed, memory, limits)?;
        let spec = IndexSpec {
            datagrams: Some(DatagramServerConfig {
                burst: 1,
                ..DatagramServerConfig::new(0)
            }),
            ..IndexSpec::new(endpoints, map)
        };
        let index = IndexService::with_spec(&rack, spec, None, None).or_failed("the index")?;
        index
            .load(database.entries(0, database.keys, asked))
            .or_failed("the trees")?;
        let core = Core {
            cpu: Network::Ethernet.cpu(),
            caches: Network::Ethernet.caches(),
        };
        let cost = WalkCost::new((&database, SERVERS), REGULAR, skew, &core.caches);
        let request_bytes = lookup::HEADER_LEN as u64 + u64::from(database.value_bytes);
        for (_, node, server) in index.index().datagram_servers() {
            let serving = serving(server.clone(), core, cost.clone(), request_bytes);
            rack.spawn_server(node, serving);
        }
        Ok(Self {
            rack,
            index,
            core,
            clients: 0,
            rng: Rng::new(seed).fork("ethernet"),
        })
    }

    /// Operations per second under this load.
    pub fn measure(&mut self, run: &mut Run<'_>, load: Load, asks: &Asks) -> Result<f64> {
        let span = Span::new(WARM_UP, load.counted);
        let tally = Tally::new(self.rack.now(), span);
        for client in 0..usize::from(load.clients) {
            self.clients += 1;
            let config = DatagramClientConfig {
                operations: load.operations,
                timeout: PATIENCE,
                timeout_max: PATIENCE,
                ..DatagramClientConfig::new(self.clients)
            };
            let made = self
                .index
                .datagram_client(CLIENT, config)
                .or_failed("a client")?;
            let next = asks.asked.len() / usize::from(load.clients) * client;
            let rng = self.rng.fork(&format!("client {}", self.clients));
            let asking = asking(made, self.core, asks.clone(), next, rng, tally.clone());
            self.rack.spawn(CLIENT, asking);
        }
        Tally::run(&tally, run, &mut self.rack)?;
        // Clients that still wait for replies get them, end, and release their ports.
        let rest = &mut run.share(1.0, 1.0);
        self.rack.drive(rest, Until::Done(PATIENCE))?;
        let rate = tally.borrow().per_second();
        Ok(rate)
    }
}

/// The testbed, with `memory` bytes available for regions.
fn testbed(seed: u64, memory: u64, limits: Limits) -> Result<Testbed> {
    let node = |(at, &switch): (usize, &u16)| {
        let (name, role) = match at {
            0 => ("client".to_owned(), Role::Compute),
            at => (format!("server{at}"), Role::Memory),
        };
        NodeConfig {
            switch: Some(switch),
            ..NodeConfig::new(name, role)
        }
    };
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (128 << 20),
        node: SWITCHES.iter().enumerate().map(node).collect(),
        ..RackConfig::default()
    };
    config.switch.topology = TopologyName::FatTree;
    config.switch.pods = 4;
    rdma::with_index(&mut config, limits, SERVERS as u16);
    Testbed::with_models(&config, |world| {
        world.nodes = vec![Network::Ethernet.node(); SWITCHES.len()];
        for cable in &mut world.cables {
            cable.link = Network::Ethernet.cable();
        }
    })
}
