//! Removal of keys and of underfull tree nodes.

use super::error::TreeError;
use super::tree::{Counters, Tree};
use super::writer::Writer;
use core::ops::ControlFlow::{Break, Continue};
use rackweave_wire::fabric::tree::{ROOT, ValueRef};

impl Tree {
    /// Removes a key. False if it was absent.
    ///
    /// # Errors
    /// If the key is out of bounds.
    pub fn remove(&self, key: u64) -> Result<bool, TreeError> {
        self.insist(|| self.try_remove(key).map(Break))
    }

    fn try_remove(&self, key: u64) -> Option<Result<bool, TreeError>> {
        let (leaf, _) = self.descend(key, 0)?;
        let node = leaf.node;
        let count = node.count(node.meta());
        let index = node.lower_bound(count, key);
        let found = index < count && node.key(index) == key;
        if !found {
            return self.unchanged(&leaf, key, false);
        }
        let mut writer = node.upgrade(leaf.latch)?;
        let old = writer.remove(index);
        let underflow = self.underflows(writer.count(), 0);
        writer.finish();
        if old.is_reference {
            let reference = ValueRef::from_word(old.value);
            self.inner.heap.free(&self.inner.arena, reference);
        }
        if underflow && node.index != ROOT {
            self.merge(key, 0);
        }
        Some(Ok(true))
    }

    /// Whether a tree node of `level` has so few entries that it must be merged.
    fn underflows(&self, count: usize, level: u8) -> bool {
        // An inner tree node with one child only lengthens the walk.
        let least = if level > 0 { 2 } else { 1 };
        count < self.limit(level).div_ceil(4).max(least)
    }

    /// Merges the tree node of `level` where `key` belongs with neighbours under the same parent,
    /// as long as it underflows and both fit into one; also merges the parent, if that underflows
    /// then. Returns whether anything was merged.
    fn merge(&self, key: u64, level: u8) -> bool {
        let mut merged = false;
        self.insist(|| {
            let (parent, _) = self.descend(key, level + 1)?;
            if parent.node.meta().level != level + 1 {
                return parent.is_still().then_some(Break(merged));
            }
            let above = parent.node.upgrade(parent.latch)?;
            let is_root = above.node().index == ROOT;
            if above.count() == 1 {
                if is_root {
                    return Some(Break(self.collapse(above) || merged));
                }
                above.leave();
                // Merging the parent with its neighbours gives the tree node siblings.
                let has_more = self.merge(key, level + 1);
                return Some(if has_more {
                    Continue(())
                } else {
                    Break(merged)
                });
            }
            let Some(underflow) = self.join(above, key) else {
                return Some(Break(merged));
            };
            merged = true;
            if underflow && !is_root {
                self.merge(key, level + 1);
            }
            Some(Continue(()))
        })
    }

    /// Moves the content of the root's only child into the root, unless the child is pinned.
    fn collapse(&self, mut root: Writer<'_>) -> bool {
        let mut child = self.node(root.node().child(0).index).lock();
        if self.inner.pins.holds(child.node().index) {
            child.leave();
            root.leave();
            return false;
        }
        let (level, entries) = (child.level(), child.truncate(0));
        root.begin(root.epoch(), level, self.inner.superblock.tree);
        for entry in entries {
            root.push(entry);
        }
        root.publish();
        self.free_node(child);
        root.unlock();
        Counters::count(&self.inner.counters.merges);
        true
    }

    /// Joins the child where `key` belongs with a neighbour, if it underflows and both fit. Returns
    /// whether the parent underflows then; `None` if nothing was done.
    fn join(&self, mut parent: Writer<'_>, key: u64) -> Option<bool> {
        let at = parent.node().child_index(parent.count(), key);
        // The right one of the two is freed: the neighbour if possible, else the child itself.
        let pairs = [(at + 1, at), (at, at)];
        let there = |(right, _): &(usize, usize)| (1..parent.count()).contains(right);
        let pairs = pairs.into_iter().filter(there);
        let Some((right_at, (mut left, mut right))) =
            pairs.into_iter().find_map(|(right_at, child)| {
                Some((right_at, self.lock_pair(&parent, right_at, child)?))
            })
        else {
            parent.leave();
            return None;
        };
        let (last, next) = (right.last(), right.next());
        for entry in right.truncate(0) {
            left.push(entry);
        }
        left.set_fences(left.low(), last);
        left.set_next(next);
        left.publish();
        parent.remove(right_at);
        parent.publish();
        let underflow = self.underflows(parent.count(), parent.level());
        // While the left one is locked: no thread may change what both contain.
        self.free_node(right);
        parent.unlock();
        left.unlock();
        Counters::count(&self.inner.counters.merges);
        Some(underflow)
    }

    /// Locks the child at `right_at` and its left neighbour, if the one at `child` underflows, both
    /// fit into one, and the right one is not pinned.
    fn lock_pair<'a>(
        &'a self,
        parent: &Writer<'a>,
        right_at: usize,
        child: usize,
    ) -> Option<(Writer<'a>, Writer<'a>)> {
        let lock = |at: usize| self.node(parent.node().child(at).index).lock();
        let (left, right) = (lock(right_at - 1), lock(right_at));
        let limit = self.limit(left.level());
        let one = if child == right_at { &right } else { &left };
        let wanted = self.underflows(one.count(), left.level());
        let fits = left.count() + right.count() <= limit - limit / 4;
        // Checked under the latch: a concurrent pin is either set by now, or will find the tree
        // node free.
        if wanted && fits && !self.inner.pins.holds(right.node().index) {
            return Some((left, right));
        }
        right.leave();
        left.leave();
        None
    }
}
