//! Lookups that begin at a hinted tree node.
//!
//! The tree node index is a hint from outside: it comes from a switch that knew the tree some time
//! ago, or may have been damaged in transit. The hinted tree node is used if it is in use and has
//! the key between its fences. If the key is to the right, the walk follows right neighbours, as in
//! a B-link tree. Otherwise the walk begins at the root, as it would without a hint.

use super::tree::{Found, LatchedNode, Tree, found_at};
use rackweave_wire::fabric::tree::ROOT;

/// Maximum number of right neighbours that are followed.
const FOLLOWED_MAX: u8 = 4;

/// How often writers may interfere with a walk from the hint before it begins at the root.
const TRIES: u32 = 2;

/// Where a lookup began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The level of the tree node, zero for a leaf; `None` if it was the root.
    pub level: Option<u8>,
    /// Levels that the walk visited.
    pub walked: u8,
    /// Levels that the walk skipped.
    pub skipped: u8,
    /// Neighbours followed from the hinted tree node.
    pub followed: u8,
}

/// The outcome of a walk.
enum Walk<'a> {
    /// A leaf was found: the leaf, the level where the walk began, and the neighbours followed.
    Leaf(LatchedNode<'a>, u8, u8),
    /// The hint is not usable.
    Useless,
    /// A writer interfered.
    Disturbed,
}

impl Tree {
    /// As [`Tree::lookup`], beginning at tree node `node` if that is in use and leads to the key.
    /// Zero stands for no tree node. The result is the same whatever the number is.
    pub fn lookup_from(&self, node: u32, key: u64, value: &mut Vec<u8>) -> (bool, Begun) {
        for _ in 0..TRIES {
            match self.walk_from(node, key) {
                Walk::Leaf(leaf, level, followed) => {
                    if let Some(found) = self.read_leaf(&leaf, key, value) {
                        let walked = level + 1;
                        let begun = Begun {
                            level: Some(level),
                            walked,
                            skipped: (self.levels() as u8).saturating_sub(walked),
                            followed,
                        };
                        return (found, begun);
                    }
                }
                Walk::Useless => break,
                Walk::Disturbed => {}
            }
            self.restarted();
        }
        let found = self.lookup(key, value);
        let begun = Begun {
            level: None,
            walked: self.levels() as u8,
            skipped: 0,
            followed: 0,
        };
        (found, begun)
    }

    /// The tree node at an index that may be invalid.
    fn maybe(&self, index: u32) -> Option<LatchedNode<'_>> {
        let is_place = (ROOT..self.inner.superblock.tree_nodes).contains(&index);
        is_place.then(|| {
            let node = self.node(index);
            let latch = node.latch().read();
            LatchedNode { node, latch }
        })
    }

    fn walk_from(&self, node: u32, key: u64) -> Walk<'_> {
        if node == ROOT {
            return Walk::Useless;
        }
        let Some(mut place) = self.maybe(node) else {
            return Walk::Useless;
        };
        let mut followed = 0;
        let level = loop {
            let (meta, last, next) = (place.node.meta(), place.node.last(), place.node.next());
            let leads = meta.is_live() && place.node.low() <= key;
            let neighbour = if leads && key > last && followed < FOLLOWED_MAX {
                self.maybe(next.index).filter(|_| !next.is_none())
            } else {
                None
            };
            // The neighbour existed when this tree node pointed to it, so it is the right one.
            if !place.is_still() {
                return Walk::Disturbed;
            }
            if !leads {
                return Walk::Useless;
            }
            if key <= last {
                break meta.level;
            }
            let Some(neighbour) = neighbour else {
                return Walk::Useless;
            };
            place = neighbour;
            followed += 1;
        };
        match self.down(place, key) {
            Some(leaf) => Walk::Leaf(leaf, level, followed),
            None => Walk::Disturbed,
        }
    }

    /// Descends from a tree node that has the key between its fences.
    fn down<'a>(&'a self, mut place: LatchedNode<'a>, key: u64) -> Option<LatchedNode<'a>> {
        loop {
            let meta = place.node.meta();
            if meta.level == 0 {
                return place.is_still().then_some(place);
            }
            let index = place.node.child_index(place.node.count(meta), key);
            let child = self.maybe(place.node.child(index).index);
            if !place.is_still() {
                return None;
            }
            place = child?;
        }
    }

    /// Copies the value of a key in the leaf into `value`; `None` if a writer interfered.
    fn read_leaf(&self, leaf: &LatchedNode<'_>, key: u64, value: &mut Vec<u8>) -> Option<bool> {
        value.clear();
        let node = leaf.node;
        let count = node.count(node.meta());
        let index = node.lower_bound(count, key);
        let found = found_at(node, index, count, key);
        match &found {
            None => {}
            Some(Found::Inline(word)) => value.extend(word.to_le_bytes()),
            Some(Found::Reference(reference)) => {
                self.inner.heap.read(&self.inner.arena, *reference, value);
            }
        }
        leaf.is_still().then_some(found.is_some())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "start_tests.rs"]
mod tests;
