//! A run on a simulated rack: workers and server threads are actors, time is virtual.
//!
//! Hosts are the modelled Xeons, a second endpoint is a modelled BlueField-2. The cost of trees
//! comes from `rackweave_sim::TreeCost` and the initial number of records. Records are loaded
//! before virtual time begins.

use super::loaded::Loaded;
use super::options::{Access, IndexOptions};
use super::table::{IndexTable, Way};
use super::{Job, Outcome};
use crate::harness::metered::{Core, Metered, Priced, TREE_ENTRY_BYTES};
use crate::ycsb::prelude::*;
use crate::ycsb::simulated::{Modelled, SOON, Workers, loading, time};
use rackweave_endpoint::index::message::Method;
use rackweave_sim::testbed::Server;
use rackweave_sim::{TreeCost, TreeShape};

/// Runs on a simulated rack.
///
/// # Errors
/// As for [`super::embedded::run_on`].
pub fn run(job: &Job, progress: Progress<'_>) -> Result<Outcome> {
    let (options, nodes) = (&job.options, &job.nodes);
    options.check()?;
    let started = std::time::Instant::now();
    let mut rack = SimulatedRack::new(&options.rack(&job.config, nodes))?;
    let loaded = Loaded::new(&rack, job, progress)?;
    let run = Arc::new(loaded.run.again(options.load()));
    let mut outcome = Outcome {
        records: options.load.ycsb.records,
        load_seconds: started.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    let is_local = options.access == Access::Local;
    for (_, node, server) in loaded.index.index().servers().filter(|_| !is_local) {
        let price = Price::of(&job.config, node, options);
        let server = server.clone();
        rack.spawn_server(node, Box::new(ServerActor { server, price }));
    }
    let mut workers = Workers::new(options.workers(nodes.compute.len()));
    for (node, table) in loaded.tables(options)? {
        let model = Model {
            table,
            price: Price::of(&job.config, node, options),
            node_reads: 0,
            node_bytes: options.node_size.into(),
        };
        workers.spawn(&mut rack, node, &run, model)?;
    }
    let tend = &mut |now| loaded.tend(options.access, now);
    workers.operate(&mut rack, &run, None, &mut outcome, progress, tend)?;
    for worker in &workers.all {
        let table = &worker.borrow().model.table;
        loaded.count(options.access, table, &mut outcome.table);
    }
    let endpoints: Vec<_> = (0..options.endpoints)
        .filter_map(|at| job.endpoint(at))
        .collect();
    outcome.time = match is_local {
        true => vec![time(&rack, "local", &endpoints)],
        false => vec![
            time(&rack, "clients", &nodes.compute),
            time(&rack, "servers", &endpoints),
        ],
    };
    loaded.conclude(options.access, &run, &mut outcome);
    Ok(outcome)
}

/// A server thread.
struct ServerActor {
    server: SharedServer,
    price: Price,
}

impl Actor for ServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (now, core) = (context.now(), core(self.price.server, context.cpu()));
        let mut thread = self.server.lock();
        let Some(thread) = thread.as_mut() else {
            return Step::Done;
        };
        let mut verbs = Metered::new(context.nic(), core.cpu);
        let price = |_, method, asked: &[u8], answered| {
            request(&self.price, &core, method, asked.len() as u64 + answered)
        };
        let mut service = Priced::new(&mut thread.service, price);
        thread.rpc.poll(now, &mut verbs, &mut service);
        let (communication, compute) = (verbs.spent(), service.spent);
        context.charge(Category::Communication, communication);
        context.charge(Category::Compute, compute);
        match communication + compute > Duration::ZERO {
            true => Step::Compute(SOON),
            false => Step::WaitForPacket,
        }
    }
}

/// A worker's table, and its cost on a core.
struct Model {
    table: IndexTable,
    /// Prices of the tree at the worker's node, if it has one.
    price: Price,
    /// READs of tree nodes that are already charged.
    node_reads: u64,
    node_bytes: u64,
}

impl Modelled for Model {
    type Table = IndexTable;

    fn table(&self) -> &IndexTable {
        &self.table
    }

    fn step(&mut self, session: &mut Session, context: &mut Context<'_>) -> Option<Step> {
        let (now, core) = (context.now(), core(self.price.server, context.cpu()));
        let (stepped, communication) = match self.table.way {
            Way::Local(_) => (session.step(&|| now, &mut self.table), Duration::ZERO),
            Way::Client(_) => {
                let mut verbs = Metered::new(context.nic(), core.cpu);
                self.advance(now, &mut verbs);
                let stepped = session.step(&|| now, &mut self.table);
                if stepped.happened {
                    self.advance(now, &mut verbs);
                }
                (stepped, verbs.spent())
            }
        };
        let compute = match &mut self.table.way {
            // An operation ends when its time has passed, at its next step.
            Way::Local(local) => {
                let (used, tree) = (local.take_work(), self.price.tree);
                let searched = tree.lookup * used.lookups + tree.update * used.writes;
                searched + loading(&core.cpu, stepped.bytes + used.scanned_bytes)
            }
            Way::Client(client) => {
                // READs have returned tree nodes, which are verified and searched.
                let counts = client.reader_statistics();
                let node_reads = counts.node_reads + counts.network_queries;
                let more = node_reads - core::mem::replace(&mut self.node_reads, node_reads);
                let searched = core.searched(self.node_bytes / TREE_ENTRY_BYTES);
                work(&core, stepped) + (core.verified(self.node_bytes) + searched) * more
            }
        };
        context.charge(Category::Communication, communication);
        context.charge(Category::Compute, compute);
        let is_busy = match self.table.way {
            Way::Local(_) => stepped.happened,
            Way::Client(_) => communication + compute > Duration::ZERO,
        };
        (is_busy && !session.is_done(&self.table)).then_some(Step::Compute(SOON))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.table.way.client()?.poll_timeout()
    }
}

impl Model {
    fn advance(&mut self, now: Instant, verbs: &mut Metered<'_>) {
        if let Way::Client(client) = &mut self.table.way {
            client.advance(now, verbs);
        }
    }
}

/// The cost of operations on an endpoint's tree, for one of the endpoint's cores.
#[derive(Clone, Copy)]
struct Price {
    server: Server,
    tree: TreeCost,
}

impl Price {
    /// For the endpoint at `node`.
    fn of(config: &RackConfig, node: NodeId, options: &IndexOptions) -> Self {
        let role = config.node.get(usize::from(node.0)).map(|node| node.role);
        // All hosts of the rack have the compute nodes' Xeon.
        let server = match role {
            Some(Role::Dpu) => Server::Dpu,
            _ => Server::Compute,
        };
        let keys = options.load.ycsb.records / u64::from(options.endpoints.max(1));
        let shape = TreeShape::grown(keys, options.node_size);
        Self {
            server,
            tree: TreeCost::new(&shape, &server.caches()),
        }
    }
}

/// A core of a node.
fn core(server: Server, cpu: &CpuModel) -> Core {
    Core {
        cpu: *cpu,
        caches: server.caches(),
    }
}

/// The cost of a request to the endpoint.
fn request(price: &Price, core: &Core, method: u16, bytes: u64) -> Duration {
    let tree = match Method::from_number(method) {
        Some(Method::Insert | Method::Update | Method::Put | Method::Delete) => price.tree.update,
        _ => price.tree.lookup,
    };
    core.work(devices::RPC_DISPATCH_CYCLES) + tree + loading(&core.cpu, bytes)
}

/// The time a core spends on a step apart from the verbs and the tree.
fn work(core: &Core, stepped: Stepped) -> Duration {
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES) * stepped.handled;
    dispatch + loading(&core.cpu, stepped.bytes)
}
