//! A replica of an endpoint, at its node.

use super::IndexSetUpError;
use super::agent::ReplicaStart;
use super::running::new_tree;
use super::set_up::on_node;
use super::shared::{Shared, SharedReplica};
use crate::Rack;
use rackweave_base::{NodeId, Qpn};
use rackweave_endpoint::btree::{Tree, TreeError};
use rackweave_endpoint::index::{EndpointId, PartitionMap, Replica, ReplicaServer, ReplicaThread};
use rackweave_endpoint::rpc::{Server, ServerConfig};
use rackweave_wire::fabric::rpc::PAYLOAD_MAX;
use std::sync::Arc;

/// Bytes that a request to a replica has more than the client's, at most.
const EPOCH_BYTES: u32 = 64;

/// Length of the longest request to a replica, if clients' have this length.
pub(super) fn payload_max(of_clients: u32) -> u32 {
    of_clients
        .saturating_add(EPOCH_BYTES)
        .min(PAYLOAD_MAX as u32)
}

/// A replica with its server threads.
#[derive(Debug)]
pub(super) struct ReplicaHere {
    pub epoch: u64,
    pub node: NodeId,
    /// The incarnation of the node when it started.
    incarnation: u64,
    replica: Arc<Replica>,
    threads: Vec<SharedReplica>,
    /// The queue pairs to the endpoint's threads, each with the server thread that has it.
    pairs: Vec<(usize, Qpn)>,
}

impl ReplicaHere {
    /// Makes an empty replica, with a queue pair for each thread of the endpoint.
    pub fn start(
        rack: &Rack,
        endpoint: EndpointId,
        epoch: u64,
        how: &ReplicaStart,
    ) -> Result<Self, IndexSetUpError> {
        let (spec, node) = (&how.spec, how.spec.node);
        // The bounds are extended to all keys.
        let tree = new_tree(rack, spec, None, how.name(endpoint))?;
        let mut here = Self {
            epoch,
            node,
            incarnation: rack.backend().incarnation(node),
            replica: Arc::new(Replica::new(tree, epoch)?),
            threads: Vec::new(),
            pairs: Vec::new(),
        };
        let made = on_node(rack, node, |verbs| {
            let pd = verbs.create_pd();
            for at in 0..spec.threads {
                let config = ServerConfig {
                    clients_max: how.threads.div_ceil(spec.threads.max(1)),
                    payload_max: payload_max(spec.server.payload_max),
                    incarnation: (how.name(endpoint) << 8) | (u64::from(at) + 1),
                    ..spec.server
                };
                let rpc = Server::new(verbs, rack.memory(), pd, config)?;
                let service = ReplicaServer::new(here.replica.clone());
                let thread = ReplicaThread { rpc, service };
                here.threads.push(Shared::new(thread));
            }
            for at in 0..usize::from(how.threads) {
                let at = at % here.threads.len();
                let mut thread = here.threads[at].lock();
                let thread = thread.as_mut().expect("nobody has stopped it");
                here.pairs.push((at, thread.rpc.accept(verbs)?));
            }
            Ok(())
        });
        match made {
            Ok(()) => Ok(here),
            Err(error) => {
                here.stop(rack);
                Err(error)
            }
        }
    }

    /// Whether its node was not declared dead since it started.
    pub fn is_member(&self, rack: &Rack) -> bool {
        rack.backend().incarnation(self.node) == self.incarnation
    }

    /// The queue pairs to be connected to those of the endpoint's threads, in their order.
    pub fn pairs(&self) -> Vec<(NodeId, Qpn)> {
        let pairs = self.pairs.iter();
        pairs.map(|(_, qpn)| (self.node, *qpn)).collect()
    }

    /// They are connected: requests will arrive.
    pub fn open(&self, rack: &Rack) -> Result<(), IndexSetUpError> {
        on_node(rack, self.node, |verbs| {
            for (at, qpn) in &self.pairs {
                if let Some(thread) = self.threads[*at].lock().as_mut() {
                    thread.rpc.connected(verbs, *qpn)?;
                }
            }
            Ok(())
        })
    }

    /// The newest map that it knows.
    pub fn map(&self) -> Option<PartitionMap> {
        self.replica.map()
    }

    /// Its server threads.
    pub fn threads(&self) -> impl Iterator<Item = &SharedReplica> {
        self.threads.iter()
    }

    /// Ends it and returns its tree, with all keys that it has.
    pub fn promote(self, rack: &Rack) -> Result<Option<Tree>, TreeError> {
        let tree = self.replica.promote(0, u64::MAX);
        self.stop(rack);
        tree
    }

    /// Frees its resources.
    pub fn stop(self, rack: &Rack) {
        rack.on_node(self.node, |verbs| {
            for thread in &self.threads {
                if let Some(thread) = thread.lock().take() {
                    thread.rpc.close(verbs);
                }
            }
        });
        // A dead node has nothing left to free, but its threads end.
        for thread in &self.threads {
            thread.lock().take();
        }
    }
}
