//! Configuration, queries and results of readers.

use crate::ResourceError;
use crate::btree::Direction;
use crate::index::op::Value;
use rackweave_base::Rkey;
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::tree::{Layout, NodePointer};

/// The location of an endpoint's tree, for READs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct RemoteTree {
    /// The name that every tree node carries.
    pub tree: u64,
    /// The sizes of its tree nodes.
    pub layout: Layout,
    /// Capacity in tree nodes.
    pub tree_nodes: u32,
    /// The root.
    pub root: NodePointer,
    /// Bytes of the heap, which follows the tree nodes.
    pub heap_bytes: u64,
    /// Maximum length of a value.
    pub value_max: u32,
    /// The address of the tree at the endpoint.
    pub address: u64,
    /// The key of its region.
    pub rkey: Rkey,
    /// The address of the word with the endpoint's map version.
    pub version_address: u64,
    /// The key of the region with that word.
    pub version_rkey: Rkey,
}

/// Configuration of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderConfig {
    /// Maximum number of concurrent walks, 1 to 4096.
    pub walks: u16,
    /// Maximum size of the cache of inner tree nodes in bytes; 0: no cache.
    pub cache_bytes: u64,
    /// Maximum number of READs of value records in flight for one scan, 1 to 64.
    pub records: u8,
    /// How often a torn tree node is read again before the walk restarts.
    pub torn_max: u32,
    /// How often a walk restarts, or follows a pointer to the right, before it is given up.
    pub restarts_max: u32,
    /// Whether walks begin with a query to the network for the deepest tree node that it knows, and
    /// not at the root. The query is a READ with rkey 0 and the key in place of the address.
    pub network: bool,
    /// The MTU of the reader's path. The network answers with one packet: a tree node must fit into
    /// it.
    pub mtu: Mtu,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self {
            walks: 64,
            cache_bytes: 0,
            records: 8,
            torn_max: 16,
            restarts_max: 64,
            network: false,
            mtu: Mtu::default(),
        }
    }
}

impl ReaderConfig {
    pub(super) fn check(&self, layout: Layout) -> Result<(), ReaderError> {
        let (node_size, mtu) = (layout.bytes() as u32, self.mtu.bytes());
        if self.network && node_size > mtu {
            return Err(ReaderError::NodeTooLarge { node_size, mtu });
        }
        let bounds = [
            ("walks", u64::from(self.walks), 1..=4096, "1 to 4096"),
            ("records", u64::from(self.records), 1..=64, "1 to 64"),
        ];
        for (what, value, range, possible) in bounds {
            if !range.contains(&value) {
                return Err(ReaderError::Config {
                    what,
                    value,
                    possible,
                });
            }
        }
        Ok(())
    }
}

/// Why a reader could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReaderError {
    /// A setting is out of range.
    #[error("a reader with {what} = {value}; {possible} are possible")]
    Config {
        /// The name of the setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The possible values.
        possible: &'static str,
    },
    /// The network cannot answer with tree nodes of this size.
    #[error(
        "tree nodes of {node_size} bytes on a path of MTU {mtu}: the network answers with one \
         packet; make the tree with smaller ones (node_size), or read one-sided"
    )]
    NodeTooLarge {
        /// Bytes of a tree node.
        node_size: u32,
        /// Maximum payload of a packet in bytes.
        mtu: u32,
    },
    /// The memory or the NIC has no space for the data of the READs.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// A query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// The value of a key.
    Get {
        /// The key.
        key: u64,
    },
    /// Entries from `low` to `last`, which must belong to this endpoint.
    Scan {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
        /// The direction.
        direction: Direction,
        /// Maximum number of entries.
        limit: u32,
    },
}

/// The result of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The value of a key, if it has one.
    Value(Option<Value>),
    /// The entries, in the order of the direction: all, or as many as the limit allowed; and the
    /// next key beyond the range of the query, in its direction, if there is one.
    Entries(Vec<(u64, Value)>, Option<u64>),
    /// The endpoint has another map, or its tree does not have these keys.
    Moved,
    /// The tree changed faster than it could be read.
    GivenUp,
    /// The endpoint does not answer, or another tree has replaced this one.
    Gone,
    /// The tree is damaged.
    Corrupt,
}
