//! A layer of regular tree nodes: 16 pivots are compared to the key, and the number of those that
//! it is greater than is the child (fat-btree, section 4.2).
//!
//! Six stages:
//!
//! | stage | tables |
//! |---|---|
//! | 0 | pivots 0 to 7 |
//! | 1 | pivots 8 to 15; comparisons 0 to 7 |
//! | 2 | comparisons 8 to 15 |
//! | 3 | from the 16 results, ones followed by zeros, to the number of ones |
//! | 4 | children |
//! | 5 | hits |

use super::compare::{SELECTION_BITS, SELECTIONS, is_greater};
use super::entries::{BANKS, BRANCHES, Child, LoadError, RegularNode};
use rackweave_switch::table::{Direct, Row, TableError};
use rackweave_switch::{Cursor, Ledger, Register};

/// Stages of a layer.
pub(super) const STAGES: u8 = 6;

/// A child as action data: six bytes.
#[derive(Clone, Copy, Debug)]
struct Packed([u8; 6]);

impl From<Child> for Packed {
    fn from(child: Child) -> Self {
        let [a, b, c, d] = child.node.to_be_bytes();
        let [e, f] = child.slot.to_be_bytes();
        Packed([a, b, c, d, e, f])
    }
}

impl From<Packed> for Child {
    fn from(Packed([a, b, c, d, e, f]): Packed) -> Self {
        Child {
            node: u32::from_be_bytes([a, b, c, d]),
            slot: u16::from_be_bytes([e, f]),
        }
    }
}

/// The result of a step through a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// To this child.
    Child(Child),
    /// The tree node has no child for the key.
    Beyond,
    /// The slot is empty.
    NotLoaded,
}

/// The tables of a layer.
pub(super) struct Layer {
    first_stage: u8,
    nodes: usize,
    /// By bank and slot.
    pivots: Row<u64, BRANCHES>,
    /// By bank, slot and child.
    children: Direct<Packed>,
    /// Queries that were led to the child.
    hits: Register<u32>,
}

impl Layer {
    /// For `nodes` tree nodes per bank, in six stages from `first_stage` on.
    pub(super) fn new(first_stage: u8, nodes: u16) -> Self {
        let nodes = usize::from(nodes);
        let children = nodes * BRANCHES * BANKS;
        let stages = core::array::from_fn(|at| first_stage + (at >= BRANCHES / 2) as u8);
        Self {
            first_stage,
            nodes,
            pivots: Row::new("index.pivots", stages, nodes * BANKS),
            children: Direct::new("index.children", first_stage + 4, children),
            hits: Register::new("index.child_hits", first_stage + 5, children),
        }
    }

    pub(super) fn declare(&self, ledger: &mut Ledger) {
        ledger.row(&self.pivots);
        for at in 0..BRANCHES {
            let stage = self.first_stage + 1 + (at >= BRANCHES / 2) as u8;
            ledger.constant("index.compare", stage, SELECTION_BITS, SELECTIONS);
        }
        let stage = self.first_stage + 3;
        ledger.constant("index.branch", stage, BRANCHES as u8, BRANCHES + 1);
        ledger.direct(&self.children);
        ledger.register(&self.hits);
    }

    /// Finds and counts the child for `key` of the tree node in `slot`.
    #[inline]
    pub(super) fn step(&mut self, cursor: &mut Cursor, bank: usize, slot: u16, key: u64) -> Step {
        let slot = usize::from(slot);
        if slot >= self.nodes {
            return Step::NotLoaded;
        }
        let at = bank * self.nodes + slot;
        let Some(pivots) = self.pivots.lookup(at) else {
            return Step::NotLoaded;
        };
        // Pivots ascend, so the results are ones followed by zeros.
        let results = pivots.iter().map(|&pivot| is_greater(key, pivot));
        let branch = results.map(usize::from).sum::<usize>();
        if branch == BRANCHES {
            return Step::Beyond;
        }
        let at = at * BRANCHES + branch;
        let Some(&child) = self.children.lookup(at) else {
            return Step::Beyond;
        };
        self.hits
            .update(cursor, at, |hits| *hits = hits.wrapping_add(1));
        Step::Child(child.into())
    }

    /// Loads `loaded` into the slots from `from` on.
    pub(super) fn load(
        &mut self,
        bank: usize,
        from: u16,
        loaded: &[RegularNode],
    ) -> Result<(), LoadError> {
        let from = usize::from(from);
        if loaded.len() > self.nodes.saturating_sub(from) {
            return Err(LoadError::Table(TableError::Full {
                table: "index.pivots",
                capacity: self.nodes,
            }));
        }
        for (slot, node) in (from..).zip(loaded) {
            let falls = (1..BRANCHES).find(|&at| node.pivots[at] < node.pivots[at - 1]);
            if let Some(child) = falls {
                let slot = slot as u16;
                return Err(LoadError::Pivots { slot, child });
            }
        }
        for (slot, node) in (from..).zip(loaded) {
            let at = bank * self.nodes + slot;
            self.pivots.set(at, Some(node.pivots))?;
            for (branch, &child) in node.children.iter().enumerate() {
                let packed = (child.node != 0).then(|| Packed::from(child));
                self.children.set(at * BRANCHES + branch, packed)?;
            }
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, bank: usize) {
        for at in bank * self.nodes..(bank + 1) * self.nodes {
            let mut cleared = self.pivots.set(at, None);
            for branch in 0..BRANCHES {
                cleared = cleared.and(self.children.set(at * BRANCHES + branch, None));
            }
            debug_assert!(cleared.is_ok(), "the tables have a place for every slot");
        }
    }

    pub(super) fn hits(&self, bank: usize, slot: u16, child: usize) -> u64 {
        let slot = usize::from(slot);
        if bank >= BANKS || slot >= self.nodes || child >= BRANCHES {
            return 0;
        }
        let at = (bank * self.nodes + slot) * BRANCHES + child;
        self.hits.peek(at).into()
    }

    pub(super) fn clear_hits(&mut self, bank: usize) {
        let width = self.nodes * BRANCHES;
        for at in bank * width..(bank + 1) * width {
            *self.hits.control(at) = 0;
        }
    }
}
