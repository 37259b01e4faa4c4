//! An index for a database: a B+tree over the endpoints of a rack. Servers answer requests, clients
//! READ the endpoints' memory, and switches may hold its upper levels (docs/index.md,
//! docs/in-network.md).

mod adapting;
mod clients;
mod connection;
mod coordinator;
mod error;
mod options;
mod replicas;
mod shared;

pub use connection::IndexConnection;
pub use coordinator::IndexCoordinator;
pub use error::{CallError, IndexServiceError};
pub use options::{IndexOptions, KEYS_MAX, VALUE_MAX};

use crate::index::network::{
    IndexCounters, IndexNetworkError, IndexNetworkSpec, LoadProgress, NetworkSummary,
};
use crate::index::serving::Servers;
use crate::index::set_up;
use crate::services::name::SharedName;
use crate::services::wait_within;
use crate::{Index, IndexLoss, IndexSetUpError, IndexSpec, Node, Rack};
use adapting::Adapting;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use rackweave_base::Instant;
use rackweave_controller::index::{AdapterConfig, KeyWeights};
use rackweave_endpoint::index::{EndpointId, IndexClient, PartitionMap, Shard};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Steps of a blocking load between two rounds of driving the rack.
const STEPS_AT_ONCE: usize = 64;

/// The progress of a blocking load.
enum Loading {
    /// It has to wait for the switches.
    Waits,
    /// There is more to do.
    GoesOn,
    /// It serves queries.
    Done(Box<NetworkSummary>),
}

/// An index of a rack: keys are 64-bit numbers, values bytes. Clones are the same index. A rack may
/// have several. The index is removed when the last of its services and connections is dropped.
#[derive(Clone, Debug)]
pub struct IndexService(Arc<Served>);

#[derive(Debug)]
struct Served {
    rack: Rack,
    index: Mutex<Index>,
    /// Whether it was made here.
    is_own: bool,
    /// Whether its endpoints have replicas.
    is_replicated: bool,
    /// When to look at them next, in nanoseconds of the rack's clock.
    next_look: AtomicU64,
    servers: RwLock<Servers>,
    value_max: u32,
    /// Loads the switches, if there is a network.
    adapting: Option<Adapting>,
    /// The names by which other processes find it.
    shared: Mutex<Vec<SharedName>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.is_own {
            let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
            set_up::destroy(index);
        }
    }
}

impl IndexService {
    /// Makes an empty index.
    ///
    /// # Errors
    /// If an option is out of range, or a node or the switches lack capacity.
    pub fn new(rack: &Rack, options: &IndexOptions) -> Result<Self, IndexServiceError> {
        let spec = options.spec(rack.config())?;
        Self::with_spec(rack, spec, options.network, options.adapt)
    }

    /// The same with all settings of endpoints. `network` and `adapt` are as in [`IndexOptions`].
    ///
    /// # Errors
    /// If the specification is invalid, or a node or the switches lack capacity.
    pub fn with_spec(
        rack: &Rack,
        spec: IndexSpec,
        network: Option<IndexNetworkSpec>,
        adapt: Option<AdapterConfig>,
    ) -> Result<Self, IndexServiceError> {
        let adapt = adapt.filter(|_| network.is_some());
        let made = Self::of(rack, set_up::create(rack, spec)?, true, adapt);
        if let Some(network) = network {
            made.open_network(network)?;
        }
        made.keep_on_a_thread();
        Ok(made)
    }

    /// Opens an index to the network that was not opened when it was made. Existing connections
    /// take part, as will later ones.
    ///
    /// # Errors
    /// If no switch leads queries, or has capacity for the endpoints and their clients.
    pub fn open_network(&self, spec: IndexNetworkSpec) -> Result<(), IndexSetUpError> {
        set_up::open_network(self.rack(), &mut self.index(), spec)
    }

    fn of(rack: &Rack, index: Index, is_own: bool, adapt: Option<AdapterConfig>) -> Self {
        let endpoints = &index.spec().endpoints;
        let value_max = endpoints.first().map_or(0, |spec| spec.tree.value_max);
        Self(Arc::new(Served {
            rack: rack.clone(),
            servers: RwLock::new(servers_of(rack, &index)),
            value_max,
            is_own,
            is_replicated: !index.spec().replicas.is_empty(),
            next_look: AtomicU64::new(0),
            index: Mutex::new(index),
            adapting: adapt.map(|config| Adapting::new(config, rack.now())),
            shared: Mutex::default(),
        }))
    }

    /// Loads entries into an empty index without clients: much faster than inserting them. Keys
    /// must ascend.
    ///
    /// # Errors
    /// If an endpoint is not empty or lacks capacity, or keys do not ascend. Entries already loaded
    /// into earlier endpoints stay.
    pub fn load<V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<(), IndexServiceError> {
        let mut index = self.index();
        let mut entries = entries.into_iter().peekable();
        for part in index.map().parts() {
            let endpoint = part.endpoint;
            let here = core::iter::from_fn(|| entries.next_if(|(key, _)| *key <= part.last));
            let loaded = set_up::load(&mut index, endpoint, here);
            loaded.map_err(|error| match error {
                IndexSetUpError::Tree(error) => IndexServiceError::Load { endpoint, error },
                error => error.into(),
            })?;
        }
        Ok(())
    }

    /// Has all servers that are here answer pending requests. Returns true if there were any.
    /// Meanwhile the switches are loaded with what is asked for most ([`IndexOptions::adapt`]).
    /// Connections do this while they wait or poll. A program with spare cores gives a thread to
    /// this and [`Progress::drive`](rackweave_verbs::Progress) in turn.
    pub fn serve(&self) -> bool {
        let servers = self.0.servers.read();
        let servers = servers.unwrap_or_else(PoisonError::into_inner);
        let served = servers.serve();
        drop(servers);
        if self.0.adapting.is_some() {
            self.adapt(self.rack().now());
        }
        self.look_at_replicas();
        served
    }

    /// Checks whether the switches still know what is asked for most, and continues to load what is
    /// worthwhile, if that is due and no other thread is doing it. [`IndexService::serve`] does
    /// this; a program that polls the servers in another way calls it now and then.
    pub fn adapt(&self, now: Instant) {
        if let Some(adapting) = &self.0.adapting {
            adapting.look(now, self.rack(), &self.0.index);
        }
    }

    /// Takes the keys that a client has sampled, if the next check of the switches is due.
    fn take_sample(&self, node: &Node, client: &mut IndexClient) {
        if let Some(adapting) = &self.0.adapting {
            adapting.take_sample(node.now(), client);
        }
    }

    /// Loads the trees' outlines into the switches, by the known frequency of keys, and waits until
    /// they serve. To be called after an index was loaded, and again after large changes: otherwise
    /// the switches adapt by themselves.
    ///
    /// # Errors
    /// If the index is not in the network ([`IndexOptions::network`]), its tree nodes do not fit
    /// packets, or the time limit expires.
    pub fn load_network(&self, limit: Duration) -> Result<NetworkSummary, IndexServiceError> {
        self.load_network_by(None, limit)
    }

    /// The same with other weights of keys.
    ///
    /// # Errors
    /// As for [`IndexService::load_network`].
    pub fn load_network_for(
        &self,
        weights: KeyWeights,
        limit: Duration,
    ) -> Result<NetworkSummary, IndexServiceError> {
        self.load_network_by(Some(weights), limit)
    }

    fn load_network_by(
        &self,
        mut weights: Option<KeyWeights>,
        limit: Duration,
    ) -> Result<NetworkSummary, IndexServiceError> {
        let rack = self.rack();
        let mut begun = false;
        let mut step = || -> Result<Loading, IndexServiceError> {
            let mut index = self.index();
            let network = index.network_mut().ok_or(IndexNetworkError::NotOpen)?;
            let progress = network.step(rack)?;
            if begun {
                return Ok(match progress {
                    LoadProgress::Serves | LoadProgress::Rest => {
                        Loading::Done(Box::new(network.summary().clone()))
                    }
                    LoadProgress::Wait(_) => Loading::Waits,
                    LoadProgress::More => Loading::GoesOn,
                });
            }
            // A load that another thread began is completed first, and the previous one retired.
            match progress {
                LoadProgress::Rest => {}
                LoadProgress::Wait(_) => return Ok(Loading::Waits),
                _ => return Ok(Loading::GoesOn),
            }
            let weights = weights.get_or_insert_with(|| network.take_weights(rack));
            let progress = network.begin_load(rack, weights)?;
            begun = !matches!(progress, LoadProgress::Wait(_));
            Ok(Loading::GoesOn)
        };
        let done = wait_within(&rack.any_node(), limit, || {
            for _ in 0..STEPS_AT_ONCE {
                match step() {
                    Ok(Loading::GoesOn) => {}
                    Ok(Loading::Waits) => return None,
                    Ok(Loading::Done(summary)) => return Some(Ok(*summary)),
                    Err(error) => return Some(Err(error)),
                }
            }
            None
        });
        done.unwrap_or(Err(IndexServiceError::TimedOut { after: limit }))
    }

    /// Why the last automatic load of the switches failed, if one has failed since the previous
    /// call. It is retried.
    pub fn take_network_error(&self) -> Option<IndexNetworkError> {
        self.0.adapting.as_ref()?.take_error()
    }

    /// The switches' counters of queries: how deep they led them. `None` if the index is not in the
    /// network.
    pub fn network_counters(&self) -> Option<IndexCounters> {
        let index = self.index();
        Some(index.network()?.counters(self.rack()))
    }

    /// Ends an endpoint as if its process had been killed: connections see that it is gone. For
    /// tests.
    pub fn kill(&self, endpoint: EndpointId) {
        set_up::kill(&mut self.index(), endpoint);
        self.look_up_servers();
    }

    /// Restarts an endpoint with the keys that it had, also one that runs. If it has a replica with
    /// all values ([`IndexOptions::copies`]), it starts in place of that, and nothing is lost; else
    /// without values. Connections have to [`reconnect`](IndexConnection::reconnect).
    ///
    /// # Errors
    /// If its node is dead or lacks capacity, or if it may still run although it does not answer.
    /// If its process is another one and the controller does not answer, it may have been restarted
    /// all the same.
    pub fn restart(&self, endpoint: EndpointId) -> Result<IndexLoss, IndexServiceError> {
        self.start_anew(endpoint, None)
    }

    /// The same where its memory is preserved: with what its shard had when it ended.
    ///
    /// # Errors
    /// As for [`IndexService::restart`], or if its tree is damaged.
    pub fn restart_with(
        &self,
        endpoint: EndpointId,
        kept: &Shard,
    ) -> Result<IndexLoss, IndexServiceError> {
        self.start_anew(endpoint, Some(kept))
    }

    fn start_anew(
        &self,
        endpoint: EndpointId,
        kept: Option<&Shard>,
    ) -> Result<IndexLoss, IndexServiceError> {
        let lost = set_up::restart(&mut self.index(), endpoint, kept);
        self.look_up_servers();
        Ok(lost?)
    }

    fn look_up_servers(&self) {
        let servers = servers_of(self.rack(), &self.index());
        let place = self.0.servers.write();
        *place.unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// The current assignment of keys to endpoints.
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

    /// The parts of the index: shards, server threads, the network. No client can connect while it
    /// is locked.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.0.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server threads of the endpoints that are here.
fn servers_of(rack: &Rack, index: &Index) -> Servers {
    let mut servers = Servers::default();
    servers.add(rack, &rack.agent(), index.number());
    servers
}
