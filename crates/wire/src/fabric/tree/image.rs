//! What a READ of a tree node brought.

use super::layout::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LOW_WORD, Layout, META_WORD, Meta, NEXT_WORD,
    NodePointer, TREE_WORD, check_of_entry, check_of_header,
};
use super::record::ValueRef;

/// The bytes of a tree node that hold together.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    layout: Layout,
    bytes: &'a [u8],
    meta: Meta,
}

/// Where the value of an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Here: eight bytes, little-endian.
    Inline(u64),
    /// In the heap.
    Reference(ValueRef),
}

/// Why bytes cannot be taken for a tree node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// The bytes are of different moments: the check does not fit, or the keys are out of order.
    /// Another READ may do.
    #[error("the tree node is torn")]
    Torn,
    /// The tree node is free or has become another one. Whoever led here is out of date.
    #[error("the tree node has epoch {found}, the pointer {expected}")]
    Stale {
        /// The epoch of the bytes.
        found: u32,
        /// The epoch of the pointer.
        expected: u32,
    },
    /// The bytes belong to another tree.
    #[error("the tree node belongs to tree {found:#x}, not to {expected:#x}")]
    Foreign {
        /// The tree of the bytes.
        found: u64,
        /// The tree that was meant.
        expected: u64,
    },
    /// It holds together and is still none: no entry where there must be one, or keys outside of
    /// the fences.
    #[error("the tree node is malformed")]
    Malformed,
}

impl<'a> Image<'a> {
    /// The tree node in the bytes of a READ, if that is what `pointer` means.
    ///
    /// # Errors
    /// If the bytes do not hold together or are something else.
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
        let header = [META_WORD, LOW_WORD, LAST_WORD, NEXT_WORD, TREE_WORD];
        let [meta, low, last, next, of] = header.map(|at| image.word(at));
        // Before the check: what was freed has none that fits.
        if image.meta.epoch != pointer.epoch {
            return Err(Unusable::Stale {
                found: image.meta.epoch,
                expected: pointer.epoch,
            });
        }
        if image.count() > layout.capacity() {
            return Err(Unusable::Torn);
        }
        let mut sum = check_of_header(pointer.index, meta, low, last, next, of);
        for index in 0..image.count() {
            let (key, value) = image.words(index);
            sum = sum.wrapping_add(check_of_entry(key, value, image.is_reference(index)));
        }
        if sum != image.word(CHECK_WORD) {
            return Err(Unusable::Torn);
        }
        if of != tree {
            return Err(Unusable::Foreign {
                found: of,
                expected: tree,
            });
        }
        // The sum does not see places. A line of an older moment may have an entry that was removed
        // behind the last one, and so stand in for the line where that entry is now. If all is in
        // order, though, the right entries are in their places.
        if !image.ascends() {
            return Err(Unusable::Torn);
        }
        image
            .well_formed()
            .then_some(image)
            .ok_or(Unusable::Malformed)
    }

    /// The bytes as they are. What is read from them may be anything.
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

    /// Whether it has values and not children.
    pub fn is_leaf(&self) -> bool {
        self.meta.level == 0
    }

    /// Entries.
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

    /// The entry of a leaf at a place.
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
mod tests {
    use super::*;

    const TREE: u64 = 9;
    const POINTER: NodePointer = NodePointer { index: 4, epoch: 7 };

    fn layout() -> Layout {
        Layout::new(512).expect("a size that there is")
    }

    /// A leaf of keys up to 1000 with these entries, and what lies behind them.
    fn leaf(entries: &[(u64, u64)], behind: &[(u64, u64)]) -> Vec<u64> {
        let layout = layout();
        let mut words = vec![0; layout.words()];
        let meta = Meta {
            epoch: POINTER.epoch,
            level: 0,
            count: entries.len() as u16,
        };
        words[META_WORD] = meta.to_word();
        words[LAST_WORD] = 1000;
        words[TREE_WORD] = TREE;
        let sum = check_of_header(POINTER.index, meta.to_word(), 0, 1000, 0, TREE);
        words[CHECK_WORD] = entries.iter().fold(sum, |sum, &(key, value)| {
            sum.wrapping_add(check_of_entry(key, value, false))
        });
        for (index, &(key, value)) in entries.iter().chain(behind).enumerate() {
            words[layout.entry(index)] = key;
            words[layout.entry(index) + 1] = value;
        }
        words
    }

    fn verify(words: &[u64]) -> Result<usize, Unusable> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Image::verify(layout(), &bytes, TREE, POINTER).map(|image| image.count())
    }

    #[test]
    fn a_mix_of_two_moments_is_torn_even_if_the_sum_is_right() {
        let old = leaf(&[(1, 10), (2, 20), (4, 40)], &[(3, 30)]);
        let new = leaf(&[(1, 10), (2, 20), (3, 30), (4, 40)], &[]);
        assert_eq!((verify(&old), verify(&new)), (Ok(3), Ok(4)));
        // The new header with the old entries: all four of them, two in each other's place.
        let entries = layout().entry(0);
        let mixed = [&new[..entries], &old[entries..]].concat();
        assert_eq!(verify(&mixed), Err(Unusable::Torn));
        // And with any other number of old words at either end: torn, or all that counts of one.
        let content = |words: &[u64]| {
            let end = layout().entry(usize::from(Meta::from_word(words[META_WORD]).count));
            words[CHECK_WORD..end].to_vec()
        };
        for cut in CHECK_WORD..layout().entry(4) {
            for (one, other) in [(&old, &new), (&new, &old)] {
                let mixed = [&one[..cut], &other[cut..]].concat();
                let is_whole = [one, other]
                    .iter()
                    .any(|all| content(all) == content(&mixed));
                let torn = Err(Unusable::Torn);
                assert!(verify(&mixed) == torn || is_whole, "cut at word {cut}");
            }
        }
    }

    #[test]
    fn what_belongs_elsewhere_is_told() {
        let good = leaf(&[(1, 10)], &[]);
        let bytes: Vec<u8> = good.iter().flat_map(|word| word.to_le_bytes()).collect();
        let with = |tree, pointer| Image::verify(layout(), &bytes, tree, pointer).map(|_| ());
        let stale = NodePointer {
            epoch: 9,
            ..POINTER
        };
        let (expected, found) = (9, 7);
        let error = Err(Unusable::Stale { found, expected });
        assert_eq!(with(TREE, stale), error);
        let (expected, found) = (8, TREE);
        let error = Err(Unusable::Foreign { found, expected });
        assert_eq!(with(8, POINTER), error);
        let elsewhere = NodePointer {
            index: 5,
            ..POINTER
        };
        assert_eq!(with(TREE, elsewhere), Err(Unusable::Torn));
        assert_eq!(verify(&leaf(&[(1001, 1)], &[])), Err(Unusable::Malformed));
    }
}
