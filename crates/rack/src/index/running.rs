//! An endpoint that runs: shard, regions, server threads.

use super::set_up::on_node;
use super::{IndexEndpointSpec, IndexSetUpError, SharedServer};
use crate::Rack;
use rackweave_base::Qpn;
use rackweave_endpoint::btree::{Tree, TreeConfig};
use rackweave_endpoint::index::{
    EndpointId, IndexServer, PartitionMap, RemoteTree, ServerThread, Shard,
};
use rackweave_endpoint::rpc::{RpcError, Server, ServerConfig};
use rackweave_verbs::{Access, CqId, PdId, Region, Verbs};
use std::sync::{Arc, Mutex};

/// An endpoint that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub shard: Arc<Shard>,
    pub remote: RemoteTree,
    pub pd: PdId,
    /// Of queue pairs that only answer READs.
    pub cq: CqId,
    pub regions: [Region; 2],
    pub threads: Vec<SharedServer>,
    pub readers: Vec<Qpn>,
    /// Clients connected so far.
    pub clients: usize,
}

impl Running {
    /// Makes shard and server threads of an endpoint.
    pub fn start(
        rack: &Rack,
        spec: &IndexEndpointSpec,
        endpoint: EndpointId,
        map: &PartitionMap,
    ) -> Result<Self, IndexSetUpError> {
        if spec.threads == 0 {
            return Err(IndexSetUpError::NoThreads(endpoint));
        }
        let memory = rack.memory().clone();
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
                    incarnation: (name << 8) | (u64::from(at) + 1),
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
    pub fn stop(self, verbs: &mut dyn Verbs) {
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
