//! Removing keys, and tree nodes that have become too empty.

use super::error::TreeError;
use super::tree::{Counters, Tree};
use super::writer::Writer;
use rackweave_wire::fabric::tree::{ROOT, ValueRef};

impl Tree {
    /// Removes a key. False if it was absent.
    ///
    /// # Errors
    /// If the key is out of bounds.
    pub fn remove(&self, key: u64) -> Result<bool, TreeError> {
        loop {
            let Some((leaf, _)) = self.descend(key, 0) else {
                self.restarted();
                continue;
            };
            let node = leaf.node;
            let count = node.count(node.meta());
            let index = node.lower_bound(count, key);
            let found = index < count && node.key(index) == key;
            if !found {
                let covered = node.covers(key);
                if leaf.is_still() {
                    if !covered {
                        let (low, last) = self.bounds();
                        return Err(TreeError::OutOfBounds { key, low, last });
                    }
                    return Ok(false);
                }
                self.restarted();
                continue;
            }
            let Some(mut writer) = node.upgrade(leaf.latch) else {
                self.restarted();
                continue;
            };
            let old = writer.remove(index);
            let underflow = Self::underflows(writer.count(), node.capacity());
            writer.finish();
            if old.is_reference {
                let reference = ValueRef::from_word(old.value);
                self.inner.heap.free(&self.inner.arena, reference);
            }
            if underflow && node.index != ROOT {
                self.merge(key, 0);
            }
            return Ok(true);
        }
    }

    fn underflows(count: usize, capacity: usize) -> bool {
        count < capacity.div_ceil(4)
    }

    /// Merges the tree node of `level` where `key` belongs with neighbours under the same parent,
    /// as long as it underflows and both fit into one; and the parent, if that underflows then.
    /// Returns whether anything was merged.
    fn merge(&self, key: u64, level: u8) -> bool {
        let mut merged = false;
        loop {
            let Some((parent, _)) = self.descend(key, level + 1) else {
                self.restarted();
                continue;
            };
            if parent.node.meta().level != level + 1 {
                if parent.is_still() {
                    return merged;
                }
                self.restarted();
                continue;
            }
            let Some(above) = parent.node.upgrade(parent.latch) else {
                self.restarted();
                continue;
            };
            let is_root = above.node().index == ROOT;
            if above.count() == 1 {
                if is_root {
                    self.collapse(above);
                    return true;
                }
                above.leave();
                // With its parent's neighbours it gets neighbours of its own.
                if !self.merge(key, level + 1) {
                    return merged;
                }
                continue;
            }
            let Some(underflow) = self.join(above, key) else {
                return merged;
            };
            merged = true;
            if underflow && !is_root {
                self.merge(key, level + 1);
            }
        }
    }

    /// The root takes over the content of its only child.
    fn collapse(&self, mut root: Writer<'_>) {
        let mut child = self.node(root.node().child(0).index).lock();
        let (level, entries) = (child.level(), child.truncate(0));
        root.begin(root.epoch(), level, self.inner.superblock.tree);
        for entry in entries {
            root.push(entry);
        }
        root.publish();
        self.free_node(child);
        root.unlock();
        Counters::count(&self.inner.counters.merges);
    }

    /// Joins the child where `key` belongs with a neighbour, if it underflows and both fit. Returns
    /// whether the parent underflows then; none if nothing was done.
    fn join(&self, mut parent: Writer<'_>, key: u64) -> Option<bool> {
        let at = parent.node().child_index(parent.count(), key);
        // The right one of the two goes.
        let right_at = if at + 1 < parent.count() { at + 1 } else { at };
        let child = |at: usize| self.node(parent.node().child(at).index);
        let (mut left, mut right) = (child(right_at - 1).lock(), child(right_at).lock());
        let capacity = parent.node().capacity();
        let one = if at == right_at { &right } else { &left };
        let wanted = Self::underflows(one.count(), capacity);
        if !wanted || left.count() + right.count() > capacity - capacity / 4 {
            right.leave();
            left.leave();
            parent.leave();
            return None;
        }
        let (last, next) = (right.last(), right.next());
        for entry in right.truncate(0) {
            left.push(entry);
        }
        left.set_fences(left.low(), last);
        left.set_next(next);
        left.publish();
        parent.remove(right_at);
        parent.publish();
        let underflow = Self::underflows(parent.count(), capacity);
        // While the left one is locked: nobody may change what both say.
        self.free_node(right);
        parent.unlock();
        left.unlock();
        Counters::count(&self.inner.counters.merges);
        Some(underflow)
    }
}
