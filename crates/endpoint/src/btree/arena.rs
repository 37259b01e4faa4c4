//! Access to the words of a tree.

use super::sync::AtomicU64;
#[cfg(not(any(loom, shuttle)))]
use rackweave_base::Block;

/// Memory of a tree. Words are little-endian, as remote readers expect them.
pub(super) struct Arena {
    #[cfg(not(any(loom, shuttle)))]
    block: Block,
    #[cfg(any(loom, shuttle))]
    words: Vec<AtomicU64>,
}

impl Arena {
    #[cfg(not(any(loom, shuttle)))]
    pub fn new(block: Block) -> Self {
        Self { block }
    }

    #[cfg(any(loom, shuttle))]
    pub fn new(words: usize) -> Self {
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Returns `count` words from byte `offset` on.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        #[cfg(not(any(loom, shuttle)))]
        return self.block.words(offset, count);
        #[cfg(any(loom, shuttle))]
        return &self.words[offset / 8..offset / 8 + count];
    }
}
