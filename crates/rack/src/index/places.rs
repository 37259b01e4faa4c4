//! The nodes that endpoints are at.

use super::agent::{EndpointReply, EndpointRequest, ReplicaRequest};
use super::{Index, IndexSetUpError, ask};
use core::sync::atomic::Ordering;
use rackweave_base::NodeId;
use rackweave_endpoint::index::EndpointId;

impl Index {
    /// Sends a request to the replica of an endpoint, at a node.
    pub(super) fn ask_replica(
        &self,
        endpoint: EndpointId,
        (node, epoch): (NodeId, u64),
        request: ReplicaRequest,
    ) -> Result<EndpointReply, IndexSetUpError> {
        let request = EndpointRequest::Replica { epoch, request };
        ask(&self.rack, (self.name(endpoint), node), request)
    }

    /// The node of an endpoint, as far as it is known here.
    pub(crate) fn place(&self, endpoint: EndpointId) -> NodeId {
        NodeId(self.places[endpoint.index()].load(Ordering::Relaxed))
    }

    pub(super) fn set_place(&self, endpoint: EndpointId, node: NodeId) {
        self.places[endpoint.index()].store(node.0, Ordering::Relaxed);
    }

    /// The nodes that an endpoint may be at, its present one first.
    pub(super) fn places(&self, endpoint: EndpointId) -> Vec<NodeId> {
        let mut nodes = vec![self.place(endpoint)];
        let first = self.spec.endpoints[endpoint.index()].node;
        for node in self.spec.replicas.iter().copied().chain([first]) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Looks where an endpoint runs that has left the place that is known here. The process that
    /// has made the index knows all places.
    pub(crate) fn find_again(&self, endpoint: EndpointId) -> bool {
        if self.is_own {
            return false;
        }
        let runs_at = |node: &NodeId| {
            let reply = ask(
                &self.rack,
                (self.name(endpoint), *node),
                EndpointRequest::Map,
            );
            matches!(reply, Ok(EndpointReply::Map(_)))
        };
        let found = self.places(endpoint).into_iter().find(runs_at);
        if let Some(node) = found {
            self.set_place(endpoint, node);
        }
        found.is_some()
    }
}
