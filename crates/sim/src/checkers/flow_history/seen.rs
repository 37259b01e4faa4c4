//! The items that came out of one ring of a producer.

use super::Shape;

/// One ring of a producer.
#[derive(Default, Debug)]
pub(super) struct Ring {
    /// Hashes of the pushed items, by sequence.
    pub pushed: Vec<u64>,
    /// Items that came out: per consumer if replicated, otherwise of all together.
    seen: Vec<Seen>,
    /// The last item that each consumer popped of this ring.
    last: Vec<Option<u64>>,
    /// The last consumer to pop an item, by sequence.
    popper: Vec<Option<u16>>,
    /// Items below this may come out of order: they may have been with a consumer that is gone.
    pub loose_below: u64,
}

/// The findings about a pop.
pub(super) struct Popped {
    /// The consumer that popped the same item before.
    pub before: Option<u16>,
    /// A later item of the ring that the consumer had popped before, where order is required.
    pub after: Option<u64>,
}

impl Ring {
    /// Number of items pushed.
    pub fn len(&self) -> u64 {
        self.pushed.len() as u64
    }

    /// Records that `consumer` popped the pushed item `sequence`.
    pub fn pop(&mut self, shape: Shape, consumer: u16, sequence: u64) -> Popped {
        let at = usize::from(consumer);
        let group = if shape == Shape::Replicated { at } else { 0 };
        if self.seen.len() <= group {
            self.seen.resize(group + 1, Seen::default());
        }
        if self.last.len() <= at {
            self.last.resize(at + 1, None);
        }
        self.popper.resize(self.pushed.len(), None);
        let fresh = self.seen[group].insert(sequence);
        let last = self.last[at];
        self.last[at] = last.max(Some(sequence));
        let popper = self.popper[sequence as usize].replace(consumer);
        let before = match shape {
            _ if fresh => None,
            Shape::Replicated => Some(consumer),
            _ => popper,
        };
        let strict = sequence >= self.loose_below;
        let after = last.filter(|&last| strict && last > sequence);
        Popped { before, after }
    }

    /// Items seen by a group: the consumer if replicated, otherwise all (group 0).
    pub fn seen(&self, group: usize) -> &Seen {
        static NONE: Seen = Seen {
            bits: Vec::new(),
            end: 0,
        };
        self.seen.get(group).unwrap_or(&NONE)
    }
}

/// A set of sequences.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    bits: Vec<u64>,
    /// One more than the highest; zero if empty.
    pub end: u64,
}

impl Seen {
    /// Returns false if it was present already.
    fn insert(&mut self, sequence: u64) -> bool {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let fresh = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.end = self.end.max(sequence + 1);
        fresh
    }

    fn holds(&self, sequence: u64) -> bool {
        let word = self.bits.get((sequence / 64) as usize);
        word.is_some_and(|word| word >> (sequence % 64) & 1 == 1)
    }

    /// The first missing one of `from..to`, and the number of missing ones.
    pub fn missing(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut missing = (from..to).filter(|&sequence| !self.holds(sequence));
        let first = missing.next()?;
        Some((first, 1 + missing.count() as u64))
    }
}
