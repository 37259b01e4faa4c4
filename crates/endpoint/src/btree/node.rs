//! Read access to a tree node. Write access is in `writer`.

use super::latch::Latch;
use super::sync::{AtomicU64, Ordering};
use super::writer::Writer;
use rackweave_wire::fabric::tree::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LATCH_WORD, LOW_WORD, Layout, META_WORD, Meta,
    NEXT_WORD, NodePointer, TREE_WORD, check_of_entry, check_of_header,
};

/// Entries of a cache line.
const LINE: usize = 4;
/// Entries of a block in large tree nodes: as many lines as a line has entries.
const BLOCK: usize = LINE * LINE;

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

/// The last entries of all lines but the last of the block that begins with entry `first`.
#[inline]
const fn line_ends(first: usize) -> [usize; BLOCK / LINE - 1] {
    [first + LINE - 1, first + 2 * LINE - 1, first + 3 * LINE - 1]
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
        let is_before = |other| other < key;
        self.rank(self.block(count, is_before), count, is_before)
    }

    /// The index of the child to which a key belongs.
    #[inline]
    pub fn child_index(self, count: usize, key: u64) -> usize {
        self.child_in(self.child_block(count, key), count, key)
    }

    /// The block in which the child is to which a key belongs, or the one before it: see
    /// [`Self::block`].
    #[inline]
    pub fn child_block(self, count: usize, key: u64) -> usize {
        self.block(count, |other| other <= key)
    }

    /// The index of the child to which a key belongs, according to [`Self::child_block`].
    #[inline]
    pub fn child_in(self, block: usize, count: usize, key: u64) -> usize {
        self.rank(block, count, |other| other <= key)
            .saturating_sub(1)
    }

    /// Number of blocks of which all keys are before some key; `is_before` is true for keys in
    /// front of others.
    ///
    /// A search by halves waits for memory as often as there are halves: each step loads from
    /// another cache line, and its address depends on the step before. This one and [`Self::rank`]
    /// wait once each. The addresses here depend on nothing, not even the count, so the last keys
    /// of all blocks arrive together with the header. No branches depend on keys: half of them
    /// would be mispredicted.
    #[inline(always)]
    pub fn block(self, count: usize, is_before: impl Fn(u64) -> bool) -> usize {
        let block = self.block_entries();
        let (mut blocks, mut end) = (0, block);
        while end <= self.layout.capacity() {
            blocks += usize::from(end <= count) & usize::from(is_before(self.key(end - 1)));
            end += block;
        }
        blocks
    }

    /// Number of keys that are before some key, according to [`Self::block`].
    #[inline(always)]
    pub fn rank(self, block: usize, count: usize, is_before: impl Fn(u64) -> bool) -> usize {
        let last = count.saturating_sub(1);
        let counts = |index: usize| {
            usize::from(index < count) & usize::from(is_before(self.key(index.min(last))))
        };
        let mut line = self.block_entries() * block;
        if self.block_entries() > LINE {
            let [first, second, third] = line_ends(line);
            line += LINE * (counts(first) + counts(second) + counts(third));
        }
        // The last entry of the line is the end of a line or a block, if it exists.
        line + counts(line) + counts(line + 1) + counts(line + 2)
    }

    /// Loads from the lines of a block that [`Self::rank`] loads from, so that they are on their
    /// way. The result means nothing.
    #[inline]
    pub fn touch(self, block: usize) -> u64 {
        let last = self.layout.capacity() - 1;
        let ends = line_ends(self.block_entries() * block);
        let keys = ends.map(|index| self.key(index.min(last)));
        keys[0] ^ keys[1] ^ keys[2]
    }

    /// Entries of a block. In a small tree node it is a line: one wait for all of them is shorter
    /// than two waits.
    #[inline]
    fn block_entries(self) -> usize {
        if self.layout.capacity() <= 2 * BLOCK {
            LINE
        } else {
            BLOCK
        }
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
