//! Splits of full tree nodes.

use super::error::TreeError;
use super::node::Entry;
use super::tree::{Counters, Tree};
use super::writer::Writer;
use core::ops::ControlFlow::{Break, Continue};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::tree::{NodePointer, ROOT};

impl Tree {
    /// Splits the tree node of `level` where `key` belongs, if it is still full.
    pub(super) fn split(&self, key: u64, level: u8) -> Result<(), TreeError> {
        let mut has_moved = false;
        self.insist(|| {
            let again = |done: Result<(), TreeError>| match done {
                Ok(()) => Continue(()),
                Err(error) => Break(Err(error)),
            };
            let (place, parent) = self.descend(key, level)?;
            let (node, meta) = (place.node, place.node.meta());
            if meta.level != level || node.count(meta) < self.limit(level) {
                return place.is_still().then_some(Break(Ok(())));
            }
            let Some(parent) = parent else {
                let root = node.upgrade(place.latch)?;
                return Some(Break(self.grow(root, key)));
            };
            let parent_meta = parent.node.meta();
            if parent.node.count(parent_meta) >= self.limit(level + 1) {
                let still = parent.is_still();
                return still.then(|| again(self.split(key, level + 1)));
            }
            let above = parent.node.upgrade(parent.latch)?;
            let Some(left) = node.upgrade(place.latch) else {
                above.leave();
                return None;
            };
            // With the planted bug the tree ignores pins, and both halves are new. The new index
            // may have been pinned, too: moving once is enough.
            let moves = planted(Canary::IndexUnpinnedSplit) && !has_moved;
            if moves && self.inner.pins.holds(node.index) {
                has_moved = true;
                return Some(again(self.move_away(above, left, key)));
            }
            Some(Break(self.halve(above, left, key)))
        })
    }

    /// The index at which to split a full tree node into which `key` is to be inserted. Keys that
    /// are inserted in ascending order leave nearly full tree nodes behind.
    fn cut(writer: &Writer<'_>, key: u64) -> usize {
        let count = writer.count();
        let appended = writer.next().is_none() && writer.node().key(count - 1) < key;
        // At least one entry stays on each side: an inner tree node has a child for its low fence.
        let cut = if appended {
            count - count / 8
        } else {
            count / 2
        };
        cut.clamp(1, count - 1)
    }

    /// Moves the right part of a full tree node to a new one, and updates the parent, which has a
    /// free entry.
    fn halve(
        &self,
        mut parent: Writer<'_>,
        mut left: Writer<'_>,
        key: u64,
    ) -> Result<(), TreeError> {
        let mut right = match self.new_node(left.level()) {
            Ok(right) => right,
            Err(error) => {
                left.leave();
                parent.leave();
                return Err(error);
            }
        };
        let cut = Self::cut(&left, key);
        let first = left.node().key(cut);
        let pointer = NodePointer {
            index: right.node().index,
            epoch: right.epoch(),
        };
        for entry in left.truncate(cut) {
            right.push(entry);
        }
        right.set_fences(first, left.last());
        right.set_next(left.next());
        right.publish();
        left.set_fences(left.low(), first - 1);
        left.set_next(pointer);
        left.publish();
        let index = parent.node().lower_bound(parent.count(), first);
        parent.insert(index, Entry::child(first, pointer));
        parent.finish();
        left.unlock();
        right.unlock();
        Counters::count(&self.inner.counters.splits);
        Ok(())
    }

    /// Moves a full tree node to a new index, where it is split next, and frees the old one.
    /// Pointers from outside the tree become invalid.
    pub(super) fn move_away(
        &self,
        mut parent: Writer<'_>,
        mut old: Writer<'_>,
        key: u64,
    ) -> Result<(), TreeError> {
        let at = parent.node().child_index(parent.count(), key);
        let Some(before) = at.checked_sub(1) else {
            // Its left neighbour has another parent, which is not locked here.
            return self.halve(parent, old, key);
        };
        let mut new = match self.new_node(old.level()) {
            Ok(new) => new,
            Err(error) => {
                old.leave();
                parent.leave();
                return Err(error);
            }
        };
        // This locks to the left, against the order: a thread that holds two latches on this level
        // holds their parent.
        let mut neighbour = self.node(parent.node().child(before).index).lock();
        let pointer = NodePointer {
            index: new.node().index,
            epoch: new.epoch(),
        };
        for entry in old.truncate(0) {
            new.push(entry);
        }
        new.set_fences(old.low(), old.last());
        new.set_next(old.next());
        new.publish();
        neighbour.set_next(pointer);
        neighbour.publish();
        parent.replace(at, Entry::child(old.low(), pointer));
        parent.publish();
        self.free_node(old);
        new.unlock();
        neighbour.unlock();
        parent.unlock();
        Ok(())
    }

    /// Moves the content of a full root to two new children.
    fn grow(&self, mut root: Writer<'_>, key: u64) -> Result<(), TreeError> {
        debug_assert_eq!(root.node().index, ROOT);
        let level = root.level();
        let (left, right) = match (self.new_node(level), self.new_node(level)) {
            (Ok(left), Ok(right)) => (left, right),
            (left, right) => {
                let failed = match (left, right) {
                    (Ok(made), Err(error)) | (Err(error), Ok(made)) => {
                        self.free_node(made);
                        error
                    }
                    (Err(error), _) => error,
                    (Ok(_), Ok(_)) => unreachable!("handled above"),
                };
                root.leave();
                return Err(failed);
            }
        };
        let (mut left, mut right) = (left, right);
        let cut = Self::cut(&root, key);
        let first = root.node().key(cut);
        let pointer = |writer: &Writer<'_>| NodePointer {
            index: writer.node().index,
            epoch: writer.epoch(),
        };
        for entry in root.truncate(cut) {
            right.push(entry);
        }
        right.set_fences(first, root.last());
        right.set_next(NodePointer::NONE);
        right.publish();
        for entry in root.truncate(0) {
            left.push(entry);
        }
        left.set_fences(root.low(), first - 1);
        left.set_next(pointer(&right));
        left.publish();
        root.begin(root.epoch(), level + 1, self.inner.superblock.tree);
        root.push(Entry::child(root.low(), pointer(&left)));
        root.push(Entry::child(first, pointer(&right)));
        root.finish();
        left.unlock();
        right.unlock();
        Counters::count(&self.inner.counters.splits);
        Ok(())
    }
}
