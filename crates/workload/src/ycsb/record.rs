//! A record: bytes that identify its key and version, and whether they belong together.
//!
//! Layout, in words of eight bytes, little-endian:
//!
//! | words   | what |
//! | ------- | ---- |
//! | 0       | key |
//! | 1       | version: how often the record was updated, 0 after its insert |
//! | 2       | stamp: writer in the upper 16 bits, its sequence number in the lower 48 |
//! | 3..n-1  | filler, a function of key, version and position |
//! | n-1     | checksum of key, version, stamp and size |
//!
//! The filler differs between any two versions and keys in every word, so a record with parts of
//! two writes is detected at its first foreign word. As all of the filler is compared, the checksum
//! need not cover it. It is last, so that a write which stopped early is detected even in a record
//! without filler.

use super::scatter::mix;

/// Minimum size of a record: everything except filler.
pub(super) const SIZE_MIN: usize = 32;
/// Maximum size of a record: the largest page.
pub(super) const SIZE_MAX: usize = 1 << 20;

/// Bytes before the filler.
const HEAD: usize = 24;
/// Bytes of the checksum.
const TAIL: usize = 8;

/// The writer of a record, and the number of its write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp {
    /// The worker.
    pub writer: u16,
    /// Number of its earlier writes; the lower 48 bits are kept.
    pub sequence: u64,
}

/// The content of a verified record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordView {
    /// Its number.
    pub key: u64,
    /// How often it was updated.
    pub version: u64,
    /// The last write.
    pub stamp: Stamp,
}

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The length of the bytes is not valid for a record.
    #[error("{0} bytes are no record; it has a multiple of 8 from {SIZE_MIN} to {SIZE_MAX}")]
    Size(usize),
    /// Its head is zero: it was never written.
    #[error("record {key} was never written: its first {HEAD} bytes and its checksum are zero")]
    Unwritten {
        /// The expected record.
        key: u64,
    },
    /// Another record is here, or invalid bytes.
    #[error("record {expected} says that it is record {found}, version {version}")]
    WrongKey {
        /// The expected record.
        expected: u64,
        /// The key found.
        found: u64,
        /// The version found.
        version: u64,
    },
    /// Its parts do not belong together.
    #[error(
        "record {key} is torn or damaged: it says version {version}, and byte {at} is not of it{}",
        whose(*.other)
    )]
    Torn {
        /// The record.
        key: u64,
        /// The version in its head.
        version: u64,
        /// The first byte of the filler that is wrong, counted from the start of the record.
        at: usize,
        /// The neighbouring version that this part of the filler belongs to, if there is one.
        other: Option<u64>,
    },
    /// Its head and its end do not belong together.
    #[error(
        "record {key}, version {version}: the checksum is {found:#018x}, and should be \
         {expected:#018x}"
    )]
    Checksum {
        /// The record.
        key: u64,
        /// The version in its head.
        version: u64,
        /// The checksum computed from its head.
        expected: u64,
        /// The checksum found.
        found: u64,
    },
}

/// Whether a record may have `size` bytes.
pub(super) const fn is_size(size: usize) -> bool {
    size >= SIZE_MIN && size <= SIZE_MAX && size.is_multiple_of(8)
}

/// Writes all of a record.
///
/// # Errors
/// If the length of `bytes` is not valid for a record; nothing is written then.
pub fn write_record(
    bytes: &mut [u8],
    key: u64,
    version: u64,
    stamp: Stamp,
) -> Result<(), RecordError> {
    let size = bytes.len();
    if !is_size(size) {
        return Err(RecordError::Size(size));
    }
    let stamp = stamp.word();
    let (head, rest) = bytes.split_at_mut(HEAD);
    let (filler, tail) = rest.split_at_mut(size - HEAD - TAIL);
    head[..8].copy_from_slice(&key.to_le_bytes());
    head[8..16].copy_from_slice(&version.to_le_bytes());
    head[16..].copy_from_slice(&stamp.to_le_bytes());
    let mut state = filler_start(key, version);
    for word in filler.chunks_exact_mut(8) {
        word.copy_from_slice(&filler_word(state).to_le_bytes());
        state = state.wrapping_add(FILLER_STEP);
    }
    tail.copy_from_slice(&checksum(key, version, stamp, size).to_le_bytes());
    Ok(())
}

/// Checks every byte of what should be record `key`.
///
/// # Errors
/// What is wrong with it: see [`RecordError`].
pub fn verify_record(bytes: &[u8], key: u64) -> Result<RecordView, RecordError> {
    let size = bytes.len();
    if !is_size(size) {
        return Err(RecordError::Size(size));
    }
    let (found, version, stamp) = (word_at(bytes, 0), word_at(bytes, 8), word_at(bytes, 16));
    let check = word_at(bytes, size - TAIL);
    if found | version | stamp | check == 0 {
        return Err(RecordError::Unwritten { key });
    }
    if found != key {
        return Err(RecordError::WrongKey {
            expected: key,
            found,
            version,
        });
    }
    let filler = &bytes[HEAD..size - TAIL];
    // One comparison for all words: a branch at each would prevent vectorization.
    let mut difference = 0;
    let mut state = filler_start(key, version);
    for word in filler.chunks_exact(8) {
        difference |= word_at(word, 0) ^ filler_word(state);
        state = state.wrapping_add(FILLER_STEP);
    }
    if difference != 0 {
        return Err(torn(filler, key, version));
    }
    let expected = checksum(key, version, stamp, size);
    if check != expected {
        return Err(RecordError::Checksum {
            key,
            version,
            expected,
            found: check,
        });
    }
    let stamp = Stamp::from_word(stamp);
    Ok(RecordView {
        key,
        version,
        stamp,
    })
}

impl Stamp {
    const SEQUENCE_BITS: u32 = 48;

    fn word(self) -> u64 {
        let sequence = self.sequence & ((1 << Self::SEQUENCE_BITS) - 1);
        u64::from(self.writer) << Self::SEQUENCE_BITS | sequence
    }

    fn from_word(word: u64) -> Self {
        Self {
            writer: (word >> Self::SEQUENCE_BITS) as u16,
            sequence: word & ((1 << Self::SEQUENCE_BITS) - 1),
        }
    }
}

/// Finds the first wrong byte, and the version that it belongs to.
#[cold]
fn torn(filler: &[u8], key: u64, version: u64) -> RecordError {
    let expected = |version, word: usize| {
        let steps = FILLER_STEP.wrapping_mul(word as u64);
        filler_word(filler_start(key, version).wrapping_add(steps))
    };
    let words = filler.chunks_exact(8).map(|word| word_at(word, 0));
    let (word, found) = words
        .enumerate()
        .find(|&(word, found)| found != expected(version, word))
        .expect("a word was found to differ");
    let byte = (found ^ expected(version, word)).trailing_zeros() as usize / 8;
    // A torn record usually mixes two consecutive writes.
    let mut neighbours = version.saturating_sub(NEIGHBOURS)..=version.saturating_add(NEIGHBOURS);
    RecordError::Torn {
        key,
        version,
        at: HEAD + word * 8 + byte,
        other: neighbours.find(|&other| found == expected(other, word)),
    }
}

/// How far from the version of the head [`torn`] searches for another.
const NEIGHBOURS: u64 = 64;

fn whose(other: Option<u64>) -> String {
    other.map_or_else(String::new, |other| format!(", but of version {other}"))
}

/// The golden ratio, odd: the states of 2^64 consecutive positions are all different.
const FILLER_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn filler_start(key: u64, version: u64) -> u64 {
    mix(key ^ mix(version))
}

/// A cheap half of [`mix`]: the filler must be fast and different, not random. It is a bijection,
/// so different states give different words.
fn filler_word(state: u64) -> u64 {
    (state ^ (state >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Never zero, so that zeroed memory is not a record.
fn checksum(key: u64, version: u64, stamp: u64, size: usize) -> u64 {
    mix(mix(mix(mix(key) ^ version) ^ stamp) ^ size as u64).max(1)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().expect("a record has whole words");
    u64::from_le_bytes(*word)
}
