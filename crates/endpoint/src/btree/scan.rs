//! Scans of a key range, in either direction.

use super::tree::{LatchedNode, Tree};
use core::ops::RangeInclusive;
use rackweave_wire::fabric::tree::ValueRef;

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Keys ascend.
    Forward,
    /// Keys descend.
    Backward,
}

/// The part of a range that one leaf holds.
#[derive(Default)]
struct Piece {
    entries: Vec<(u64, Kept)>,
    /// Values that are not eight bytes long, concatenated.
    bytes: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Kept {
    Word(u64),
    /// Start and end in the bytes.
    Bytes(usize, usize),
}

impl Tree {
    /// Passes the entries of a range to `visit` until it returns false. Every leaf is read in a
    /// consistent state: a key that is present all the time is visited once; a key that is inserted
    /// or removed meanwhile may or may not be visited.
    pub fn scan(
        &self,
        range: RangeInclusive<u64>,
        direction: Direction,
        visit: &mut impl FnMut(u64, &[u8]) -> bool,
    ) {
        let (mut from, mut to) = range.into_inner();
        let mut piece = Piece::default();
        while from <= to {
            let (low, last) = self.collect(from..=to, direction, &mut piece);
            let show = |&(key, kept): &(u64, Kept)| match kept {
                Kept::Word(word) => visit(key, &word.to_le_bytes()),
                Kept::Bytes(from, to) => visit(key, &piece.bytes[from..to]),
            };
            let (all, next) = match direction {
                Direction::Forward => (piece.entries.iter().all(show), last.checked_add(1)),
                Direction::Backward => (piece.entries.iter().rev().all(show), low.checked_sub(1)),
            };
            let Some(next) = next.filter(|_| all) else {
                return;
            };
            // There are no keys beyond the bounds of the tree, and no leaf from which to continue.
            match direction {
                Direction::Forward if next <= from => return,
                Direction::Forward => from = next,
                Direction::Backward if next >= to => return,
                Direction::Backward => to = next,
            }
        }
    }

    /// Copies the entries of the leaf at the near end of the range; returns the leaf's fences.
    fn collect(
        &self,
        range: RangeInclusive<u64>,
        direction: Direction,
        piece: &mut Piece,
    ) -> (u64, u64) {
        let key = match direction {
            Direction::Forward => *range.start(),
            Direction::Backward => *range.end(),
        };
        loop {
            if let Some((leaf, _)) = self.descend(key, 0) {
                let fences = (leaf.node.low(), leaf.node.last());
                self.copy(&leaf, &range, piece);
                if leaf.is_still() {
                    return fences;
                }
            }
            self.restarted();
        }
    }

    fn copy(&self, leaf: &LatchedNode<'_>, range: &RangeInclusive<u64>, piece: &mut Piece) {
        piece.entries.clear();
        piece.bytes.clear();
        let node = leaf.node;
        let count = node.count(node.meta());
        for index in node.lower_bound(count, *range.start())..count {
            let key = node.key(index);
            if key > *range.end() {
                break;
            }
            let word = node.value(index);
            let kept = if node.is_reference(index) {
                let reference = ValueRef::from_word(word);
                let (arena, from) = (&self.inner.arena, piece.bytes.len());
                self.inner.heap.read(arena, reference, &mut piece.value);
                piece.bytes.extend_from_slice(&piece.value);
                Kept::Bytes(from, piece.bytes.len())
            } else {
                Kept::Word(word)
            };
            piece.entries.push((key, kept));
        }
    }
}
