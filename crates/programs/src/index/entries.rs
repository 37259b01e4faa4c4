//! What the controller enters: sizes, servers, queue pairs, the fat root and regular tree nodes.

use rackweave_base::Rkey;
use rackweave_switch::table::TableError;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Branches of a regular tree node of the switch (fat-btree, section 4.2).
pub const BRANCHES: usize = 16;

/// In [`Child::slot`]: the child is not in the next layer; the walk ends at it.
pub const NO_SLOT: u16 = 0xffff;

/// Maximum regular tree nodes of one layer (fat-btree, section 4.2).
pub const NODES_MAX: u16 = 4096;

/// Banks of every table: one serves while the other is filled.
pub const BANKS: usize = 2;

/// The root of every tree.
pub const ROOT: u32 = 1;

/// Number of 16-bit slices of the key that the fat root matches in sequence.
pub const SLICES: usize = 4;

/// Number of distinguished depths: the root, the fat root, and up to six layers.
pub const DEPTHS: usize = 8;

/// The target of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Child {
    /// The index of the tree node at its server. Zero, which is not a valid tree node, means no
    /// child: a query stays at the parent.
    pub node: u32,
    /// Its slot in the next layer, or [`NO_SLOT`].
    pub slot: u16,
}

impl Child {
    /// No child.
    pub const NONE: Child = Child {
        node: 0,
        slot: NO_SLOT,
    };
}

/// A tree node in a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegularNode {
    /// The greatest key of each child, ascending; `u64::MAX` for missing children. The child of a
    /// key is the number of pivots that the key is greater than. A key that is greater than all of
    /// them belongs to none of the children, and its query stays at the parent.
    pub pivots: [u64; BRANCHES],
    /// The children; [`Child::NONE`] for missing ones.
    pub children: [Child; BRANCHES],
}

/// The result of matching a slice of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Next {
    /// Undecided: the next slice is matched in this table of the next stage. If no entry matches
    /// there, the key is in the range with the table's number.
    Table(u16),
    /// In this range.
    Range(u16),
}

/// An entry of a range table over slices of 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SliceEntry {
    /// The table of the stage that it belongs to.
    pub table: u16,
    /// The first slice.
    pub first: u16,
    /// The last slice.
    pub last: u16,
    /// The result.
    pub next: Next,
}

/// A range of keys in the fat root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FatRange {
    /// The server that has the keys.
    pub server: u16,
    /// Where its tree continues for them.
    pub child: Child,
}

/// The fat root: a tree node with many children on several servers (fat-btree, section 4.1).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FatRoot {
    /// Stage `s` matches bits 63 − 16 s to 48 − 16 s of the key. Stage 0 has table 0 only.
    pub stages: [Vec<SliceEntry>; SLICES],
    /// The ranges, by number.
    pub ranges: Vec<FatRange>,
}

/// The sizes of the index in one switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexConfig {
    /// Queue pairs of clients, each with a server.
    pub queries: u32,
    /// Servers; zero: no index in this switch.
    pub servers: u16,
    /// Ranges of the fat root; zero: it is in another switch.
    pub fat_ranges: u16,
    /// The first layer in this switch; 1 is the one directly below the fat root.
    pub first_layer: u8,
    /// Layers in this switch: at most 2.
    pub layers: u8,
    /// Tree nodes of each layer: at most [`NODES_MAX`].
    pub nodes: u16,
    /// The first stage. The fat root takes six, and so does each layer.
    pub first_stage: u8,
}

impl IndexConfig {
    /// No index in this switch.
    pub const NONE: IndexConfig = IndexConfig {
        queries: 0,
        servers: 0,
        fat_ranges: 0,
        first_layer: 1,
        layers: 0,
        nodes: 0,
        first_stage: 0,
    };
}

/// A server: the location of its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerEntry {
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// The address of tree node 0 in its region.
    pub address: u64,
    /// The size of a tree node is 2 to the power of this many bytes.
    pub node_shift: u8,
}

/// A client's queue pair, as seen by the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueryEntry {
    /// The server at its other end.
    pub server: u16,
    /// The key of the region of the server's tree, for this client.
    pub rkey: Rkey,
}

/// Counters of the index since the switch started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IndexCounters {
    /// Queries by READ for which this switch was the first hop.
    pub queries: u64,
    /// Requests over plain UDP for which this switch was the first hop.
    pub lookups: u64,
    /// Queries and requests for which this switch was the last hop, by the depth that they reached:
    /// 0 the root, 1 below the fat root, 1 + k below k layers.
    pub by_depth: [u64; DEPTHS],
    /// Dropped: queries on an unknown queue pair.
    pub unknown_pair: u64,
    /// Requests over plain UDP to an address without a server; forwarded unchanged.
    pub unknown_server: u64,
    /// Queries whose key belongs to another server than their target; they get the root of the
    /// target.
    pub other_server: u64,
    /// Queries whose key is in no range of the fat root; they get the root.
    pub no_range: u64,
    /// Queries that ended at a tree node without a child for their key.
    pub beyond: u64,
    /// Queries whose next slot was not loaded; they stay where they were.
    pub not_loaded: u64,
    /// Queries without an active bank at their first hop; they get the root.
    pub no_bank: u64,
    /// Dropped: arrived with a switch header at an untrusted port.
    pub forged: u64,
    /// Dropped: too many hops between switches.
    pub hops: u64,
}

impl core::ops::AddAssign<&Self> for IndexCounters {
    fn add_assign(&mut self, more: &Self) {
        for (sum, more) in self.by_depth.iter_mut().zip(more.by_depth) {
            *sum += more;
        }
        self.queries += more.queries;
        self.lookups += more.lookups;
        self.unknown_pair += more.unknown_pair;
        self.unknown_server += more.unknown_server;
        self.other_server += more.other_server;
        self.no_range += more.no_range;
        self.beyond += more.beyond;
        self.not_loaded += more.not_loaded;
        self.no_bank += more.no_bank;
        self.forged += more.forged;
        self.hops += more.hops;
    }
}

/// Why the controller's load failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum LoadError {
    /// Not one of the two banks.
    #[error("there is no bank {0}: there are banks 0 and 1")]
    NoBank(usize),
    /// Queries use this bank.
    #[error("bank {0} is active: load the other one, or deactivate this one first")]
    Active(usize),
    /// The layer is not in this switch.
    #[error("layer {layer} is not in this switch, which has {layers} layers from {first} on")]
    NoLayer {
        /// The requested layer.
        layer: u8,
        /// The first layer here.
        first: u8,
        /// Number of layers here.
        layers: u8,
    },
    /// A table is too small, or entries contradict each other.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The pivots of a tree node do not ascend.
    #[error("the pivots of the tree node for slot {slot} do not ascend at child {child}")]
    Pivots {
        /// The slot.
        slot: u16,
        /// The first child whose pivot is less than the one before.
        child: usize,
    },
    /// An entry of the fat root leads to a table or range that does not exist.
    #[error("an entry of stage {stage} of the fat root leads to {next:?}, which is not there")]
    Dangling {
        /// The stage.
        stage: usize,
        /// The target.
        next: Next,
    },
}
