//! Scans: leaf after leaf, each in a consistent state, and none twice.
//!
//! A scan continues beyond the fences of the leaf that it has finished. So it returns no key twice,
//! and returns every key that is present throughout, whatever is split or merged meanwhile.

use super::records::Reference;
use super::walk::{Walk, is_place};
use super::{Parts, Query};
use crate::btree::Direction;
use crate::index::op::Value;
use rackweave_wire::fabric::tree::{self, Image};

impl Walk {
    /// Takes the entries of the cursor's leaf.
    pub(super) fn scan_leaf(&mut self, parts: &mut Parts<'_>, image: &Image<'_>) {
        let Query::Scan {
            low,
            last,
            direction,
            limit,
        } = self.query
        else {
            return;
        };
        self.fences = (image.low(), image.last());
        self.next = image.next();
        self.references.clear();
        let wanted = match direction {
            Direction::Forward => self.cursor..=last,
            Direction::Backward => low..=self.cursor,
        };
        let room = limit as usize - self.finished;
        let place = |at| match direction {
            Direction::Forward => at,
            Direction::Backward => image.count() - 1 - at,
        };
        let entries = (0..image.count()).map_while(|at| image.entry(place(at)));
        for (key, value) in entries.filter(|(key, _)| wanted.contains(key)).take(room) {
            let value = match value {
                tree::Value::Inline(word) => Value::from(&word.to_le_bytes()[..]),
                tree::Value::Reference(value) => {
                    let entry = self.entries.len();
                    self.references.push(Reference { key, value, entry });
                    Value::from(&[][..])
                }
            };
            self.entries.push((key, value));
        }
        if self.references.is_empty() {
            self.leaf_done(parts);
        } else {
            self.read_records(parts, 0);
        }
    }

    /// Finishes a leaf whose values are all present.
    pub(super) fn leaf_done(&mut self, parts: &mut Parts<'_>) {
        let Query::Scan {
            low,
            last,
            direction,
            limit,
        } = self.query
        else {
            return;
        };
        parts.statistics.leaves_scanned += 1;
        self.finished = self.entries.len();
        self.restarts = 0;
        // Always past the cursor: whatever the fences say, a scan makes progress.
        let cursor = match direction {
            Direction::Forward => self.fences.1.max(self.cursor).checked_add(1),
            Direction::Backward => self.fences.0.min(self.cursor).checked_sub(1),
        };
        let cursor = cursor.filter(|next| (low..=last).contains(next));
        match cursor.filter(|_| self.finished < limit as usize) {
            Some(cursor) => {
                self.cursor = cursor;
                self.next_leaf(parts, direction);
            }
            None => self.read_version(parts),
        }
    }

    /// Goes to the leaf of the cursor, which is next to the finished one.
    fn next_leaf(&mut self, parts: &mut Parts<'_>, direction: Direction) {
        if direction == Direction::Forward {
            if let Some(next) = self.next.filter(|&next| is_place(parts, next)) {
                self.at = next;
                self.level = Some(0);
                return self.read(parts);
            }
            return self.start(parts);
        }
        // Leaves have no left pointer, but the parent knows the left neighbour.
        if !self.parent.is_empty() {
            let parent = Image::unverified(parts.remote.layout, &self.parent);
            let fits = (parent.low()..=parent.last()).contains(&self.cursor);
            let child = parent.child(self.cursor).filter(|_| fits);
            if let Some((_, child)) = child.filter(|(_, child)| is_place(parts, *child)) {
                self.at = child;
                self.level = Some(0);
                return self.read(parts);
            }
        }
        self.start(parts);
    }
}
