//! Clients and coordinators of an index: how they are connected to its endpoints, and released.

use super::adapting::SAMPLED;
use super::{IndexConnection, IndexCoordinator, IndexService, IndexServiceError};
use crate::index::{Attach, Attached, set_up};
use crate::{Address, IndexSetUpError, Node};
use rackweave_base::NodeId;
use rackweave_endpoint::index::{
    Access, Coordinator, CoordinatorConfig, DatagramClient, DatagramClientConfig, EndpointId,
    IndexClient, IndexClientConfig, PartitionMap,
};

impl IndexService {
    /// A connection for one thread, from `node`, that reads by `access`. Writes are always
    /// requests.
    ///
    /// # Errors
    /// If the index has its maximum number of clients, or a node lacks capacity.
    pub fn connect(
        &self,
        node: impl Into<NodeId>,
        access: Access,
    ) -> Result<IndexConnection, IndexServiceError> {
        let config = IndexClientConfig {
            access,
            ..IndexClientConfig::default()
        };
        self.connect_with(node, config)
    }

    /// The same with all settings of a client: operations in flight, parts of scans, caches,
    /// timeouts. The longest request is that of the endpoints, whatever the configuration says.
    ///
    /// # Errors
    /// As for [`IndexService::connect`].
    pub fn connect_with(
        &self,
        node: impl Into<NodeId>,
        config: IndexClientConfig,
    ) -> Result<IndexConnection, IndexServiceError> {
        let mut config = config;
        if self.0.adapting.is_some() && config.sample.every == 0 {
            config.sample.every = SAMPLED;
        }
        let client = self.client(node, config)?;
        let here = self.rack().node_at(client.node());
        Ok(IndexConnection::new(self.clone(), here, client.into()))
    }

    /// A connection for one thread, from `node`, whose requests are UDP datagrams
    /// ([`IndexOptions::datagrams`](super::IndexOptions::datagrams)): neither side keeps connection
    /// state, and switches may lead the requests.
    ///
    /// # Errors
    /// If the index does not answer datagrams, or the node has no port.
    pub fn connect_by_datagrams(
        &self,
        node: impl Into<NodeId>,
    ) -> Result<IndexConnection, IndexServiceError> {
        let node = node.into();
        let here = self.here(node)?;
        let number = self.rack().random_number();
        let client = self.datagram_client(node, DatagramClientConfig::new(number))?;
        Ok(IndexConnection::new(self.clone(), here, client.into()))
    }

    /// A coordinator that moves keys between endpoints, at a node. Any other coordinator of the
    /// index has to be dropped first.
    ///
    /// # Errors
    /// If a node or a server lacks capacity.
    pub fn coordinate(
        &self,
        node: impl Into<NodeId>,
        config: CoordinatorConfig,
    ) -> Result<IndexCoordinator, IndexServiceError> {
        let made = self.coordinator(node, config)?;
        let here = self.rack().node_at(made.node());
        Ok(IndexCoordinator::new(self.clone(), here, made))
    }

    /// A client on `node` that the caller polls, connected to all endpoints that are not dead. It
    /// is returned by [`IndexService::release`].
    ///
    /// # Errors
    /// As for [`IndexService::connect`].
    pub fn client(
        &self,
        node: impl Into<NodeId>,
        mut config: IndexClientConfig,
    ) -> Result<Attached<IndexClient>, IndexSetUpError> {
        let index = self.index();
        // Both ends must have the same value.
        config.rpc.payload_max = index.payload_max();
        config.reader.mtu = index.spec().attributes.mtu;
        let client = IndexClient::new(index.map(), config);
        set_up::attach_all(self.rack(), &index, node.into(), client)
    }

    /// The same for a coordinator.
    ///
    /// # Errors
    /// As for [`IndexService::coordinate`].
    pub fn coordinator(
        &self,
        node: impl Into<NodeId>,
        mut config: CoordinatorConfig,
    ) -> Result<Attached<Coordinator>, IndexSetUpError> {
        let index = self.index();
        config.rpc.payload_max = index.payload_max();
        let coordinator = Coordinator::new(index.map(), config);
        set_up::attach_all(self.rack(), &index, node.into(), coordinator)
    }

    /// A client for datagrams on `node`, which the caller polls.
    ///
    /// # Errors
    /// As for [`IndexService::connect_by_datagrams`].
    pub fn datagram_client(
        &self,
        node: impl Into<NodeId>,
        config: DatagramClientConfig,
    ) -> Result<DatagramClient, IndexSetUpError> {
        self.datagram_client_by(self.map(), node, config)
    }

    /// The same with a map that may be outdated.
    pub(crate) fn datagram_client_by(
        &self,
        map: PartitionMap,
        node: impl Into<NodeId>,
        config: DatagramClientConfig,
    ) -> Result<DatagramClient, IndexSetUpError> {
        let index = self.index();
        let node = self.here(node.into())?;
        let port = index.spec().datagrams.ok_or(IndexSetUpError::NoDatagrams)?;
        let made = node.with(|verbs| {
            let datagrams = verbs.datagrams().ok_or(IndexSetUpError::NoDatagrams)?;
            Ok::<_, IndexSetUpError>(DatagramClient::new(datagrams, map, config)?)
        });
        let mut client = made?;
        for endpoint in index.endpoints() {
            let node = Address::of_node(index.place(endpoint));
            client.attach(endpoint, (node.ip, port.port))?;
        }
        Ok(client)
    }

    /// Has a client for datagrams ask an endpoint where it is now.
    pub(super) fn attach_datagrams(
        &self,
        client: &mut DatagramClient,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        let index = self.index();
        let port = index.spec().datagrams.ok_or(IndexSetUpError::NoDatagrams)?;
        index.find_again(endpoint);
        let node = Address::of_node(index.place(endpoint));
        Ok(client.attach(endpoint, (node.ip, port.port))?)
    }

    /// Reconnects a client or coordinator to an endpoint that was restarted, or whose connection
    /// broke. Operations pending there end with an error.
    ///
    /// # Errors
    /// If the endpoint is dead, or there is no capacity.
    pub fn attach<T: Attach>(
        &self,
        attached: &mut Attached<T>,
        endpoint: EndpointId,
    ) -> Result<(), IndexSetUpError> {
        set_up::attach(self.rack(), &self.index(), attached, endpoint)
    }

    /// Frees a client or coordinator, and its resources at the endpoints.
    pub fn release<T: Attach>(&self, attached: Attached<T>) {
        set_up::release(self.rack(), &self.index(), attached);
    }

    /// Frees the endpoints' resources of a client or coordinator whose node has died.
    pub fn forget<T>(&self, attached: &mut Attached<T>) {
        set_up::forget(&self.index(), attached);
    }

    fn here(&self, node: NodeId) -> Result<Node, IndexSetUpError> {
        let here = self.rack().node_here(node);
        here.ok_or(IndexSetUpError::NoNode(node))
    }
}
