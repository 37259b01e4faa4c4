//! Tree nodes to which somebody else has pointers: switches that answer queries.
//!
//! A bit for each tree node and bank, beside the region: nobody reads it from afar, and a tree that
//! is opened again has no pins. A tree node is pinned under its latch, and whoever wants to free it
//! looks under its latch: it is pinned in time, or found free.

use super::sync::{AtomicU64, Ordering};
use super::tree::Tree;
use rackweave_wire::fabric::tree::NodePointer;

/// Banks of pins: one for what the switches answer by, one for what they are going to.
pub const PIN_BANKS: usize = 2;

/// Which tree nodes are pinned.
pub(super) struct Pins {
    banks: [Box<[AtomicU64]>; PIN_BANKS],
}

impl Pins {
    pub fn new(tree_nodes: u32) -> Self {
        let words = (tree_nodes as usize).div_ceil(64);
        Self {
            banks: core::array::from_fn(|_| (0..words).map(|_| AtomicU64::new(0)).collect()),
        }
    }

    fn set(&self, bank: usize, index: u32) {
        let word = &self.banks[bank][index as usize / 64];
        word.fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    fn clear(&self, bank: usize) {
        for word in &self.banks[bank] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a tree node is pinned by any bank. To be asked under its latch.
    pub fn holds(&self, index: u32) -> bool {
        // Relaxed: the latch orders it.
        let bit = |bank: &[AtomicU64]| bank[index as usize / 64].load(Ordering::Relaxed);
        self.banks
            .iter()
            .any(|bank| bit(bank) >> (index % 64) & 1 == 1)
    }
}

impl Tree {
    /// Pins tree nodes, each given by its pointer and its low fence: until [`Tree::unpin`] of the
    /// bank they stay in use under this epoch, and their low fence does not rise. Splits leave the
    /// left half where it was; what would free a pinned tree node is not done. So more tree nodes
    /// may be in use than without. Only [`Tree::shrink`] ignores pins.
    ///
    /// Returns the positions of those that could not be pinned, since they have been freed or have
    /// another low fence. Those pinned before by the same bank stay pinned.
    ///
    /// # Panics
    /// If the bank is not below [`PIN_BANKS`].
    pub fn pin(&self, bank: usize, wanted: &[(NodePointer, u64)]) -> Vec<usize> {
        assert!(bank < PIN_BANKS, "there are {PIN_BANKS} banks of pins");
        let failed = |&(_, &(pointer, low)): &(usize, &(NodePointer, u64))| {
            !self.pin_one(bank, pointer, low)
        };
        let failed = wanted.iter().enumerate().filter(failed);
        failed.map(|(position, _)| position).collect()
    }

    fn pin_one(&self, bank: usize, pointer: NodePointer, low: u64) -> bool {
        // The superblock is no tree node.
        let is_place = (1..self.inner.superblock.tree_nodes).contains(&pointer.index);
        if !is_place {
            return false;
        }
        let node = self.node(pointer.index);
        node.latch().lock();
        let meta = node.meta();
        let is_it = meta.is_live() && meta.epoch == pointer.epoch && node.low() == low;
        if is_it {
            self.inner.pins.set(bank, pointer.index);
        }
        node.latch().unlock_unchanged();
        is_it
    }

    /// Unpins all tree nodes of a bank. Those that the other bank has pinned, too, stay pinned.
    /// What was not merged because of a pin is when it next loses an entry.
    ///
    /// # Panics
    /// If the bank is not below [`PIN_BANKS`].
    pub fn unpin(&self, bank: usize) {
        assert!(bank < PIN_BANKS, "there are {PIN_BANKS} banks of pins");
        self.inner.pins.clear(bank);
    }

    /// Whether a tree node is pinned by any bank.
    pub fn is_pinned(&self, index: u32) -> bool {
        index < self.inner.superblock.tree_nodes && self.inner.pins.holds(index)
    }
}
