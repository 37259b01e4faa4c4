//! The index on the testbed: a shard in the host's memory, one in the DPU's, their server threads,
//! and clients on the compute node.

use super::threads::{Mix, Prices, client, serving};
use super::{attributes, testbed, tree};
use crate::harness::prelude::*;
use crate::harness::tally::Seen;
use rackweave_endpoint::index::{Access, EndpointId, IndexClientConfig, ReaderConfig};
use rackweave_rack::{IndexEndpointSpec, IndexSpec};

/// The endpoints: the host's and the DPU's.
pub const ENDPOINTS: [(EndpointId, Server); 2] =
    [(EndpointId(0), Server::Host), (EndpointId(1), Server::Dpu)];

/// Maximum number of completions that a server thread takes at once. Assumed; replies of a batch to
/// one client share a doorbell.
const SERVER_BATCH: u16 = 16;

/// Maximum bytes of a request or reply: a key and a value.
const PAYLOAD_MAX: u32 = 64;

/// Timeout of clients; nothing is lost.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct IndexPlan {
    /// Keys in the real trees, from 0 on.
    pub keys: u64,
    /// Keys that each real key stands for in the cost of operations.
    pub scale: u64,
    /// The share of the keys on the DPU, the greatest ones.
    pub offload: f64,
    /// Bytes of a tree node.
    pub node_bytes: u32,
    pub access: Access,
    /// Threads of the compute node.
    pub clients: u16,
    /// Operations in flight of each client.
    pub operations: u16,
    pub mix: Mix,
    /// When the DPU's cores become slower, if they do.
    pub dpu_slower_from: Option<Instant>,
    /// The longest request or reply.
    pub payload_max: u32,
    /// Minimum capacity of each tree in keys, if keys are to move.
    pub capacity: u64,
    pub span: Span,
}

impl IndexPlan {
    /// The paper's threads, with requests and reads only, over `keys` real keys.
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
            dpu_slower_from: None,
            payload_max: PAYLOAD_MAX,
            capacity: 0,
            span: Span::new(Duration::from_micros(50), Duration::from_micros(800)),
        }
    }

    pub fn counted(mut self, counted: Duration) -> Self {
        self.span.counted = counted;
        self
    }

    fn server(&self) -> rpc::ServerConfig {
        rpc::ServerConfig {
            clients_max: self.clients + 4,
            receives: self.operations.max(8) * 2,
            payload_max: self.payload_max,
            // One request per message, as in the paper.
            batch_bytes: 0,
            completions_max: SERVER_BATCH,
            ..rpc::ServerConfig::new(1)
        }
    }

    fn client(&self) -> IndexClientConfig {
        IndexClientConfig {
            operations: self.operations,
            access: self.access,
            rpc: rpc::ClientConfig {
                window: self.operations,
                batch_bytes: 0,
                timeout: PATIENCE,
                ..rpc::ClientConfig::default()
            },
            reader: ReaderConfig {
                walks: self.operations,
                records: 1,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        }
    }

    fn map(&self) -> Result<PartitionMap> {
        let first = self.keys - (self.keys as f64 * self.offload).round() as u64;
        let map = match first {
            first if first == self.keys => PartitionMap::whole(2, EndpointId(0)),
            first => PartitionMap::split(&[first]),
        };
        map.or_failed("the partition map")
    }
}

/// The index, before its threads start.
pub struct Index {
    pub rack: Testbed,
    pub service: IndexService,
    plan: IndexPlan,
    rng: Rng,
}

impl Index {
    /// Loads the trees and creates the server threads.
    pub fn new(seed: u64, plan: &IndexPlan) -> Result<Self> {
        // Trees are a half to nine tenths full; the rest is connection buffers.
        let keys = plan.keys + 2 * plan.capacity;
        let memory_bytes = 4 * keys * tree::ENTRY_BYTES + (512 << 20);
        let rack = testbed(seed, memory_bytes)?;
        let map = plan.map()?;
        let endpoint = |(id, server): (EndpointId, Server)| {
            let keys = map.part_of(id).map_or(0, |part| {
                plan.keys.min(part.last.saturating_add(1)) - part.low
            });
            let keys = keys.max(plan.capacity).max(1);
            IndexEndpointSpec {
                ports: devices::CARD_PORTS,
                threads: server.threads(),
                server: plan.server(),
                ..IndexEndpointSpec::new(
                    server.at_port(0),
                    TreeConfig::for_keys(keys, plan.node_bytes, 8),
                )
            }
        };
        let endpoints = ENDPOINTS.map(endpoint).into();
        let spec = IndexSpec {
            attributes: attributes(),
            ..IndexSpec::new(endpoints, map)
        };
        let service = IndexService::with_spec(&rack, spec, None, None).or_failed("the index")?;
        service.load(tree::entries(plan.keys)).or_failed("a tree")?;
        Ok(Self {
            rack,
            service,
            plan: plan.clone(),
            rng: Rng::new(seed).fork("bluefield"),
        })
    }

    pub fn start(&mut self, tally: &Shared) -> Result<()> {
        let plan = &self.plan;
        for index in 0..plan.clients {
            let node = Server::Compute.of_thread(index);
            let made = self.service.client(node, plan.client());
            let made = made.or_failed("a client")?;
            let rng = self.rng.fork(&format!("client {index}"));
            self.rack
                .spawn(node, client(made, plan.mix.clone(), rng, tally.clone()));
        }
        let prices = ENDPOINTS
            .map(|(_, server)| Prices::new(server, plan.keys, plan.scale, plan.node_bytes));
        for (endpoint, node, server) in self.service.index().servers() {
            let of = endpoint.index();
            let slower_from = plan.dpu_slower_from;
            let slower_from = slower_from.filter(|_| ENDPOINTS[of].1 == Server::Dpu);
            let serving = serving(server.clone(), prices[of].clone(), slower_from);
            self.rack.spawn(node, serving);
        }
        Ok(())
    }
}

/// Builds the index and measures it.
pub fn measure(run: &mut Run<'_>, plan: &IndexPlan) -> Result<Seen> {
    let mut index = Index::new(run.seed, plan)?;
    let tally = Tally::new(index.rack.now(), plan.span);
    index.start(&tally)?;
    Tally::run(&tally, run, &mut index.rack)
}
