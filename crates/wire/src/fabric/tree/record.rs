//! Records in the heap: values that are not eight bytes long.
//!
//! ```text
//! word 0    incarnation (bits 0-31, odd while in use), length in bytes (32-63)
//! word 1    the key
//! word 2    check over the two above and the bytes
//! then      the bytes, padded with zeroes to whole words
//! ```
//!
//! A record is never changed while it is in use: a new value gets a new record.

use super::layout::check_of_words;

/// Bytes of a unit of the heap; records begin at multiples of it.
pub const UNIT: u64 = 64;

/// Maximum length of a value in bytes.
pub const VALUE_MAX: u32 = (1 << 20) - 1;

/// Words before the bytes of a record.
pub const RECORD_HEADER_WORDS: usize = 3;

/// The location of a record: its unit, the length of its value, and the low bits of its
/// incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueRef {
    /// Units from the start of the heap.
    pub unit: u32,
    /// Bytes of the value.
    pub length: u32,
    /// The incarnation of the record, odd; only bits 1 to 12 of it are in the word.
    pub incarnation: u32,
}

/// Why bytes are not the record that was referred to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The location is free or has been reused.
    #[error("the record has been freed")]
    Stale,
    /// The bytes are from different moments.
    #[error("the record is torn")]
    Torn,
    /// There are fewer bytes than the reference requires.
    #[error("{given} bytes are not a record of {needed}")]
    Short {
        /// Bytes present.
        given: usize,
        /// Bytes of the record.
        needed: usize,
    },
}

const INCARNATION_MASK: u32 = 0x1ffe;

impl ValueRef {
    /// Decodes a word.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self {
            unit: word as u32,
            length: (word >> 32) as u32 & VALUE_MAX,
            incarnation: ((word >> 52) as u32) << 1 | 1,
        }
    }

    /// Encodes the word.
    #[inline]
    pub fn to_word(self) -> u64 {
        let incarnation = u64::from((self.incarnation & INCARNATION_MASK) >> 1);
        u64::from(self.unit) | u64::from(self.length & VALUE_MAX) << 32 | incarnation << 52
    }

    /// Offset of the record, in bytes from the start of the heap.
    pub fn offset(self) -> u64 {
        u64::from(self.unit) * UNIT
    }

    /// Number of words of the record.
    pub fn words(self) -> usize {
        RECORD_HEADER_WORDS + (self.length as usize).div_ceil(8)
    }

    /// Number of bytes of the record.
    pub fn bytes(self) -> usize {
        self.words() * 8
    }

    /// Whether a record with this first word is the one referred to.
    #[inline]
    pub fn fits(self, first_word: u64) -> bool {
        let (incarnation, length) = (first_word as u32, (first_word >> 32) as u32);
        incarnation & (INCARNATION_MASK | 1) == self.incarnation & (INCARNATION_MASK | 1)
            && length == self.length
    }

    /// The value of `key` in the bytes of a READ of this record.
    ///
    /// # Errors
    /// If the bytes are not that record.
    pub fn value(self, key: u64, image: &[u8]) -> Result<&[u8], RecordError> {
        let needed = self.bytes();
        let short = RecordError::Short {
            given: image.len(),
            needed,
        };
        let image = image.get(..needed).ok_or(short)?;
        let mut words = image
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&bytes| u64::from_le_bytes(bytes));
        let mut next = || words.next().unwrap_or_default();
        let (first, found_key, check) = (next(), next(), next());
        if !self.fits(first) || found_key != key {
            return Err(RecordError::Stale);
        }
        if check_of_record(first, found_key, words) != check {
            return Err(RecordError::Torn);
        }
        let bytes = &image[RECORD_HEADER_WORDS * 8..];
        Ok(&bytes[..self.length as usize])
    }
}

/// The check of a record with these first words and these words of its value.
pub fn check_of_record(first: u64, key: u64, value: impl Iterator<Item = u64>) -> u64 {
    check_of_words(first, core::iter::once(key).chain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(reference: ValueRef, key: u64, value: &[u8]) -> Vec<u8> {
        let words = value.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let first = u64::from(reference.incarnation) | u64::from(reference.length) << 32;
        let mut bytes = Vec::new();
        for word in [first, key, check_of_record(first, key, words.clone())]
            .into_iter()
            .chain(words)
        {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_word_keeps_a_reference() {
        for incarnation in [1, 3, 0x1fff] {
            let reference = ValueRef {
                unit: u32::MAX,
                length: VALUE_MAX,
                incarnation,
            };
            assert_eq!(ValueRef::from_word(reference.to_word()), reference);
        }
    }

    #[test]
    fn only_the_whole_record_gives_the_value() {
        let reference = ValueRef {
            unit: 3,
            length: 11,
            incarnation: 5,
        };
        let image = record(reference, 9, b"hello world");
        assert_eq!(reference.value(9, &image), Ok(&b"hello world"[..]));
        assert_eq!(reference.value(8, &image), Err(RecordError::Stale));
        let other = ValueRef {
            incarnation: 7,
            ..reference
        };
        assert_eq!(other.value(9, &image), Err(RecordError::Stale));
        assert!(matches!(
            reference.value(9, &image[..30]),
            Err(RecordError::Short { .. })
        ));
        for at in 16..image.len() {
            let mut torn = image.clone();
            torn[at] ^= 0x40;
            assert_eq!(reference.value(9, &torn), Err(RecordError::Torn), "{at}");
        }
    }

    #[test]
    fn an_incarnation_is_told_apart_for_thousands_of_uses() {
        let reference = ValueRef {
            unit: 0,
            length: 1,
            incarnation: 1,
        };
        let first = |incarnation: u32| u64::from(incarnation) | 1 << 32;
        assert!(reference.fits(first(1)));
        assert!((2..8192).all(|incarnation| !reference.fits(first(incarnation))));
    }
}
