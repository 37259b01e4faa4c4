//! Reads that begin at a hinted tree node.

use super::{Denied, Shard};
use crate::btree::Begun;

impl Shard {
    /// As [`Shard::get`], with the walk beginning at tree node `node` if that leads to the key; see
    /// [`crate::btree::Tree::lookup_from`].
    ///
    /// # Errors
    /// If the key belongs to another endpoint.
    pub fn get_from(
        &self,
        node: u32,
        key: u64,
        value: &mut Vec<u8>,
    ) -> Result<(bool, Begun), Denied> {
        self.read(key, || self.tree.lookup_from(node, key, value))
    }
}
