//! Write access to a tree node.

use super::node::{Entry, Node};
use super::sync::Ordering;
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::tree::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LOW_WORD, META_WORD, Meta, NEXT_WORD, NodePointer,
    TREE_WORD, identity,
};

/// A tree node whose latch is held. Changes become valid for remote readers only with
/// [`Writer::publish`]; local readers wait until the latch is released.
pub(super) struct Writer<'a> {
    node: Node<'a>,
    /// The sum of the entries, as part of the check word.
    sum: u64,
    meta: Meta,
    low: u64,
    last: u64,
    next: NodePointer,
}

impl<'a> Writer<'a> {
    /// A writer for a tree node whose latch was just acquired.
    #[inline]
    pub fn new(node: Node<'a>) -> Self {
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

    /// Resets the tree node: it has no entries.
    pub fn begin(&mut self, epoch: u32, level: u8, tree: u64) {
        self.node.set(TREE_WORD, identity(tree, self.node.index));
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

    /// Inserts an entry before the one at `index`.
    ///
    /// # Panics
    /// If the tree node is full.
    pub fn insert(&mut self, index: usize, entry: Entry) {
        let count = self.count();
        assert!(count < self.node.capacity() && index <= count);
        let (from, to) = (self.node.layout.entry(index), self.node.layout.entry(count));
        // Words are moved unchanged. One slice, so that there is one bounds check.
        let words = &self.node.words[from..to + 2];
        for at in (2..words.len()).rev() {
            words[at].store(words[at - 2].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.shift_bits(index, true);
        self.put(index, entry);
        self.sum = self.sum.wrapping_add(entry.check());
        self.meta.count += 1;
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the tree node is full.
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
        let words = &self.node.words[from..to];
        for at in 2..words.len() {
            words[at - 2].store(words[at].load(Ordering::Relaxed), Ordering::Relaxed);
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

    /// Replaces the entry at `index`.
    pub fn replace(&mut self, index: usize, entry: Entry) -> Entry {
        let old = self.node.entry(index);
        self.put(index, entry);
        self.sum = self
            .sum
            .wrapping_sub(old.check())
            .wrapping_add(entry.check());
        old
    }

    /// Shifts the bits from `index` on by one position, up or down.
    fn shift_bits(&mut self, index: usize, up: bool) {
        let words = self.node.layout.bitmap_words();
        let any = (0..words).any(|word| self.node.get(FIRST_BITMAP_WORD + word) != 0);
        // Most trees have only values of eight bytes.
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
        // Each word takes a bit from a word that has not been shifted yet.
        if up {
            (0..words).rev().for_each(shift);
        } else {
            (0..words).for_each(shift);
        }
    }

    /// Makes the changes the content that remote readers accept.
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

    /// Releases the latch. The content is published, or is not to become visible.
    pub fn unlock(self) {
        self.node.latch().unlock();
    }

    /// Releases the latch of an unchanged tree node.
    pub fn leave(self) {
        self.node.latch().unlock_unchanged();
    }

    /// Ends the tree node's use: no pointer leads to it any more.
    pub fn retire(mut self) {
        if !planted(Canary::IndexNoEpochOnFree) {
            self.meta.epoch = self.meta.epoch.wrapping_add(1);
            self.publish();
        }
        self.node.latch().unlock();
    }
}
