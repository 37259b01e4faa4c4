//! Pinned tree nodes: switches that answer queries hold pointers to them.
//!
//! There is a bit for each tree node and bank, outside the region: the bits are not read remotely,
//! and a tree that is opened again has no pins. A tree node is pinned under its latch, and pins are
//! checked under the latch before it is freed. So a pin is set in time, or finds the tree node
//! free.

use super::sync::{AtomicU64, Ordering};
use super::tree::Tree;
use rackweave_wire::fabric::tree::NodePointer;

/// Number of pin banks: one for what the switches use now, one for what they will use next.
pub const PIN_BANKS: usize = 2;

/// The pinned tree nodes.
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

    /// Whether a tree node is pinned by any bank. The caller must hold its latch.
    pub fn holds(&self, index: u32) -> bool {
        // Relaxed: the latch provides the order.
        let bit = |bank: &[AtomicU64]| bank[index as usize / 64].load(Ordering::Relaxed);
        self.banks
            .iter()
            .any(|bank| bit(bank) >> (index % 64) & 1 == 1)
    }
}

impl Tree {
    /// Pins tree nodes, each given by its pointer and its low fence. Until [`Tree::unpin`] of the
    /// bank they stay in use under this epoch, and their low fence does not rise. Splits leave the
    /// left half where it was; operations that would free a pinned tree node are skipped. So more
    /// tree nodes may be in use than without pins. Only [`Tree::shrink`] ignores pins.
    ///
    /// Returns the positions of those that could not be pinned, because they have been freed or
    /// have another low fence. Tree nodes pinned before by the same bank stay pinned.
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
        // The superblock is not a tree node.
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

    /// Unpins all tree nodes of a bank. Those that the other bank has also pinned stay pinned. A
    /// tree node that was not merged because of a pin is merged when it next loses an entry.
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
