//! The configuration of a tree.

use super::error::TreeError;
use super::heap::class_units;
use rackweave_wire::fabric::tree::{
    FAN_OUT_MIN, Layout, NODE_SIZES, RECORD_HEADER_WORDS, Superblock, UNIT, VALUE_MAX,
};
use serde::{Deserialize, Serialize};

/// Configuration of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreeConfig {
    /// Bytes of a tree node: 512, 1024, 2048 or 4096.
    pub node_size: u32,
    /// Capacity in tree nodes; two of them are the superblock and the root.
    pub tree_nodes: u32,
    /// Bytes of the heap for values that are not eight bytes long.
    pub heap_bytes: u64,
    /// The longest value in bytes.
    pub value_max: u32,
    /// The least key that belongs to the tree.
    pub low: u64,
    /// The greatest key that belongs to the tree.
    pub last: u64,
    /// The name of the tree. A remote reader accepts only tree nodes of this name.
    pub tree: u64,
    /// Maximum number of children of an inner tree node, 4 or more; 0: as many as fit. Leaves hold
    /// as many entries as fit. A switch can store few branches in each of its tree nodes.
    pub fan_out: u16,
}

impl Default for TreeConfig {
    /// Capacity for about a million entries of eight bytes.
    fn default() -> Self {
        Self::for_keys(1 << 20, 2048, 8)
    }
}

impl TreeConfig {
    /// A tree with capacity for `keys` entries inserted in any order, each with a value of
    /// `value_len` bytes. [`Self::check`] reports an invalid node size.
    pub fn for_keys(keys: u64, node_size: u32, value_len: u32) -> Self {
        let capacity = Layout::new(node_size).map_or(2, Layout::capacity) as u64;
        // Tree nodes that were just split are half full. Those that have lost entries and are not
        // merged yet are a quarter full; this leaves capacity for a heavy load of removals.
        let leaves = keys.div_ceil((capacity * 2 / 5).max(1));
        let inner = leaves.div_ceil((capacity * 2 / 5).max(2)) * 2;
        let tree_nodes = u32::try_from(leaves + inner + 16).unwrap_or(u32::MAX);
        let heap_bytes = if value_len == 8 {
            0
        } else {
            let words = RECORD_HEADER_WORDS + (value_len as usize).div_ceil(8);
            // Every value may be replaced while its old record still exists.
            let records = keys + keys / 8 + 1024;
            records * class_units(words) * UNIT
        };
        Self {
            node_size,
            tree_nodes,
            heap_bytes,
            value_max: value_len.max(8),
            low: 0,
            last: u64::MAX,
            tree: 1,
            fan_out: 0,
        }
    }

    /// The same tree with at most `fan_out` children in an inner tree node, and with capacity for
    /// the inner tree nodes that it then needs.
    #[must_use]
    pub fn with_fan_out(self, fan_out: u16) -> Self {
        // As with leaves: two fifths full, and at least two children.
        let children = u32::from(fan_out) * 2 / 5;
        let inner = match fan_out {
            0 => 0,
            // Above n tree nodes there are n/c + n/c² + … of c children each, 2n/c at most.
            _ => self.tree_nodes.div_ceil(children.max(2)).saturating_mul(2),
        };
        Self {
            fan_out,
            tree_nodes: self.tree_nodes.saturating_add(inner),
            ..self
        }
    }

    /// Bytes of the whole tree.
    pub fn bytes(&self) -> u64 {
        self.superblock().bytes()
    }

    pub(super) fn superblock(&self) -> Superblock {
        Superblock {
            node_size: self.node_size,
            tree_nodes: self.tree_nodes,
            heap_bytes: self.heap_bytes,
            value_max: self.value_max,
            tree: self.tree,
            fan_out: self.fan_out,
        }
    }

    /// Checks whether such a tree is possible.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), TreeError> {
        let wrong = |setting, value, reason| {
            Err(TreeError::Config {
                setting,
                value,
                reason,
            })
        };
        if self.node_size < NODE_SIZES[0] {
            return wrong(
                "node_size",
                u64::from(self.node_size),
                "too small for entries to be worth their header; take 512, 1024, 2048 or 4096",
            );
        }
        if Layout::new(self.node_size).is_none() {
            return wrong(
                "node_size",
                u64::from(self.node_size),
                "not 512, 1024, 2048 or 4096",
            );
        }
        if self.tree_nodes < 2 {
            let reason = "there must be places for the superblock and the root";
            return wrong("tree_nodes", u64::from(self.tree_nodes), reason);
        }
        if !self.heap_bytes.is_multiple_of(UNIT) {
            return wrong("heap_bytes", self.heap_bytes, "not a multiple of 64");
        }
        if self.heap_bytes / UNIT > u64::from(u32::MAX) {
            return wrong("heap_bytes", self.heap_bytes, "more than 2^32 units of 64");
        }
        if self.value_max < 8 || self.value_max > VALUE_MAX {
            let reason = "values are of 8 to 1048575 bytes at most";
            return wrong("value_max", u64::from(self.value_max), reason);
        }
        let capacity = Layout::new(self.node_size).map_or(0, Layout::capacity);
        if self.fan_out != 0 && self.fan_out < FAN_OUT_MIN {
            let reason = "inner tree nodes need room for at least 4 children; 0 is as many as fit";
            return wrong("fan_out", u64::from(self.fan_out), reason);
        }
        if usize::from(self.fan_out) > capacity {
            let reason = "a tree node of this size (node_size) has no room for so many children";
            return wrong("fan_out", u64::from(self.fan_out), reason);
        }
        if self.low > self.last {
            return wrong("low", self.low, "above the last key of the tree");
        }
        Ok(())
    }
}
