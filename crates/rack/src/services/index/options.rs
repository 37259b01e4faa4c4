//! Options of an index.

use super::IndexServiceError;
use crate::config::{RackConfig, Role};
use crate::index::network::BRANCHES;
use crate::{IndexEndpointSpec, IndexNetworkSpec, IndexSpec};
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::index::AdapterConfig;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_endpoint::index::{DatagramServerConfig, PartitionMap};
use rackweave_endpoint::rpc::ServerConfig;
use rackweave_verbs::Mtu;

/// Maximum length of a value, in bytes: a request holds 65535 bytes, including its own header.
pub const VALUE_MAX: u32 = 65_000;

/// Maximum capacity of one endpoint, in keys.
pub const KEYS_MAX: u64 = 1 << 31;

/// Approximate bytes of a request without its value.
const REQUEST_BYTES: u32 = 64;

/// Options of an index.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexOptions {
    /// The nodes whose memory and cores hold it, an endpoint each; empty: the first storage node.
    pub nodes: Vec<NodeId>,
    /// The first key of each endpoint but the first, ascending: one fewer than there are nodes.
    pub boundaries: Vec<u64>,
    /// Approximate capacity of each endpoint, in keys: 1 to [`KEYS_MAX`].
    pub keys: u64,
    /// Bytes of the longest value, 8 to [`VALUE_MAX`]. With 8, all values have eight bytes and are
    /// in the tree nodes.
    pub value_max: u32,
    /// Bytes of a tree node: 512, 1024, 2048 or 4096.
    pub node_bytes: u32,
    /// Server thread states of each endpoint: as many threads can serve it at a time.
    pub threads: u16,
    /// Maximum number of concurrent clients of the index.
    pub clients: u16,
    /// Whether switches lead READs down the tree
    /// ([`Access::InNetwork`](rackweave_endpoint::index::Access)), and what they hold of it. The
    /// configuration has to reserve capacity: `switch.index_servers` and its neighbours.
    pub network: Option<IndexNetworkSpec>,
    /// How the switches adapt to the load, if they lead READs; `None`: they keep what
    /// [`IndexService::load_network`](super::IndexService::load_network) loaded.
    pub adapt: Option<AdapterConfig>,
    /// Whether endpoints also answer requests in UDP datagrams.
    pub datagrams: bool,
    /// Number of copies of every value, 1 or 2. With 2, each endpoint has a replica at the next of
    /// `nodes`, or, if that is one node, at the next storage node of the rack. Writes go to both,
    /// and the values survive the death of either.
    pub copies: u16,
}

impl Default for IndexOptions {
    /// One endpoint with capacity for 65536 keys with values of up to 64 bytes, for 16 clients, not
    /// in the network, without a replica; if it is opened to the network, the switches adapt once a
    /// second.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            boundaries: Vec::new(),
            keys: 1 << 16,
            value_max: 64,
            node_bytes: 1024,
            threads: 1,
            clients: 16,
            network: None,
            adapt: Some(AdapterConfig::default()),
            datagrams: false,
            copies: 1,
        }
    }
}

impl IndexOptions {
    /// The specification of this index, on a rack with this configuration.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn spec(&self, config: &RackConfig) -> Result<IndexSpec, IndexServiceError> {
        let in_range = |what, value: u64, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(IndexServiceError::OutOfRange {
                what,
                value,
                least,
                most,
            }),
        };
        in_range("value_max", self.value_max.into(), 8, VALUE_MAX.into())?;
        in_range("keys", self.keys, 1, KEYS_MAX)?;
        in_range("threads", self.threads.into(), 1, 256)?;
        in_range("copies", self.copies.into(), 1, 2)?;
        in_range("clients", self.clients.into(), 1, 4096)?;
        let tree = TreeConfig::for_keys(self.keys, self.node_bytes, self.value_max);
        let tree = match self.network {
            // As many branches as the switches' tree nodes have.
            Some(_) => tree.with_fan_out(BRANCHES as u16),
            None => tree,
        };
        tree.check()?;
        let storage = config.nodes_of(Role::Storage);
        let nodes = match self.nodes.is_empty() {
            true => vec![*storage.first().ok_or(IndexServiceError::NoStorage)?],
            false => self.nodes.clone(),
        };
        let replicas = self.replica_nodes(&nodes, &storage)?;
        let (wanted, given) = (nodes.len() - 1, self.boundaries.len());
        if wanted != given {
            return Err(IndexServiceError::Boundaries { wanted, given });
        }
        let server = ServerConfig::new(1);
        let coordinators = u16::from(nodes.len() > 1);
        let server = ServerConfig {
            // Clients are spread over the threads; all coordinators use the first.
            clients_max: self.clients.div_ceil(self.threads) + coordinators,
            payload_max: server.payload_max.max(self.value_max + REQUEST_BYTES),
            ..server
        };
        let endpoint = |node| IndexEndpointSpec {
            threads: self.threads,
            server,
            ..IndexEndpointSpec::new(node, tree)
        };
        Ok(IndexSpec {
            endpoints: nodes.into_iter().map(endpoint).collect(),
            map: PartitionMap::split(&self.boundaries)?,
            datagrams: self.datagrams.then(|| DatagramServerConfig::new(0)),
            replicas,
            attributes: PairAttributes {
                mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
                ..PairAttributes::default()
            },
        })
    }

    /// The nodes that may have replicas, of the endpoints' nodes and of the rack's storage nodes.
    fn replica_nodes(
        &self,
        endpoints: &[NodeId],
        storage: &[NodeId],
    ) -> Result<Vec<NodeId>, IndexServiceError> {
        let mut nodes = Vec::new();
        if self.copies < 2 {
            return Ok(nodes);
        }
        for node in endpoints {
            if !nodes.contains(node) {
                nodes.push(*node);
            }
        }
        if let [only] = nodes[..] {
            let at = storage.iter().position(|node| *node == only);
            let (before, after) = storage.split_at(at.map_or(0, |at| at + 1));
            let mut others = after.iter().chain(before).filter(|node| **node != only);
            let next = others.next().ok_or(IndexServiceError::NoReplicaNode)?;
            nodes.push(*next);
        }
        Ok(nodes)
    }
}
