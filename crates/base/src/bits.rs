//! A set of small numbers, one bit each: ports with work, machines to run.

/// A set of the numbers below a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitSet {
    words: Box<[u64]>,
    limit: usize,
}

/// Word and mask of a number.
#[inline]
const fn place(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

impl BitSet {
    /// The empty set of numbers below `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            words: vec![0; limit.div_ceil(64)].into(),
            limit,
        }
    }

    /// Adds a number.
    ///
    /// # Panics
    /// If it is not below the limit.
    #[inline]
    pub fn insert(&mut self, number: usize) {
        assert!(number < self.limit, "{number} of {}", self.limit);
        let (at, mask) = place(number);
        self.words[at] |= mask;
    }

    /// Adds all numbers whose bits are set in word `at`, which has those from 64 times `at` on.
    /// Numbers that are not below the limit are left out.
    #[inline]
    pub fn insert_word(&mut self, at: usize, word: u64) {
        let Some(here) = self.words.get_mut(at) else {
            return;
        };
        let below = self.limit - 64 * at;
        *here |= match below {
            0..64 => word & ((1 << below) - 1),
            _ => word,
        };
    }

    /// Adds all numbers below the limit.
    pub fn fill(&mut self) {
        for at in 0..self.words.len() {
            self.insert_word(at, u64::MAX);
        }
    }

    /// Removes a number.
    #[inline]
    pub fn remove(&mut self, number: usize) {
        let (at, mask) = place(number);
        if let Some(word) = self.words.get_mut(at) {
            *word &= !mask;
        }
    }

    /// Whether the number is in the set.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        let (at, mask) = place(number);
        self.words.get(at).is_some_and(|word| word & mask != 0)
    }

    /// Whether no number is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The least number in the set that is at least `from`.
    #[inline]
    pub fn next(&self, from: usize) -> Option<usize> {
        let (at, mask) = place(from);
        let first = self.words.get(at)? & !(mask - 1);
        if first != 0 {
            return Some(64 * at + first.trailing_zeros() as usize);
        }
        let rest = self.words.iter().enumerate().skip(at + 1);
        let (at, word) = rest.map(|(at, &word)| (at, word)).find(|it| it.1 != 0)?;
        Some(64 * at + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_of_numbers() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let limit = rng.between(1, 200) as usize;
            let (mut bits, mut set) = (BitSet::new(limit), BTreeSet::new());
            for _ in 0..rng.below(60) {
                let number = rng.below(limit as u64) as usize;
                match rng.chance(0.7) {
                    true => {
                        bits.insert(number);
                        set.insert(number);
                    }
                    false => {
                        bits.remove(number);
                        set.remove(&number);
                    }
                }
            }
            let word = rng.next_u64();
            bits.insert_word(1, word);
            set.extend((64..limit.min(128)).filter(|at| word >> (at - 64) & 1 == 1));
            assert_eq!(bits.is_empty(), set.is_empty(), "seed {seed}");
            for from in 0..limit + 70 {
                assert_eq!(bits.contains(from), set.contains(&from), "seed {seed}");
                assert_eq!(
                    bits.next(from),
                    set.range(from..).next().copied(),
                    "seed {seed}"
                );
            }
            bits.fill();
            assert!((0..limit).all(|at| bits.contains(at)));
            assert_eq!(bits.next(limit), None);
        }
    }
}
