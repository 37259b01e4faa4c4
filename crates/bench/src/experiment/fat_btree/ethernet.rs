//! The Ethernet testbed: client threads in one pod of a fat tree, four memory servers in another.
//! In client–server mode, clients send UDP datagrams and the servers' threads reply.

use super::client::check;
use super::database::{Database, WalkCost};
use super::rdma::{self, Limits, REGULAR};
use crate::harness::metered::after;
use crate::harness::prelude::*;
use rackweave_endpoint::index::{
    DatagramClient, DatagramClientConfig, DatagramServerConfig, Op, Ticket,
};
use rackweave_endpoint::rpc::ServerConfig;
use rackweave_rack::{IndexEndpointSpec, IndexSpec, SharedDatagramServer};
use rackweave_sim::testbed_fat_btree::Network;
use rackweave_verbs::Datagrams;
use rackweave_wire::fabric::lookup;

pub const SERVERS: u64 = 4;

/// The client's node; servers come after it.
const CLIENT: NodeId = NodeId(0);

/// The switch that each node is attached to, the client first: the first edge switch of pod 0, and
/// both of pod 1. Switch 0 is the core switch, 1 to 4 are the aggregation switches.
const SWITCHES: [u16; 5] = [5, 7, 7, 8, 8];

/// Time at the beginning that is not measured.
const WARM_UP: Duration = Duration::from_micros(200);

/// Retry interval of a client: nothing is lost, but all requests may go to one server.
const PATIENCE: Duration = Duration::from_millis(10);

pub struct Ethernet {
    rack: Testbed,
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

    /// Operations per second of this many client threads, each with this many operations in flight.
    pub fn measure(
        &mut self,
        run: &mut Run<'_>,
        (clients, operations): (u16, u16),
        counted: Duration,
        asks: &Asks,
    ) -> Result<f64> {
        let span = Span::new(WARM_UP, counted);
        let tally = Tally::new(self.rack.now(), span);
        for client in 0..usize::from(clients) {
            self.clients += 1;
            let config = DatagramClientConfig {
                operations,
                timeout: PATIENCE,
                timeout_max: PATIENCE,
                ..DatagramClientConfig::new(self.clients)
            };
            let made = self.index.datagram_client(CLIENT, config);
            let made = made.or_failed("a client")?;
            let next = asks.asked.len() / usize::from(clients) * client;
            let rng = self.rng.fork(&format!("client {}", self.clients));
            let asking = asking(made, self.core, asks.clone(), next, rng, tally.clone());
            self.rack.spawn(CLIENT, asking);
        }
        let seen = Tally::run(&tally, run, &mut self.rack)?;
        // Clients that still wait for replies get them, end, and release their ports.
        let rest = &mut run.share(1.0, 1.0);
        self.rack.drive(rest, Until::Done(PATIENCE))?;
        Ok(seen.per_second)
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

/// Time to send a datagram: a descriptor and a doorbell, as for a work request.
fn sending(core: &Core) -> Duration {
    core.work(devices::WORK_REQUEST_CYCLES + devices::DOORBELL_CYCLES)
}

/// Time to receive one of `bytes` bytes: completion, lines, a new buffer, parsing.
fn receiving(core: &Core, bytes: u64) -> Duration {
    let cycles = devices::RECEIVE_REQUEST_CYCLES + devices::RPC_DISPATCH_CYCLES;
    core.cpu.poll_cost + core.arrived(bytes) + core.work(cycles)
}

/// The operations of clients.
#[derive(Clone, Debug)]
pub struct Asks {
    /// The records.
    pub database: Database,
    /// The records, in the order of requests; the trees have their whole values.
    pub asked: Rc<[u64]>,
    /// The share of updates in all operations.
    pub updates: f64,
}

/// A thread of the computing client: it keeps as many operations in flight as `made` allows, until
/// the tally's window is over. Its first operation is the `next`-th of `asks`.
fn asking(
    made: DatagramClient,
    core: Core,
    asks: Asks,
    mut next: usize,
    mut rng: Rng,
    tally: Shared,
) -> impl Program {
    // None once the window is over.
    let mut client = Some(made);
    // Operations in flight: their start times and records.
    let mut going: HashMap<Ticket, (Instant, u64)> = HashMap::new();
    let reply_bytes = lookup::HEADER_LEN as u64 + u64::from(asks.database.value_bytes);
    // One turn. Returns its cost, or none if the window is over.
    let mut work = move |client: &mut DatagramClient,
                         now: Instant,
                         nic: &mut dyn Datagrams|
          -> Result<Option<Duration>, Failure> {
        let mut spent = Duration::ZERO;
        let before = client.datagram_statistics().sent;
        client.advance(now, nic);
        while let Some(reply) = client.take() {
            spent += receiving(&core, reply_bytes);
            let asked = going.remove(&reply.ticket);
            let (since, number) = asked.ok_or("an answer to no question")?;
            check(&asks.database, number, &reply, true)?;
            tally.borrow_mut().end(since, now + spent);
        }
        if now >= tally.borrow().until() {
            return Ok((!going.is_empty()).then_some(spent));
        }
        if client.free() > 0 {
            while client.free() > 0 {
                let number = asks.asked[next % asks.asked.len()];
                next += 1;
                let ticket = begin(client, &asks, number, &mut rng)?;
                going.insert(ticket, (now + spent, number));
                spent += core.work(devices::RPC_DISPATCH_CYCLES);
            }
            client.advance(now, nic);
        }
        for _ in before..client.datagram_statistics().sent {
            spent += sending(&core);
        }
        Ok(Some(spent))
    };
    move |context: &mut Context<'_>| -> Turn {
        let Some(mut using) = client.take() else {
            return Ok(Step::Done);
        };
        let now = context.now();
        let Some(spent) = work(&mut using, now, context.nic())? else {
            using.close(context.nic());
            return Ok(Step::Done);
        };
        let timeout = using.poll_timeout();
        client = Some(using);
        context.charge(Category::Communication, spent);
        Ok(after(spent, timeout))
    }
}

fn begin(
    client: &mut DatagramClient,
    asks: &Asks,
    number: u64,
    rng: &mut Rng,
) -> Result<Ticket, Failure> {
    let key = asks.database.key(number);
    // An update writes the existing value, so every reply can be checked.
    let begun = if rng.chance(asks.updates) {
        let value = &asks.database.value(number);
        client.begin(&Op::Update { key, value })
    } else {
        client.begin(&Op::Get { key })
    };
    begun.map_err(|error| format!("key {key:#x}: {error}"))
}

/// A thread of a memory server, which must be set to serve one request per poll; a request has this
/// many bytes, and a reply.
fn serving(
    server: SharedDatagramServer,
    core: Core,
    cost: WalkCost,
    request_bytes: u64,
) -> impl Program {
    move |context: &mut Context<'_>| -> Turn {
        let mut server = server.lock();
        let Some(server) = server.as_mut() else {
            return Ok(Step::Done);
        };
        let before = server.statistics();
        if server.poll(context.now(), context.nic()) == 0 {
            return Ok(Step::WaitForPacket);
        }
        let walked = server.statistics().levels_walked - before.levels_walked;
        // A request that has walked no levels, unlike a lookup, is an update.
        let walk = match walked {
            0 => cost.update(),
            levels => cost.lookup(levels),
        };
        context.charge(Category::Compute, walk);
        let packets = receiving(&core, request_bytes) + sending(&core);
        context.charge(Category::Communication, packets);
        Ok(Step::Compute(Duration::ZERO))
    }
}
