//! The result of a READ of a tree node.

use super::layout::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LOW_WORD, Layout, META_WORD, Meta, NEXT_WORD,
    NodePointer, ROOT, TREE_WORD, check_of_entry, check_of_header, identity,
};
use super::record::ValueRef;

/// The consistent bytes of a tree node.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    layout: Layout,
    bytes: &'a [u8],
    meta: Meta,
}

/// The value of an entry, or its location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// In the entry: eight bytes, little-endian.
    Inline(u64),
    /// In the heap.
    Reference(ValueRef),
}

/// Why bytes cannot be used as a tree node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// The bytes are from different moments: the check does not match, or the keys are out of
    /// order. Another READ may succeed.
    #[error("the tree node is torn")]
    Torn,
    /// The tree node is free or has been reused. The pointer to it is out of date.
    #[error("the tree node has epoch {found}, the pointer {expected}")]
    Stale {
        /// The epoch of the bytes.
        found: u32,
        /// The epoch of the pointer.
        expected: u32,
    },
    /// The bytes belong to another tree.
    #[error("the tree node says that it is {found:#x}, which is none of the tree {expected:#x}")]
    Foreign {
        /// The identity in the bytes: see [`identity`].
        found: u64,
        /// The name of the expected tree.
        expected: u64,
    },
    /// The bytes are consistent but not a tree node: an entry is missing where there must be one,
    /// or keys are outside the fences.
    #[error("the tree node is malformed")]
    Malformed,
}

impl<'a> Image<'a> {
    /// The tree node in the bytes of a READ, if it is the one that `pointer` refers to.
    ///
    /// # Errors
    /// If the bytes are inconsistent or something else.
    ///
    /// # Panics
    /// If there are fewer bytes than a tree node has.
    pub fn verify(
        layout: Layout,
        bytes: &'a [u8],
        tree: u64,
        pointer: NodePointer,
    ) -> Result<Self, Unusable> {
        let image = Self::unverified(layout, bytes);
        // Before the check: that of a freed tree node does not match.
        if image.meta.epoch != pointer.epoch {
            return Err(Unusable::Stale {
                found: image.meta.epoch,
                expected: pointer.epoch,
            });
        }
        if !image.check_fits(pointer.index) {
            return Err(Unusable::Torn);
        }
        let found = image.word(TREE_WORD);
        if found != identity(tree, pointer.index) {
            return Err(Unusable::Foreign {
                found,
                expected: tree,
            });
        }
        image.consistent()
    }

    /// The tree node in the bytes of a READ whose address the reader did not choose, if it is in
    /// use and belongs to the tree `tree` of `tree_nodes` tree nodes; with the pointer to it.
    ///
    /// # Errors
    /// If the bytes are inconsistent or something else: [`Unusable::Foreign`] if there is no such
    /// tree node, [`Unusable::Stale`] if it is free (then `expected` is the epoch that it would
    /// have in use).
    ///
    /// # Panics
    /// If there are fewer bytes than a tree node has.
    pub fn verify_any(
        layout: Layout,
        bytes: &'a [u8],
        tree: u64,
        tree_nodes: u32,
    ) -> Result<(Self, NodePointer), Unusable> {
        let image = Self::unverified(layout, bytes);
        let Some(pointer) = image.pointer(tree, tree_nodes) else {
            return Err(Unusable::Foreign {
                found: image.word(TREE_WORD),
                expected: tree,
            });
        };
        if !image.meta.is_live() {
            return Err(Unusable::Stale {
                found: pointer.epoch,
                expected: pointer.epoch | 1,
            });
        }
        if !image.check_fits(pointer.index) {
            return Err(Unusable::Torn);
        }
        Ok((image.consistent()?, pointer))
    }

    /// The pointer to the tree node identified by the bytes, if the tree `tree` of `tree_nodes`
    /// tree nodes has it.
    pub fn pointer(&self, tree: u64, tree_nodes: u32) -> Option<NodePointer> {
        // The xor is its own inverse.
        let index = u32::try_from(self.word(TREE_WORD) ^ tree).ok()?;
        let epoch = self.meta.epoch;
        let is_place = (ROOT..tree_nodes).contains(&index);
        is_place.then_some(NodePointer { index, epoch })
    }

    /// Whether the words are from one moment, as far as a sum can show.
    fn check_fits(&self, index: u32) -> bool {
        if self.count() > self.layout.capacity() {
            return false;
        }
        let header = [META_WORD, LOW_WORD, LAST_WORD, NEXT_WORD, TREE_WORD];
        let [meta, low, last, next, who] = header.map(|at| self.word(at));
        let mut sum = check_of_header(index, meta, low, last, next, who);
        for index in 0..self.count() {
            let (key, value) = self.words(index);
            sum = sum.wrapping_add(check_of_entry(key, value, self.is_reference(index)));
        }
        sum == self.word(CHECK_WORD)
    }

    /// Returns the image if its keys are in the right positions.
    fn consistent(self) -> Result<Self, Unusable> {
        // The sum does not depend on positions. A line from an older moment may have an entry,
        // since removed, behind the last one, and so stand in for the line where that entry is now.
        // But if all keys are in order, the right entries are in their positions.
        if !self.ascends() {
            return Err(Unusable::Torn);
        }
        self.well_formed()
            .then_some(self)
            .ok_or(Unusable::Malformed)
    }

    /// The bytes without a check. Reads from them may return anything.
    ///
    /// # Panics
    /// If there are fewer bytes than a tree node has.
    pub fn unverified(layout: Layout, bytes: &'a [u8]) -> Self {
        assert!(bytes.len() >= layout.bytes(), "a whole tree node");
        let mut image = Self {
            layout,
            bytes,
            meta: Meta::from_word(0),
        };
        image.meta = Meta::from_word(image.word(META_WORD));
        image
    }

    fn ascends(&self) -> bool {
        let keys = || (0..self.count()).map(|index| self.words(index).0);
        keys().zip(keys().skip(1)).all(|(a, b)| a < b)
    }

    /// Keys are within the fences; an inner tree node has a child for every key.
    fn well_formed(&self) -> bool {
        let keys = || (0..self.count()).map(|index| self.words(index).0);
        let inside = keys().all(|key| (self.low()..=self.last()).contains(&key));
        let complete = self.is_leaf() || keys().next() == Some(self.low());
        self.low() <= self.last() && inside && complete
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes[at * 8..].first_chunk();
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn words(&self, index: usize) -> (u64, u64) {
        let at = self.layout.entry(index);
        (self.word(at), self.word(at + 1))
    }

    fn is_reference(&self, index: usize) -> bool {
        self.word(FIRST_BITMAP_WORD + index / 64) >> (index % 64) & 1 == 1
    }

    /// Epoch, level and number of entries.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Whether it has values rather than children.
    pub fn is_leaf(&self) -> bool {
        self.meta.level == 0
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        usize::from(self.meta.count)
    }

    /// The least key that belongs here.
    pub fn low(&self) -> u64 {
        self.word(LOW_WORD)
    }

    /// The greatest key that belongs here.
    pub fn last(&self) -> u64 {
        self.word(LAST_WORD)
    }

    /// The tree node to the right, on the same level.
    pub fn next(&self) -> Option<NodePointer> {
        let pointer = NodePointer::from_word(self.word(NEXT_WORD));
        (!pointer.is_none()).then_some(pointer)
    }

    /// The first entry whose key is `key` or more.
    fn lower_bound(&self, key: u64) -> usize {
        let (mut from, mut len) = (0, self.count().min(self.layout.capacity()));
        while len > 0 {
            let half = len / 2;
            if self.words(from + half).0 < key {
                from += half + 1;
                len -= half + 1;
            } else {
                len = half;
            }
        }
        from
    }

    /// The value of a key in a leaf.
    pub fn find(&self, key: u64) -> Option<Value> {
        let index = self.lower_bound(key);
        self.entry(index)
            .filter(|&(found, _)| found == key)
            .map(|(_, value)| value)
    }

    /// The child of an inner tree node to which a key belongs, and its least key.
    pub fn child(&self, key: u64) -> Option<(u64, NodePointer)> {
        let above = self.lower_bound(key);
        let exact = above < self.count() && self.words(above).0 == key;
        let index = if exact { above } else { above.checked_sub(1)? };
        let (low, pointer) = self.words(index);
        Some((low, NodePointer::from_word(pointer)))
    }

    /// The entry of a leaf at an index.
    pub fn entry(&self, index: usize) -> Option<(u64, Value)> {
        if index >= self.count().min(self.layout.capacity()) {
            return None;
        }
        let (key, word) = self.words(index);
        let value = if self.is_reference(index) {
            Value::Reference(ValueRef::from_word(word))
        } else {
            Value::Inline(word)
        };
        Some((key, value))
    }

    /// The entries of a leaf, in ascending order of keys.
    pub fn entries(&self) -> impl Iterator<Item = (u64, Value)> {
        (0..self.count()).map_while(|index| self.entry(index))
    }
}

#[cfg(test)]
mod tests;
