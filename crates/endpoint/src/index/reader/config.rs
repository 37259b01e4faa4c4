//! What readers are made of, what they are asked, and what they answer.

use crate::ResourceError;
use crate::btree::Direction;
use crate::index::op::Value;
use rackweave_base::Rkey;
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::tree::{Layout, NodePointer};

/// Where the tree of an endpoint is, for those who READ it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct RemoteTree {
    /// The name that every tree node bears.
    pub tree: u64,
    /// The sizes of its tree nodes.
    pub layout: Layout,
    /// Places for tree nodes.
    pub tree_nodes: u32,
    /// The root.
    pub root: NodePointer,
    /// Bytes of the heap, which lies behind the tree nodes.
    pub heap_bytes: u64,
    /// The longest value.
    pub value_max: u32,
    /// Where the tree begins, in the endpoint's addresses.
    pub address: u64,
    /// The key of its region.
    pub rkey: Rkey,
    /// Where the word with the endpoint's map version is.
    pub version_address: u64,
    /// The key of the region with that word.
    pub version_rkey: Rkey,
}

/// The size and the patience of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderConfig {
    /// Walks under way at a time, 1 to 4096.
    pub walks: u16,
    /// Bytes of inner tree nodes that are kept at most; 0: none are.
    pub cache_bytes: u64,
    /// READs of value records that one scan has under way, 1 to 64.
    pub records: u8,
    /// How often a torn tree node is read again before the walk begins anew.
    pub torn_max: u32,
    /// How often a walk begins anew, or follows a pointer to the right, before it is given up.
    pub restarts_max: u32,
    /// Whether walks begin by asking the network for the deepest tree node that it knows, and not
    /// at the root: a READ with rkey 0 and the key in the place of the address.
    pub network: bool,
    /// The MTU of the reader's path. The network answers with one packet: a tree node must fit.
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

/// Why there is no such reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReaderError {
    /// A setting is out of range.
    #[error("a reader with {what} = {value}; {possible} are possible")]
    Config {
        /// The setting.
        what: &'static str,
        /// What it says.
        value: u64,
        /// What it may say.
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
        /// Bytes of a packet.
        mtu: u32,
    },
    /// Memory or NIC have no room for what the READs bring.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// What is looked for.
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
        /// From which end.
        direction: Direction,
        /// Entries at most.
        limit: u32,
    },
}

/// How a walk ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The value of a key, if it has one.
    Value(Option<Value>),
    /// The entries, in the order of the direction: all, or as many as the limit allowed; and the
    /// key beyond the range of the query, in its direction, if there is one.
    Entries(Vec<(u64, Value)>, Option<u64>),
    /// The endpoint has another map, or its tree does not have these keys.
    Moved,
    /// The tree changed faster than it could be read.
    GivenUp,
    /// The endpoint does not answer, or another tree is in its place.
    Gone,
    /// The tree is damaged.
    Corrupt,
}
