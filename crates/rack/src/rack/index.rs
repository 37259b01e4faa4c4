//! Indexes on a rack.

use super::Rack;
use crate::index::network::IndexNetworkSpec;
use crate::index::set_up::{
    add_client, add_coordinator, attach, attach_coordinator, create, kill, open_network, restart,
};
use crate::index::{Index, IndexLoss, IndexSetUpError, IndexSpec};
use rackweave_base::NodeId;
use rackweave_endpoint::index::{
    Coordinator, CoordinatorConfig, EndpointId, IndexClient, IndexClientConfig,
};

impl Rack {
    /// Sets an index up.
    ///
    /// # Errors
    /// If the specification makes no sense, or a node lacks room.
    pub fn create_index(&self, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
        create(self, spec)
    }

    /// A client on `node` for one thread, connected to all endpoints of an index. The longest
    /// request is what the endpoints take, whatever `config` says.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_client(
        &self,
        index: &mut Index,
        node: NodeId,
        config: IndexClientConfig,
    ) -> Result<IndexClient, IndexSetUpError> {
        add_client(self, index, node, config)
    }

    /// Connects a client on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`Rack::add_index_client`].
    pub fn attach_index_client(
        &self,
        index: &mut Index,
        node: NodeId,
        client: &mut IndexClient,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach(self, index, node, client, endpoint)
    }

    /// A coordinator on `node`, connected to all endpoints of an index that are not dead. Any other
    /// one of the index is to be gone.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn add_index_coordinator(
        &self,
        index: &mut Index,
        node: NodeId,
        config: CoordinatorConfig,
    ) -> Result<Coordinator, IndexSetUpError> {
        add_coordinator(self, index, node, config)
    }

    /// Connects a coordinator on `node` to an endpoint anew, after that was restarted.
    ///
    /// # Errors
    /// As for [`Rack::add_index_coordinator`].
    pub fn attach_index_coordinator(
        &self,
        index: &mut Index,
        node: NodeId,
        coordinator: &mut Coordinator,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        attach_coordinator(self, index, node, coordinator, endpoint)
    }

    /// Ends an endpoint as if its process had been killed: its clients see it gone.
    pub fn kill_index_endpoint(&self, index: &mut Index, endpoint: EndpointId) {
        kill(self, index, endpoint);
    }

    /// Starts an endpoint anew, with the keys that it had and none of their values: nobody else
    /// has them. Clients are to be attached again.
    ///
    /// # Errors
    /// If its node is dead or lacks room.
    pub fn restart_index_endpoint(
        &self,
        index: &mut Index,
        endpoint: EndpointId,
    ) -> Result<IndexLoss, IndexSetUpError> {
        restart(self, index, endpoint)
    }

    /// Opens an index to the network: clients with [`Access::InNetwork`] are led by the switches
    /// once a plan has been loaded.
    ///
    /// # Errors
    /// If no switch leads queries, or has room for the endpoints and their clients.
    ///
    /// [`Access::InNetwork`]: rackweave_endpoint::index::Access::InNetwork
    pub fn open_index_network(
        &self,
        index: &mut Index,
        spec: IndexNetworkSpec,
    ) -> Result<(), IndexSetUpError> {
        open_network(self, index, spec)
    }
}
