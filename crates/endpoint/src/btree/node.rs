//! Read access to a tree node. Write access is in `writer`.

use super::latch::Latch;
use super::sync::{AtomicU64, Ordering};
use super::writer::Writer;
use rackweave_wire::fabric::tree::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LATCH_WORD, LOW_WORD, Layout, META_WORD, Meta,
    NEXT_WORD, NodePointer, TREE_WORD, check_of_entry, check_of_header,
};

/// A tree node in memory. What is read is valid if the latch has not changed since.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub index: u32,
    pub(super) layout: Layout,
    pub(super) words: &'a [AtomicU64],
}

/// An entry of a leaf or of an inner tree node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub key: u64,
    /// An eight-byte value, a reference or a pointer.
    pub value: u64,
    pub is_reference: bool,
}

impl Entry {
    pub fn child(key: u64, pointer: NodePointer) -> Self {
        Self {
            key,
            value: pointer.to_word(),
            is_reference: false,
        }
    }

    pub(super) fn check(self) -> u64 {
        check_of_entry(self.key, self.value, self.is_reference)
    }
}

impl<'a> Node<'a> {
    /// The tree node in these words.
    #[inline]
    pub fn new(index: u32, layout: Layout, words: &'a [AtomicU64]) -> Self {
        debug_assert_eq!(words.len(), layout.words());
        Self {
            index,
            layout,
            words,
        }
    }

    #[inline]
    pub(super) fn get(self, at: usize) -> u64 {
        u64::from_le(self.words[at].load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(self, at: usize, word: u64) {
        self.words[at].store(word.to_le(), Ordering::Relaxed);
    }

    #[inline]
    pub fn latch(self) -> Latch<'a> {
        Latch(&self.words[LATCH_WORD])
    }

    #[inline]
    pub fn meta(self) -> Meta {
        Meta::from_word(self.get(META_WORD))
    }

    /// The pointer that currently leads to this tree node.
    pub fn pointer(self) -> NodePointer {
        NodePointer {
            index: self.index,
            epoch: self.meta().epoch,
        }
    }

    #[inline]
    pub fn low(self) -> u64 {
        self.get(LOW_WORD)
    }

    #[inline]
    pub fn last(self) -> u64 {
        self.get(LAST_WORD)
    }

    /// Whether the key is between the fences.
    #[inline]
    pub fn covers(self, key: u64) -> bool {
        (self.low()..=self.last()).contains(&key)
    }

    /// Number of entries; never more than fit, whatever is read.
    #[inline]
    pub fn count(self, meta: Meta) -> usize {
        usize::from(meta.count).min(self.layout.capacity())
    }

    #[inline]
    pub fn key(self, index: usize) -> u64 {
        self.get(self.layout.entry(index))
    }

    #[inline]
    pub fn value(self, index: usize) -> u64 {
        self.get(self.layout.entry(index) + 1)
    }

    #[inline]
    pub fn is_reference(self, index: usize) -> bool {
        self.get(FIRST_BITMAP_WORD + index / 64) >> (index % 64) & 1 == 1
    }

    pub fn entry(self, index: usize) -> Entry {
        Entry {
            key: self.key(index),
            value: self.value(index),
            is_reference: self.is_reference(index),
        }
    }

    /// The first entry of `count` whose key is `key` or more.
    #[inline]
    pub fn lower_bound(self, count: usize, key: u64) -> usize {
        if count == 0 {
            return 0;
        }
        // No branches depend on keys: half of them would be mispredicted.
        let (mut from, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            from += usize::from(self.key(from + half - 1) < key) * half;
            len -= half;
        }
        from + usize::from(self.key(from) < key)
    }

    /// The index of the child to which a key belongs.
    #[inline]
    pub fn child_index(self, count: usize, key: u64) -> usize {
        if count == 0 {
            return 0;
        }
        let (mut from, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            from += usize::from(self.key(from + half) <= key) * half;
            len -= half;
        }
        from
    }

    /// The child at an index.
    #[inline]
    pub fn child(self, index: usize) -> NodePointer {
        NodePointer::from_word(self.value(index))
    }

    /// Acquires the latch if no thread has written since the latch was `word`.
    #[inline]
    pub fn upgrade(self, word: u64) -> Option<Writer<'a>> {
        self.latch().upgrade(word).then(|| Writer::new(self))
    }

    /// Acquires the latch. See [`Latch::lock`].
    pub fn lock(self) -> Writer<'a> {
        self.latch().lock();
        Writer::new(self)
    }

    pub fn capacity(self) -> usize {
        self.layout.capacity()
    }

    /// Computes the check word from the content.
    pub fn computed_check(self) -> u64 {
        let header = self.header_check();
        let count = self.count(self.meta());
        (0..count).fold(header, |sum, index| {
            sum.wrapping_add(self.entry(index).check())
        })
    }

    pub(super) fn header_check(self) -> u64 {
        check_of_header(
            self.index,
            self.get(META_WORD),
            self.get(LOW_WORD),
            self.get(LAST_WORD),
            self.get(NEXT_WORD),
            self.get(TREE_WORD),
        )
    }

    pub fn check(self) -> u64 {
        self.get(CHECK_WORD)
    }

    pub fn next(self) -> NodePointer {
        NodePointer::from_word(self.get(NEXT_WORD))
    }

    /// The tree and index that the tree node claims.
    pub fn identity(self) -> u64 {
        self.get(TREE_WORD)
    }
}
