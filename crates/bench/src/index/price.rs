//! Costs of operations on a simulated core.
//!
//! All hosts of the rack have the compute nodes' Xeon. The cost of trees is derived from the
//! initial number of records.

use super::options::IndexOptions;
use crate::harness::work::Core;
use crate::ycsb::Stepped;
use crate::ycsb::simulated::loading;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::index::message::Method;
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;
use rackweave_sim::testbed::Server;
use rackweave_sim::{CpuModel, TreeCost, TreeShape, devices};

/// The cost of operations on an endpoint's tree, for one of the endpoint's cores.
#[derive(Clone, Copy)]
pub(super) struct Price {
    pub server: Server,
    pub tree: TreeCost,
}

impl Price {
    /// For the endpoint at `node`.
    pub fn of(config: &RackConfig, node: NodeId, options: &IndexOptions) -> Self {
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
pub(super) fn core(server: Server, cpu: &CpuModel) -> Core {
    Core {
        cpu: *cpu,
        caches: server.caches(),
    }
}

/// The cost of a request to the endpoint.
pub(super) fn request(price: &Price, core: &Core, method: u16, bytes: u64) -> Duration {
    let tree = match Method::from_number(method) {
        Some(Method::Insert | Method::Update | Method::Put | Method::Delete) => price.tree.update,
        _ => price.tree.lookup,
    };
    core.work(devices::RPC_DISPATCH_CYCLES) + tree + loading(&core.cpu, bytes)
}

/// The time a core spends on a step apart from the verbs and the tree.
pub(super) fn work(core: &Core, stepped: Stepped) -> Duration {
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES) * stepped.handled;
    dispatch + loading(&core.cpu, stepped.bytes)
}
