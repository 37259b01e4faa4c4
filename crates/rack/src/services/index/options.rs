//! What an index is to be.

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

/// The longest value that an index takes, in bytes: a request holds 65535 bytes, its own header
/// among them.
pub const VALUE_MAX: u32 = 65_000;

/// The most keys that one endpoint has room for.
pub const KEYS_MAX: u64 = 1 << 31;

/// Bytes of a request beside its value, more or less.
const REQUEST_BYTES: u32 = 64;

/// What an index is to be.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexOptions {
    /// The nodes whose memory and cores have it, an endpoint each; empty: the first storage node.
    pub nodes: Vec<NodeId>,
    /// The first key of each endpoint but the first, ascending: one fewer than there are nodes.
    pub boundaries: Vec<u64>,
    /// Keys that each endpoint has room for, about: 1 to [`KEYS_MAX`].
    pub keys: u64,
    /// Bytes of the longest value, 8 to [`VALUE_MAX`]. With 8, all values have eight bytes and lie
    /// in the tree nodes.
    pub value_max: u32,
    /// Bytes of a tree node: 512, 1024, 2048 or 4096.
    pub node_bytes: u32,
    /// Server threads' states of each endpoint: as many threads can serve it at a time.
    pub threads: u16,
    /// Clients of the index at a time.
    pub clients: u16,
    /// Whether switches lead READs down the tree
    /// ([`Access::InNetwork`](rackweave_endpoint::index::Access)), and what they keep of it. The
    /// configuration has to make room: `switch.index_servers` and its neighbours.
    pub network: Option<IndexNetworkSpec>,
    /// How the switches follow what is asked for, if they lead READs; nothing: they keep what
    /// [`IndexService::load_network`](super::IndexService::load_network) gave them.
    pub adapt: Option<AdapterConfig>,
    /// Whether endpoints answer requests as UDP datagrams, too.
    pub datagrams: bool,
}

impl Default for IndexOptions {
    /// One endpoint with room for 65536 keys with values of up to 64 bytes, for 16 clients, not in
    /// the network; if it is put there, the switches look once a second what is asked for.
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
        }
    }
}

impl IndexOptions {
    /// The index that is wanted, on a rack with this configuration.
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
        in_range("clients", self.clients.into(), 1, 4096)?;
        let tree = TreeConfig::for_keys(self.keys, self.node_bytes, self.value_max);
        let tree = match self.network {
            // As many branches as the switches' tree nodes have.
            Some(_) => tree.with_fan_out(BRANCHES as u16),
            None => tree,
        };
        tree.check()?;
        let storage = || config.nodes_of(Role::Storage).first().copied();
        let nodes = match self.nodes.is_empty() {
            true => vec![storage().ok_or(IndexServiceError::NoStorage)?],
            false => self.nodes.clone(),
        };
        let (wanted, given) = (nodes.len() - 1, self.boundaries.len());
        if wanted != given {
            return Err(IndexServiceError::Boundaries { wanted, given });
        }
        let server = ServerConfig::new(1);
        let coordinators = u16::from(nodes.len() > 1);
        let server = ServerConfig {
            // They are spread over the threads; coordinators all come to the first.
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
            attributes: PairAttributes {
                mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
                ..PairAttributes::default()
            },
        })
    }
}
