//! What things cost a simulated core.
//!
//! Hosts of this rack are alike: the compute nodes' Xeon. What trees cost comes from the number of
//! records at the start.

use super::options::IndexOptions;
use super::session::Stepped;
use crate::experiment::bluefield::Core;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_endpoint::index::IndexServer;
use rackweave_endpoint::index::message::Method;
use rackweave_endpoint::rpc::{Service, Status, Writer};
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;
use rackweave_sim::testbed::Server;
use rackweave_sim::{CpuModel, TreeCost, TreeShape, devices};

/// What operations on the tree of an endpoint cost one of its cores.
#[derive(Clone, Copy)]
pub(super) struct Price {
    pub server: Server,
    pub tree: TreeCost,
}

impl Price {
    /// For the endpoint at `node`.
    pub fn of(config: &RackConfig, node: NodeId, options: &IndexOptions) -> Self {
        let role = config.node.get(usize::from(node.0)).map(|node| node.role);
        // The hosts of this rack are alike: the compute nodes' Xeon.
        let server = match role {
            Some(Role::Dpu) => Server::Dpu,
            _ => Server::Compute,
        };
        let keys = options.ycsb.records / u64::from(options.endpoints.max(1));
        let shape = TreeShape::grown(keys, options.node_size);
        Self {
            server,
            tree: TreeCost::new(&shape, &server.caches()),
        }
    }
}

/// A core of a node.
pub(super) fn core(server: Server, cpu: &CpuModel) -> Core {
    Core {
        cpu: *cpu,
        caches: server.caches(),
    }
}

/// Loading bytes of records that lie one behind the other.
pub(super) fn loaded(cpu: &CpuModel, bytes: u64) -> Duration {
    let lines = bytes.div_ceil(devices::HOST_LINE_BYTES);
    let nanos = lines * cpu.memory_latency.as_nanos() / devices::HOST_LINES_IN_FLIGHT;
    Duration::from_nanos(nanos)
}

/// A service that notes what its work costs.
pub(super) struct Priced<'a> {
    pub service: &'a mut IndexServer,
    pub price: Price,
    pub core: Core,
    pub spent: Duration,
}

impl Service for Priced<'_> {
    fn serve(
        &mut self,
        now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        let status = self.service.serve(now, client, method, request, reply);
        self.spent += self.core.work(devices::RPC_DISPATCH_CYCLES);
        self.spent += match Method::from_number(method) {
            Some(Method::Insert | Method::Update | Method::Put | Method::Delete) => {
                self.price.tree.update
            }
            _ => self.price.tree.lookup,
        };
        let bytes = (request.len() + reply.len()) as u64;
        self.spent += loaded(&self.core.cpu, bytes);
        status
    }

    fn left(&mut self, client: u32) {
        self.service.left(client);
    }
}

/// What a core spends on a step beside the verbs and the tree.
pub(super) fn work(core: &Core, stepped: Stepped) -> Duration {
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES) * stepped.messages;
    dispatch + loaded(&core.cpu, stepped.bytes)
}
