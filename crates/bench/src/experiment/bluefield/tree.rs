//! Trees of the experiments: their keys, and their cost at the paper's sizes.

use crate::harness::prelude::*;
use rackweave_base::Memory;
use rackweave_endpoint::btree::Tree;
use rackweave_sim::{TreeCost, TreeShape};
use rackweave_wire::fabric::tree::Layout;

pub use crate::harness::metered::TREE_ENTRY_BYTES as ENTRY_BYTES;

/// Bytes of a tree node for requests. The paper does not state them; this is the size that it finds
/// best for one-sided reads.
pub const NODE_BYTES: u32 = 2048;

/// Keys of the paper's trees.
pub const PAPER_KEYS: [u64; 3] = [1_000_000, 16_000_000, 256_000_000];

/// The value of a key, for checking replies.
pub fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ key
}

/// The keys below `keys` and their values.
pub fn entries(keys: u64) -> impl Iterator<Item = (u64, [u8; 8])> {
    (0..keys).map(|key| (key, value_of(key).to_le_bytes()))
}

/// A tree of these keys.
pub fn load(memory: &Memory, keys: u64) -> Result<Tree> {
    let config = TreeConfig::for_keys(keys.max(1), NODE_BYTES, 8);
    let block = memory.allocate(config.bytes() as usize);
    let tree = Tree::create(block.or_failed("a tree")?, &config).or_failed("a tree")?;
    tree.bulk_load(entries(keys)).or_failed("a tree")?;
    Ok(tree)
}

/// The cost for a core of `server` of operations on a tree of `keys` keys inserted at random.
pub fn cost(server: Server, keys: u64, node_bytes: u32) -> TreeCost {
    let capacity = Layout::new(node_bytes).map_or(2, Layout::capacity) as u64;
    let shape = TreeShape {
        header_bytes: u64::from(node_bytes) - capacity * ENTRY_BYTES,
        entry_bytes: ENTRY_BYTES,
        ..TreeShape::grown(keys, node_bytes)
    };
    TreeCost::new(&shape, &server.caches())
}

/// A number of keys in words.
pub fn named(keys: u64) -> String {
    format!("{} M keys", keys / 1_000_000)
}
