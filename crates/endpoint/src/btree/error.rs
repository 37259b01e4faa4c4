//! Errors of a tree.

use rackweave_base::memory::MemoryError;
use rackweave_wire::fabric::tree::SuperblockError;

/// Why a tree operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// A setting is out of range.
    #[error("{setting} = {value}: {reason}")]
    Config {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The value is longer than the tree allows.
    #[error("a value of {length} bytes; this tree takes up to {limit} (value_max)")]
    ValueTooLarge {
        /// Bytes of the value.
        length: usize,
        /// Maximum length in bytes.
        limit: u32,
    },
    /// The tree does not own the key.
    #[error("key {key} is outside of the tree's bounds {low}..={last}")]
    OutOfBounds {
        /// The key.
        key: u64,
        /// The least key that belongs to the tree.
        low: u64,
        /// The greatest key that belongs to the tree.
        last: u64,
    },
    /// No tree node is free.
    #[error("all {capacity} tree nodes are in use; create the tree with more (tree_nodes)")]
    NodesUsedUp {
        /// Capacity of the tree in tree nodes.
        capacity: u32,
    },
    /// The heap has no space for a value.
    #[error(
        "no room for a value of {length} bytes in a heap of {heap_bytes} (heap_bytes); space of \
         other sizes is not joined"
    )]
    HeapFull {
        /// Bytes of the value.
        length: usize,
        /// Bytes of the heap.
        heap_bytes: u64,
    },
    /// Keys to load do not ascend.
    #[error("key {key} after key {previous}: keys to load must ascend")]
    NotAscending {
        /// The preceding key.
        previous: u64,
        /// The key.
        key: u64,
    },
    /// Only an empty tree can be loaded.
    #[error("the tree has entries already; only an empty one can be loaded")]
    NotEmpty,
    /// The block holds no tree.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// A tree node contradicts itself or another one.
    #[error("tree node {index}: {what}; the tree is damaged")]
    Corrupt {
        /// The tree node.
        index: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// Memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
