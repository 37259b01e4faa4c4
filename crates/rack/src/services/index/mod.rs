//! An index for a database: a B+tree over the endpoints of a rack, whose servers answer, whose
//! memory is read, and whose upper levels switches may know (docs/index.md, docs/in-network.md).

mod adapting;
mod connection;
mod coordinator;
mod error;
mod options;

pub use connection::IndexConnection;
pub use coordinator::IndexCoordinator;
pub use error::{CallError, IndexMoveError, IndexServiceError};
pub use options::{IndexOptions, KEYS_MAX, VALUE_MAX};

use crate::index::network::{IndexCounters, IndexNetworkError, LoadProgress, NetworkSummary};
use crate::services::wait_within;
use crate::{Index, IndexLoss, IndexSetUpError, Node, Rack, SharedServer};
use adapting::Adapting;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::index::KeyWeights;
use rackweave_endpoint::index::{
    Access, CoordinatorConfig, EndpointId, IndexClientConfig, PartitionMap,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// An index of a rack: keys are 64-bit numbers, values bytes. Clones of it are the same. A rack may
/// have several. The index goes when the last of its services and connections is dropped.
#[derive(Clone, Debug)]
pub struct IndexService(Arc<Served>);

#[derive(Debug)]
struct Served {
    rack: Rack,
    index: Mutex<Index>,
    servers: RwLock<Vec<(Node, SharedServer)>>,
    value_max: u32,
    /// Who has the switches loaded, if there is a network.
    adapting: Option<Adapting>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        for endpoint in index.endpoints() {
            self.rack.kill_index_endpoint(index, endpoint);
        }
    }
}

impl IndexService {
    /// Makes an index, which is empty.
    ///
    /// # Errors
    /// If an option is out of range, or a node or the switches lack room.
    pub fn new(rack: &Rack, options: &IndexOptions) -> Result<Self, IndexServiceError> {
        let spec = options.spec(rack.config())?;
        let mut index = rack.create_index(spec)?;
        if let Some(network) = options.network {
            let opened = rack.open_index_network(&mut index, network);
            if let Err(error) = opened {
                for endpoint in index.endpoints() {
                    rack.kill_index_endpoint(&mut index, endpoint);
                }
                return Err(error.into());
            }
        }
        let adapts = options.adapt.filter(|_| options.network.is_some());
        let service = Self(Arc::new(Served {
            rack: rack.clone(),
            servers: RwLock::new(servers(rack, &index)),
            index: Mutex::new(index),
            value_max: options.value_max,
            adapting: adapts.map(|config| Adapting::new(config, rack.now())),
        }));
        Ok(service)
    }

    /// A connection for one thread, from `node`, that reads by `access`. Writes are requests all
    /// the same.
    ///
    /// # Errors
    /// If the index has as many clients as it may have, or a node lacks room.
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

    /// The same with every setting of a client: operations at a time, parts of scans, caches,
    /// time-outs. The longest request is as the endpoints take it, whatever the configuration says.
    ///
    /// # Errors
    /// As for [`IndexService::connect`].
    pub fn connect_with(
        &self,
        node: impl Into<NodeId>,
        config: IndexClientConfig,
    ) -> Result<IndexConnection, IndexServiceError> {
        let node = node.into();
        let rack = self.rack();
        let here = rack.node_here(node).ok_or(IndexSetUpError::NoNode(node))?;
        let client = rack.add_index_client(&mut self.index(), node, config)?;
        Ok(IndexConnection::new(self.clone(), here, client))
    }

    /// Who moves keys between endpoints, at a node. Any other one of the index is to be dropped.
    ///
    /// # Errors
    /// If a node or a server lacks room.
    pub fn coordinate(
        &self,
        node: impl Into<NodeId>,
        config: CoordinatorConfig,
    ) -> Result<IndexCoordinator, IndexServiceError> {
        let node = node.into();
        let rack = self.rack();
        let here = rack.node_here(node).ok_or(IndexSetUpError::NoNode(node))?;
        let made = rack.add_index_coordinator(&mut self.index(), node, config)?;
        Ok(IndexCoordinator::new(self.clone(), here, made))
    }

    /// Loads entries into an index that is empty, without clients: much faster than inserting them.
    /// Keys must ascend.
    ///
    /// # Errors
    /// If an endpoint is not empty, has no room, or keys do not ascend. What endpoints before it
    /// got stays.
    pub fn load(
        &self,
        entries: impl IntoIterator<Item = (u64, Vec<u8>)>,
    ) -> Result<(), IndexServiceError> {
        let index = self.index();
        let mut entries = entries.into_iter().peekable();
        for part in index.map().parts() {
            let endpoint = part.endpoint;
            let gone = || crate::IndexSetUpError::NoEndpoint(endpoint);
            let shard = index.shard(endpoint).ok_or_else(gone)?;
            let here = core::iter::from_fn(|| entries.next_if(|(key, _)| *key <= part.last));
            let loaded = shard.bulk_load(here);
            loaded.map_err(|error| IndexServiceError::Load { endpoint, error })?;
        }
        Ok(())
    }

    /// Has all servers that are here answer what has come. True if there was anything. The switches
    /// are given what is asked for most meanwhile ([`IndexOptions::adapt`]). Connections do this
    /// while they wait or poll. A program with cores for it gives a thread to this and
    /// [`Progress::drive`](rackweave_verbs::Progress) in turn.
    pub fn serve(&self) -> bool {
        let servers = self
            .0
            .servers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut served = false;
        let mut now = None;
        for (node, server) in servers.iter() {
            let began = node.now();
            if node.poll(|nic| server.poll(began, nic)) {
                served = true;
                // What the rebalancer goes by; to look in vain is no work.
                server.note_busy(node.now().since(began));
            }
            now = Some(began);
        }
        if let (Some(adapting), Some(now)) = (&self.0.adapting, now) {
            adapting.look(now, &self.0.rack, &self.0.index);
        }
        served
    }

    /// Loads what the trees look like into the switches, by what is known of how often keys are
    /// asked for, and waits until that serves. To be called when an index was loaded, and again
    /// when much has changed at once: otherwise the switches follow by themselves.
    ///
    /// # Errors
    /// If the index is not in the network ([`IndexOptions::network`]), its tree nodes do not fit
    /// packets, or it is not done in time.
    pub fn load_network(&self, limit: Duration) -> Result<NetworkSummary, IndexServiceError> {
        let rack = self.rack();
        let mut weights: Option<KeyWeights> = None;
        let mut begun = false;
        let mut step = || -> Result<Option<NetworkSummary>, IndexServiceError> {
            let mut index = self.index();
            let network = index.network_mut().ok_or(IndexNetworkError::NotOpen)?;
            if !begun {
                // A load that somebody else began is ended first, and the one before retired.
                match network.step(rack)? {
                    LoadProgress::Rest => {}
                    _ => return Ok(None),
                }
                let weights = weights.get_or_insert_with(|| network.take_weights(rack));
                let progress = network.begin_load(rack, weights)?;
                begun = !matches!(progress, LoadProgress::Wait(_));
                return Ok(None);
            }
            match network.step(rack)? {
                LoadProgress::Serves | LoadProgress::Rest => Ok(Some(network.summary().clone())),
                LoadProgress::Wait(_) | LoadProgress::More => Ok(None),
            }
        };
        let done = wait_within(&rack.any_node(), limit, || step().transpose());
        done.unwrap_or(Err(IndexServiceError::TimedOut { after: limit }))
    }

    /// Why the switches could last not be given what is asked for most, if that has failed since
    /// this was asked last. It is tried again.
    pub fn take_network_error(&self) -> Option<IndexNetworkError> {
        self.0.adapting.as_ref()?.take_error()
    }

    /// What the switches have counted of queries: how deep they led them. Nothing if the index is
    /// not in the network.
    pub fn network_counters(&self) -> Option<IndexCounters> {
        let index = self.index();
        Some(index.network()?.counters(self.rack()))
    }

    /// Ends an endpoint as if its process had been killed: connections see it gone. For tests.
    pub fn kill(&self, endpoint: EndpointId) {
        self.rack().kill_index_endpoint(&mut self.index(), endpoint);
        self.look_up_servers();
    }

    /// Starts an endpoint anew, with the keys that it had and none of their values. Connections
    /// are to [`reconnect`](IndexConnection::reconnect).
    ///
    /// # Errors
    /// If its node is dead or lacks room.
    pub fn restart(&self, endpoint: EndpointId) -> Result<IndexLoss, IndexServiceError> {
        let mut index = self.index();
        let lost = self.rack().restart_index_endpoint(&mut index, endpoint);
        drop(index);
        self.look_up_servers();
        Ok(lost?)
    }

    fn look_up_servers(&self) {
        let servers = servers(self.rack(), &self.index());
        *self
            .0
            .servers
            .write()
            .unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Who has which keys now.
    pub fn map(&self) -> PartitionMap {
        self.index().map()
    }

    /// Bytes of the longest value.
    pub fn value_max(&self) -> u32 {
        self.0.value_max
    }

    /// The rack.
    pub fn rack(&self) -> &Rack {
        &self.0.rack
    }

    /// The parts of it: shards, server threads, the network. Nobody can connect while it is held.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.0.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All server threads, with their nodes.
fn servers(rack: &Rack, index: &Index) -> Vec<(Node, SharedServer)> {
    let endpoints = index.endpoints().zip(&index.spec().endpoints);
    let of_one = |(endpoint, spec): (EndpointId, &crate::IndexEndpointSpec)| {
        let servers = index.servers(endpoint).iter();
        let node = rack.node_here(spec.node)?;
        Some(servers.map(move |server| (node.clone(), server.clone())))
    };
    endpoints.filter_map(of_one).flatten().collect()
}
