//! Tuples in which every byte can be checked.
//!
//! A tuple begins with its key; the words after it follow from the key, so that a consumer can
//! check all of them without knowing the sender. Keys are spread by a bijection over the numbers of
//! the tuples, so that their sum shows whether each arrived once.

use rackweave_endpoint::flow::hash_key;

/// The golden ratio in 64 bits: neighbouring words of a tuple differ by it.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Writes the tuple of `key` into `bytes`, a multiple of eight and at least eight long.
#[inline]
pub fn write(key: u64, bytes: &mut [u8]) {
    let mut word = key;
    for chunk in bytes.as_chunks_mut::<8>().0 {
        *chunk = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
}

/// The key of a tuple, if all its bytes are right.
#[inline]
pub fn read(bytes: &[u8]) -> Option<u64> {
    let words = bytes.as_chunks::<8>().0;
    let key = u64::from_le_bytes(*words.first()?);
    let mut word = key;
    let is_right = words.iter().all(|chunk| {
        let is_same = u64::from_le_bytes(*chunk) == word;
        word = word.wrapping_add(STEP);
        is_same
    });
    is_right.then_some(key)
}

/// The key of the tuple with this number. No two numbers have the same.
#[inline]
pub fn key_of(number: u64) -> u64 {
    hash_key(number.wrapping_add(1))
}

/// Writes the tuple with this number and returns its key.
#[inline]
pub fn make(number: u64, bytes: &mut [u8]) -> u64 {
    let key = key_of(number);
    write(key, bytes);
    key
}

/// The destination of a key, of `count`, as the partitioner of a flow computes it.
#[inline]
pub fn destination(key: u64, count: usize) -> usize {
    ((u128::from(hash_key(key)) * count as u128) >> 64) as usize
}

/// What a consumer has received.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Tuples.
    pub tuples: u64,
    /// The sum of their keys.
    pub keys: u64,
    /// Tuples with a wrong byte, or that belong to another destination.
    pub wrong: u64,
}

impl Tally {
    /// Adds tuples of `size` bytes that arrived at destination `own` of `count`.
    pub fn add(&mut self, tuples: &[u8], size: usize, own: usize, count: usize) -> u64 {
        let before = self.tuples;
        for tuple in tuples.chunks_exact(size) {
            self.tuples += 1;
            match read(tuple) {
                Some(key) if destination(key, count) == own => {
                    self.keys = self.keys.wrapping_add(key);
                }
                _ => self.wrong += 1,
            }
        }
        self.tuples - before
    }

    /// The sum of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            tuples: self.tuples + other.tuples,
            keys: self.keys.wrapping_add(other.keys),
            wrong: self.wrong + other.wrong,
        }
    }

    /// The tally of the tuples numbered from 0 to `count` when each has arrived once.
    pub fn expected(count: u64) -> Self {
        Self {
            tuples: count,
            keys: (0..count).fold(0, |sum: u64, number| sum.wrapping_add(key_of(number))),
            wrong: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_or_place_shows() {
        let mut bytes = [0; 64];
        write(key_of(7), &mut bytes);
        let own = destination(key_of(7), 5);
        let mut tally = Tally::default();
        assert_eq!(tally.add(&bytes, 64, own, 5), 1);
        assert_eq!((tally.wrong, tally.keys), (0, key_of(7)));
        tally.add(&bytes, 64, (own + 1) % 5, 5);
        assert_eq!(tally.wrong, 1, "another destination's tuple");
        for at in 0..64 {
            bytes[at] ^= 1;
            assert_ne!(read(&bytes), Some(key_of(7)), "byte {at}");
            bytes[at] ^= 1;
        }
        assert_ne!(Tally::expected(2).keys, Tally::expected(3).keys);
    }
}
