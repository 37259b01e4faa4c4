//! The replicated messages. Their bytes depend on the producer and the number, and differ
//! everywhere.
//!
//! ```text
//! sequence (8) | producer (4), zero (4) | number (8) | words that follow from all but the sequence
//! ```
//! All little-endian. The sequence comes from a sequencer, or is zero.

use crate::baseline::tuples;
use rackweave_endpoint::flow::hash_key;

/// Bytes in front of the words.
pub const HEADER: usize = 24;

/// A message's name: its producer, and its number at that producer, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp {
    /// The producer.
    pub producer: u32,
    /// The message's number at its producer.
    pub number: u64,
}

/// Writes a whole message.
///
/// # Panics
/// If `bytes` is shorter than a header.
pub fn write(bytes: &mut [u8], stamp: Stamp, sequence: u64, seed: u64) {
    let (header, words) = bytes.split_at_mut(HEADER);
    header[..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..16].copy_from_slice(&u64::from(stamp.producer).to_le_bytes());
    header[16..].copy_from_slice(&stamp.number.to_le_bytes());
    tuples::write(key(stamp, seed), words);
}

/// Reads a whole message: its name and sequence, or `None` if a byte differs from what was written.
pub fn read(bytes: &[u8], seed: u64) -> Option<(Stamp, u64)> {
    let (header, words) = bytes.split_at_checked(HEADER)?;
    let word = |at| -> Option<u64> {
        let word: &[u8] = header.get(at..at + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    let stamp = Stamp {
        producer: u32::try_from(word(8)?).ok()?,
        number: word(16)?,
    };
    let is_whole = words.is_empty() || tuples::read(words) == Some(key(stamp, seed));
    Some((stamp, word(0)?)).filter(|_| is_whole)
}

/// The key from which the words after the header follow.
fn key(stamp: Stamp, seed: u64) -> u64 {
    hash_key(hash_key(seed ^ u64::from(stamp.producer)) ^ stamp.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_sent_it_and_notices_every_wrong_byte() {
        let stamp = Stamp {
            producer: 3,
            number: 77,
        };
        let mut bytes = [0; 104];
        write(&mut bytes, stamp, 5, 1);
        assert_eq!(read(&bytes, 1), Some((stamp, 5)));
        assert_eq!(read(&bytes, 2), None);
        assert_eq!(read(&bytes[..HEADER - 1], 1), None);
        for at in 8..bytes.len() {
            bytes[at] ^= 0x10;
            assert_eq!(read(&bytes, 1), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
