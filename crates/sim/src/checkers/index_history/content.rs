//! Self-identifying values: every byte of a value follows from its key, its stamp, its length and
//! the seed.
//!
//! The first word carries the stamp and a checksum; the rest is filler. So a value that mixes two
//! is detected, and so is one that came to another key, or with another length.

use rackweave_base::Rng;

/// Identifies a value: no two values ever written have the same stamp, whatever their keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueStamp(u32);

/// Minimum bytes of a value: its first word.
pub const VALUE_BYTES_MIN: usize = 8;

/// What is wrong with the bytes of a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TornValue {
    /// Too short for a stamp.
    #[error("{len} bytes hold no stamp")]
    Length {
        /// Bytes of the value.
        len: usize,
    },
    /// The first word is not that of any value of this key and length.
    #[error("{len} bytes that begin with {word:#018x} are no value of this key")]
    NotStamped {
        /// The first word.
        word: u64,
        /// Bytes of the value.
        len: usize,
    },
    /// A byte after the first word belongs to another value.
    #[error("{stamp}: byte {at} of {len} is not its own")]
    Mixed {
        /// The stamp in the first word.
        stamp: ValueStamp,
        /// The first wrong byte.
        at: usize,
        /// Bytes of the value.
        len: usize,
    },
}

impl ValueStamp {
    /// The stamp with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The first word of the value, and the generator of its filler.
    fn words(self, key: u64, len: usize, seed: u64) -> (u64, Rng) {
        let of_key = Rng::new(seed ^ key).next_u64();
        let mut rng = Rng::new(of_key ^ (u64::from(self.0) << 32 | len as u64));
        (u64::from(self.0) | rng.next_u64() << 32, rng)
    }
}

impl core::fmt::Display for ValueStamp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "value {}", self.0)
    }
}

/// Writes a value over all of `bytes`.
///
/// # Panics
/// If they are shorter than [`VALUE_BYTES_MIN`].
pub fn fill_value(bytes: &mut [u8], key: u64, stamp: ValueStamp, seed: u64) {
    let (word, mut rng) = stamp.words(key, bytes.len(), seed);
    let (first, rest) = bytes.split_at_mut(VALUE_BYTES_MIN);
    first.copy_from_slice(&word.to_le_bytes());
    for chunk in rest.chunks_mut(8) {
        let filler = rng.next_u64().to_le_bytes();
        chunk.copy_from_slice(&filler[..chunk.len()]);
    }
}

/// Identifies a value and compares every byte of it.
///
/// # Errors
/// If it is not exactly one value of this key.
pub fn check_value(bytes: &[u8], key: u64, seed: u64) -> Result<ValueStamp, TornValue> {
    let len = bytes.len();
    let Some((first, rest)) = bytes.split_first_chunk::<VALUE_BYTES_MIN>() else {
        return Err(TornValue::Length { len });
    };
    let word = u64::from_le_bytes(*first);
    let stamp = ValueStamp(word as u32);
    let (expect, mut rng) = stamp.words(key, len, seed);
    if word != expect {
        return Err(TornValue::NotStamped { word, len });
    }
    for (chunk, at) in rest.chunks(8).zip((VALUE_BYTES_MIN..).step_by(8)) {
        let filler = rng.next_u64().to_le_bytes();
        if let Some(wrong) = (0..chunk.len()).find(|&byte| chunk[byte] != filler[byte]) {
            let at = at + wrong;
            return Err(TornValue::Mixed { stamp, at, len });
        }
    }
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(len: usize, stamp: u32) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        fill_value(&mut bytes, 7, ValueStamp::new(stamp), 5);
        bytes
    }

    #[test]
    fn a_value_is_recognised() {
        for len in [8, 9, 15, 16, 100, 1000] {
            let bytes = value(len, 3);
            assert_eq!(check_value(&bytes, 7, 5), Ok(ValueStamp::new(3)), "{len}");
            assert!(check_value(&bytes, 8, 5).is_err(), "another key, {len}");
            assert!(check_value(&bytes, 7, 6).is_err(), "another seed, {len}");
        }
        let short = check_value(&[1; 7], 7, 5);
        assert_eq!(short, Err(TornValue::Length { len: 7 }));
    }

    #[test]
    fn every_damage_is_seen() {
        for at in 0..333 {
            let mut bytes = value(333, 9);
            bytes[at] ^= 1;
            assert!(check_value(&bytes, 7, 5).is_err(), "byte {at}");
        }
        let (old, new) = (value(333, 8), value(333, 9));
        for cut in 1..333 {
            let mixed = [&new[..cut], &old[cut..]].concat();
            assert!(check_value(&mixed, 7, 5).is_err(), "cut at {cut}");
            let cut_short = check_value(&new[..cut], 7, 5);
            assert!(cut_short.is_err(), "cut off at {cut}");
        }
    }
}
