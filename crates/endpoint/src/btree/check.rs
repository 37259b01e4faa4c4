//! Verification of a whole tree: for tests, and before a tree found in a block is used.

use super::error::TreeError;
use super::sync::Ordering;
use super::tree::Tree;
use rackweave_wire::fabric::tree::{NodePointer, ROOT, ValueRef, identity};

/// Summary of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Number of entries.
    pub entries: u64,
    /// Number of leaves, including the root if it is one.
    pub leaves: u32,
    /// Number of inner tree nodes.
    pub inner: u32,
    /// Number of levels.
    pub levels: u32,
    /// Bytes of all values.
    pub value_bytes: u64,
}

/// What is known about a tree node before it is read.
struct Expected {
    pointer: NodePointer,
    /// None for the root.
    level: Option<u8>,
    low: u64,
    last: u64,
}

struct Walk<'a> {
    tree: &'a Tree,
    summary: Summary,
    used: Vec<bool>,
    records: Vec<ValueRef>,
    /// By level: the right pointer of the tree node visited last.
    next: Vec<Option<NodePointer>>,
}

impl Tree {
    /// Verifies every tree node and every record. No thread may write meanwhile.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self) -> Result<Summary, TreeError> {
        self.walk().map(|walk| walk.summary)
    }

    /// Verifies a tree that was found in a block, and records what is in use.
    pub(super) fn adopt(&self) -> Result<(), TreeError> {
        let walk = self.walk()?;
        if !self.inner.heap.adopt(walk.records) {
            return Err(TreeError::Corrupt {
                index: 0,
                what: "two values are in the same place",
            });
        }
        self.inner.nodes.adopt(&walk.used);
        Ok(())
    }

    fn walk(&self) -> Result<Walk<'_>, TreeError> {
        let root = self.node(ROOT);
        let mut used = vec![false; self.inner.superblock.tree_nodes as usize];
        used[0] = true;
        let mut walk = Walk {
            tree: self,
            summary: Summary::default(),
            used,
            records: Vec::new(),
            next: Vec::new(),
        };
        let (low, last) = (root.low(), root.last());
        walk.visit(&Expected {
            pointer: root.pointer(),
            level: None,
            low,
            last,
        })?;
        if walk.next.iter().flatten().any(|next| !next.is_none()) {
            return Err(TreeError::Corrupt {
                index: ROOT,
                what: "the rightmost tree node of a level has one to its right",
            });
        }
        Ok(walk)
    }
}

impl Walk<'_> {
    fn visit(&mut self, expected: &Expected) -> Result<(), TreeError> {
        let index = expected.pointer.index;
        let wrong = |what| Err(TreeError::Corrupt { index, what });
        match self.used.get_mut(index as usize) {
            None => return wrong("a pointer leads beyond the tree"),
            Some(used) if *used => return wrong("two pointers lead here"),
            Some(used) => *used = true,
        }
        let node = self.tree.node(index);
        let (meta, capacity) = (node.meta(), node.capacity());
        if node.latch().0.load(Ordering::Acquire) & 1 == 1 {
            return wrong("its writer never finished");
        }
        if usize::from(meta.count) > capacity {
            return wrong("more entries than there is room for");
        }
        if usize::from(meta.count) > self.tree.limit(meta.level) {
            return wrong("more children than fan_out allows");
        }
        if node.computed_check() != node.check() {
            return wrong("its check does not fit");
        }
        if node.identity() != identity(self.tree.superblock().tree, index) {
            return wrong("it belongs to another tree, or to another place");
        }
        if !meta.is_live() || meta.epoch != expected.pointer.epoch {
            return wrong("its epoch is not that of the pointer");
        }
        if (node.low(), node.last()) != (expected.low, expected.last) || node.low() > node.last() {
            return wrong("its fences are not what its parent says");
        }
        if expected.level.is_some_and(|level| level != meta.level) {
            return wrong("its level is not one below its parent's");
        }
        let level = usize::from(meta.level);
        if self.next.len() <= level {
            self.next.resize(level + 1, None);
        }
        let left = self.next[level].replace(node.next());
        if left.is_some_and(|left| left != expected.pointer) {
            return wrong("its left neighbour points elsewhere");
        }
        self.summary.levels = self.summary.levels.max(u32::from(meta.level) + 1);
        let count = node.count(meta);
        let mut keys = (0..count).map(|at| node.key(at));
        if !keys.clone().is_sorted_by(|a, b| a < b) {
            return wrong("keys do not ascend");
        }
        if keys.any(|key| !node.covers(key)) {
            return wrong("a key is outside of its fences");
        }
        if meta.level > 0 {
            self.summary.inner += 1;
            return self.visit_children(expected, count);
        }
        self.visit_entries(index, count)
    }

    fn visit_entries(&mut self, leaf: u32, count: usize) -> Result<(), TreeError> {
        let (node, inner) = (self.tree.node(leaf), &self.tree.inner);
        self.summary.leaves += 1;
        self.summary.entries += count as u64;
        for at in 0..count {
            let entry = node.entry(at);
            if !entry.is_reference {
                self.summary.value_bytes += 8;
                continue;
            }
            let reference = ValueRef::from_word(entry.value);
            if !inner.heap.verify(&inner.arena, entry.key, reference) {
                return Err(TreeError::Corrupt {
                    index: leaf,
                    what: "a value is not what its record says",
                });
            }
            self.summary.value_bytes += u64::from(reference.length);
            self.records.push(reference);
        }
        Ok(())
    }

    fn visit_children(&mut self, expected: &Expected, count: usize) -> Result<(), TreeError> {
        let node = self.tree.node(expected.pointer.index);
        if count == 0 || node.key(0) != node.low() {
            return Err(TreeError::Corrupt {
                index: node.index,
                what: "no child begins at its low fence",
            });
        }
        let level = node.meta().level - 1;
        for at in 0..count {
            let last = if at + 1 < count {
                node.key(at + 1) - 1
            } else {
                expected.last
            };
            self.visit(&Expected {
                pointer: node.child(at),
                level: Some(level),
                low: node.key(at),
                last,
            })?;
        }
        Ok(())
    }
}
