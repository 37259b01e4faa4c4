//! A tree node under the eyes of a reader, and in the hands of a writer.

use super::latch::Latch;
use super::sync::{AtomicU64, Ordering};
use rackweave_wire::fabric::tree::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LATCH_WORD, LOW_WORD, Layout, META_WORD, Meta,
    NEXT_WORD, NodePointer, TREE_WORD, check_of_entry, check_of_header,
};

/// A tree node as it lies in memory. What is read holds if the latch has not changed since.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub index: u32,
    layout: Layout,
    words: &'a [AtomicU64],
}

/// An entry of a leaf or of an inner tree node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub key: u64,
    /// Eight bytes, a reference or a pointer.
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

    fn check(self) -> u64 {
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
    fn get(self, at: usize) -> u64 {
        u64::from_le(self.words[at].load(Ordering::Relaxed))
    }

    #[inline]
    fn set(self, at: usize, word: u64) {
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

    /// The pointer that leads here now.
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

    /// Whether a key belongs here.
    #[inline]
    pub fn covers(self, key: u64) -> bool {
        (self.low()..=self.last()).contains(&key)
    }

    /// Entries; never more than there is room for, whatever is read.
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
        // Without branches that depend on keys: those would be guessed wrong half of the time.
        let (mut from, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            from += usize::from(self.key(from + half - 1) < key) * half;
            len -= half;
        }
        from + usize::from(self.key(from) < key)
    }

    /// Where the child is to which a key belongs.
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

    /// The child at a place.
    #[inline]
    pub fn child(self, index: usize) -> NodePointer {
        NodePointer::from_word(self.value(index))
    }

    /// Becomes its writer if nobody has written since the latch was `word`.
    #[inline]
    pub fn upgrade(self, word: u64) -> Option<Writer<'a>> {
        self.latch().upgrade(word).then(|| Writer::new(self))
    }

    /// Becomes its writer. See [`Latch::lock`].
    pub fn lock(self) -> Writer<'a> {
        self.latch().lock();
        Writer::new(self)
    }

    pub fn capacity(self) -> usize {
        self.layout.capacity()
    }

    /// The check that its words should have.
    pub fn computed_check(self) -> u64 {
        let header = self.header_check();
        let count = self.count(self.meta());
        (0..count).fold(header, |sum, index| {
            sum.wrapping_add(self.entry(index).check())
        })
    }

    fn header_check(self) -> u64 {
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

    pub fn tree(self) -> u64 {
        self.get(TREE_WORD)
    }
}

/// A tree node whose latch is held. Nothing that it does is valid for remote readers before
/// [`Writer::publish`], and local ones wait until it is unlocked.
pub(super) struct Writer<'a> {
    node: Node<'a>,
    /// What the entries add to the check.
    sum: u64,
    meta: Meta,
    low: u64,
    last: u64,
    next: NodePointer,
}

impl<'a> Writer<'a> {
    #[inline]
    fn new(node: Node<'a>) -> Self {
        let sum = node.check().wrapping_sub(node.header_check());
        Self {
            node,
            sum,
            meta: node.meta(),
            low: node.low(),
            last: node.last(),
            next: node.next(),
        }
    }

    /// Begins a tree node anew: without entries.
    pub fn begin(&mut self, epoch: u32, level: u8, tree: u64) {
        self.node.set(TREE_WORD, tree);
        self.meta = Meta {
            epoch,
            level,
            count: 0,
        };
        self.sum = 0;
        for word in 0..self.node.layout.bitmap_words() {
            self.node.set(FIRST_BITMAP_WORD + word, 0);
        }
    }

    pub fn node(&self) -> Node<'a> {
        self.node
    }

    pub fn count(&self) -> usize {
        self.node.count(self.meta)
    }

    pub fn level(&self) -> u8 {
        self.meta.level
    }

    pub fn epoch(&self) -> u32 {
        self.meta.epoch
    }

    pub fn low(&self) -> u64 {
        self.low
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn next(&self) -> NodePointer {
        self.next
    }

    pub fn set_fences(&mut self, low: u64, last: u64) {
        (self.low, self.last) = (low, last);
    }

    pub fn set_next(&mut self, next: NodePointer) {
        self.next = next;
    }

    fn put(&mut self, index: usize, entry: Entry) {
        let at = self.node.layout.entry(index);
        self.node.set(at, entry.key);
        self.node.set(at + 1, entry.value);
        let word = FIRST_BITMAP_WORD + index / 64;
        let (bits, bit) = (self.node.get(word), 1 << (index % 64));
        let wanted = if entry.is_reference {
            bits | bit
        } else {
            bits & !bit
        };
        if wanted != bits {
            self.node.set(word, wanted);
        }
    }

    /// Adds an entry before the one at `index`.
    ///
    /// # Panics
    /// If there is no room.
    pub fn insert(&mut self, index: usize, entry: Entry) {
        let count = self.count();
        assert!(count < self.node.capacity() && index <= count);
        let (from, to) = (self.node.layout.entry(index), self.node.layout.entry(count));
        for at in (from..to).rev() {
            self.node.set(at + 2, self.node.get(at));
        }
        self.shift_bits(index, true);
        self.put(index, entry);
        self.sum = self.sum.wrapping_add(entry.check());
        self.meta.count += 1;
    }

    /// Adds an entry after all others.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push(&mut self, entry: Entry) {
        let count = self.count();
        assert!(count < self.node.capacity());
        self.put(count, entry);
        self.sum = self.sum.wrapping_add(entry.check());
        self.meta.count += 1;
    }

    /// Removes the entry at `index`.
    pub fn remove(&mut self, index: usize) -> Entry {
        let (count, entry) = (self.count(), self.node.entry(index));
        let (from, to) = (self.node.layout.entry(index), self.node.layout.entry(count));
        for at in from + 2..to {
            self.node.set(at - 2, self.node.get(at));
        }
        self.shift_bits(index, false);
        self.sum = self.sum.wrapping_sub(entry.check());
        self.meta.count -= 1;
        entry
    }

    /// Removes the entries before `index`, in order.
    pub fn remove_front(&mut self, index: usize) -> Vec<Entry> {
        let entries: Vec<Entry> = (0..self.count()).map(|at| self.node.entry(at)).collect();
        let (gone, kept) = entries.split_at(index);
        (self.meta.count, self.sum) = (0, 0);
        for &entry in kept {
            self.push(entry);
        }
        gone.to_vec()
    }

    /// Removes the entries from `count` on and returns them.
    pub fn truncate(&mut self, count: usize) -> Vec<Entry> {
        let gone: Vec<Entry> = (count..self.count())
            .map(|at| self.node.entry(at))
            .collect();
        for entry in &gone {
            self.sum = self.sum.wrapping_sub(entry.check());
        }
        self.meta.count = count as u16;
        gone
    }

    /// Gives the entry at `index` another content.
    pub fn replace(&mut self, index: usize, entry: Entry) -> Entry {
        let old = self.node.entry(index);
        self.put(index, entry);
        self.sum = self
            .sum
            .wrapping_sub(old.check())
            .wrapping_add(entry.check());
        old
    }

    /// Moves the bits from `index` on by one place, up or down.
    fn shift_bits(&mut self, index: usize, up: bool) {
        let words = self.node.layout.bitmap_words();
        let any = (0..words).any(|word| self.node.get(FIRST_BITMAP_WORD + word) != 0);
        // Most trees have values of eight bytes only.
        if !any {
            return;
        }
        let get = |word: usize| self.node.get(FIRST_BITMAP_WORD + word);
        let shift = |word: usize| {
            let kept = match index.saturating_sub(word * 64) {
                0 => 0,
                bits @ 1..64 => (1 << bits) - 1,
                _ => u64::MAX,
            };
            let shifted = if up {
                let below = word.checked_sub(1).map_or(0, get);
                get(word) << 1 | below >> 63
            } else {
                let above = if word + 1 < words { get(word + 1) } else { 0 };
                get(word) >> 1 | above << 63
            };
            let value = get(word) & kept | shifted & !kept;
            self.node.set(FIRST_BITMAP_WORD + word, value);
        };
        // Each word takes a bit from one that has not been shifted yet.
        if up {
            (0..words).rev().for_each(shift);
        } else {
            (0..words).for_each(shift);
        }
    }

    /// Makes what was done the content that remote readers accept.
    #[inline]
    pub fn publish(&mut self) {
        let node = self.node;
        let words = [
            (META_WORD, self.meta.to_word()),
            (LOW_WORD, self.low),
            (LAST_WORD, self.last),
            (NEXT_WORD, self.next.to_word()),
        ];
        for (at, word) in words {
            node.set(at, word);
        }
        let check = node.header_check().wrapping_add(self.sum);
        node.words[CHECK_WORD].store(check.to_le(), Ordering::Release);
    }

    /// Publishes and unlocks.
    #[inline]
    pub fn finish(mut self) {
        self.publish();
        self.node.latch().unlock();
    }

    /// Unlocks what was published, or is not to be seen by anybody.
    pub fn unlock(self) {
        self.node.latch().unlock();
    }

    /// Unlocks a tree node that is as it was.
    pub fn leave(self) {
        self.node.latch().unlock_unchanged();
    }

    /// Ends the tree node's use: no pointer leads here any more.
    pub fn retire(mut self) {
        if !rackweave_base::canary::planted(rackweave_base::canary::Canary::IndexNoEpochOnFree) {
            self.meta.epoch = self.meta.epoch.wrapping_add(1);
            self.publish();
        }
        self.node.latch().unlock();
    }
}
