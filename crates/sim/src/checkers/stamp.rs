//! Self-identifying items: a stamp, and filler bytes that follow from it.
//!
//! The stamp is 16 bytes, little-endian: sequence (8), producer (2), destination (2), and 4 bytes
//! of a checksum over those and the seed. The filler follows from stamp and seed, so the checker
//! knows every byte of an item that it never saw. Items shorter than a stamp carry as much of it as
//! fits, the sequence first; they can be compared with an expected item, but not identified.

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 16;

/// The identity of an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp {
    /// The producer.
    pub producer: u16,
    /// The destination: a ring of the producer.
    pub destination: u16,
    /// Its position in that ring, from zero.
    pub sequence: u64,
}

/// What is wrong with an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StampError {
    /// Too short to hold a stamp.
    #[error("an item of {len} bytes cannot hold a stamp of {STAMP_BYTES}")]
    TooShort {
        /// Bytes of the item.
        len: usize,
    },
    /// The stamp's checksum is wrong: these bytes are not an item of this run.
    #[error("no stamp of this run: {bytes:02x?}")]
    NotStamped {
        /// The first bytes.
        bytes: [u8; STAMP_BYTES],
    },
    /// The filler does not match the stamp.
    #[error("{stamp:?}: byte {at} is {got:#04x}, not {expect:#04x}")]
    Damaged {
        /// The stamp.
        stamp: Stamp,
        /// The first wrong byte.
        at: usize,
        /// The actual byte.
        got: u8,
        /// The expected byte.
        expect: u8,
    },
}

/// SplitMix64's finaliser: every bit of the result depends on every bit of `value`.
pub(super) fn scramble(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Stamp {
    fn key(self, seed: u64) -> u64 {
        let route = u64::from(self.producer) << 16 | u64::from(self.destination);
        scramble(scramble(seed ^ route) ^ self.sequence)
    }

    fn bytes(self, seed: u64) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.producer.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.destination.to_le_bytes());
        bytes[12..].copy_from_slice(&(self.key(seed) as u32).to_le_bytes());
        bytes
    }

    /// Calls `each` with every piece of the filler of an item: offset within the item, and bytes.
    fn filler(self, len: usize, seed: u64, mut each: impl FnMut(usize, &[u8])) {
        let key = self.key(seed);
        let mut word = 0;
        let mut at = STAMP_BYTES;
        while at < len {
            let bytes = scramble(key.wrapping_add(word)).to_le_bytes();
            let count = bytes.len().min(len - at);
            each(at, &bytes[..count]);
            at += count;
            word += 1;
        }
    }
}

/// Writes stamp and filler over all of `item`.
pub fn fill(item: &mut [u8], producer: u16, destination: u16, sequence: u64, seed: u64) {
    let stamp = Stamp {
        producer,
        destination,
        sequence,
    };
    let bytes = stamp.bytes(seed);
    let stamped = item.len().min(STAMP_BYTES);
    item[..stamped].copy_from_slice(&bytes[..stamped]);
    stamp.filler(item.len(), seed, |at, bytes| {
        item[at..at + bytes.len()].copy_from_slice(bytes)
    });
}

/// Identifies an item and compares every byte of it.
///
/// # Errors
/// If the item is too short, not an item of this run, or damaged.
pub fn check(item: &[u8], seed: u64) -> Result<Stamp, StampError> {
    let Some(bytes) = item.first_chunk::<STAMP_BYTES>() else {
        return Err(StampError::TooShort { len: item.len() });
    };
    let (sequence, rest) = bytes.split_at(8);
    let word = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
    let sequence = sequence
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte));
    let stamp = Stamp {
        producer: word(0),
        destination: word(2),
        sequence,
    };
    if stamp.bytes(seed) != *bytes {
        return Err(StampError::NotStamped { bytes: *bytes });
    }
    let mut wrong = None;
    stamp.filler(item.len(), seed, |at, expect| {
        let got = &item[at..at + expect.len()];
        if wrong.is_none()
            && let Some(offset) = got.iter().zip(expect).position(|(a, b)| a != b)
        {
            wrong = Some((at + offset, got[offset], expect[offset]));
        }
    });
    match wrong {
        Some((at, got, expect)) => Err(StampError::Damaged {
            stamp,
            at,
            got,
            expect,
        }),
        None => Ok(stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_item_is_recognised(
            producer: u16, destination: u16, sequence: u64, seed: u64, len in 16usize..300,
        ) {
            let mut item = vec![0; len];
            fill(&mut item, producer, destination, sequence, seed);
            prop_assert_eq!(check(&item, seed), Ok(Stamp { producer, destination, sequence }));
        }

        #[test]
        fn every_flipped_bit_is_noticed(
            sequence: u64, seed: u64, len in 16usize..100, bit: prop::sample::Index,
        ) {
            let mut item = vec![0; len];
            fill(&mut item, 1, 2, sequence, seed);
            let bit = bit.index(len * 8);
            item[bit / 8] ^= 1 << (bit % 8);
            match check(&item, seed) {
                Err(StampError::NotStamped { .. }) => prop_assert!(bit / 8 < 16),
                Err(StampError::Damaged { at, .. }) => prop_assert_eq!(at, bit / 8),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn short_items_hold_a_part_of_the_stamp() {
        let mut item = [0; 8];
        fill(&mut item, 1, 2, 77, 3);
        assert_eq!(u64::from_le_bytes(item), 77);
        assert_eq!(check(&item, 3), Err(StampError::TooShort { len: 8 }));
    }

    #[test]
    fn an_item_of_another_run_is_not_recognised() {
        let mut item = [0; 64];
        fill(&mut item, 1, 2, 3, 4);
        assert!(matches!(
            check(&item, 5),
            Err(StampError::NotStamped { .. })
        ));
        assert!(matches!(
            check(&[0; 64], 4),
            Err(StampError::NotStamped { .. })
        ));
    }
}
