//! The words of a buffer info.

use super::PIECE_ALIGN;
use core::fmt;

/// Entries of a buffer info.
pub const ENTRIES: usize = 16;
/// Bytes of an entry: a cache line, so that words with different writers do not share one.
pub const ENTRY_LEN: u64 = 64;
/// Bytes of the entries of a buffer info.
pub const BUFFER_INFO_LEN: u64 = ENTRIES as u64 * ENTRY_LEN;
/// Bytes of an inline buffer.
pub const INLINE_LEN: u64 = 1024;
/// The largest package in an inline buffer, and the offset of its word there.
pub const INLINE_MAX: usize = INLINE_LEN as usize - PIECE_ALIGN;
/// Maximum receive buffers of one node.
pub const RECEIVE_BUFFERS_MAX: u8 = 7;

/// The entry with the connection word of the peer.
pub const CONNECTION_ENTRY: usize = 0;
/// The entry that a peer writes only to check that it can. Its contents have no meaning.
pub const PULSE_ENTRY: usize = 8;

/// The entry of receive buffer `buffer` of the node that the buffer info belongs to.
///
/// # Panics
/// If `buffer` is out of range.
pub const fn own_entry(buffer: u8) -> usize {
    assert!(buffer < RECEIVE_BUFFERS_MAX, "at most 7 receive buffers");
    CONNECTION_ENTRY + 1 + buffer as usize
}

/// The entry of receive buffer `buffer` of the peer.
///
/// # Panics
/// If `buffer` is out of range.
pub const fn peer_entry(buffer: u8) -> usize {
    assert!(buffer < RECEIVE_BUFFERS_MAX, "at most 7 receive buffers");
    PULSE_ENTRY + 1 + buffer as usize
}

/// The offset in a buffer info of the inline buffer that belongs to receive buffer `buffer`.
pub const fn inline_at(buffer: u8) -> u64 {
    BUFFER_INFO_LEN + buffer as u64 * INLINE_LEN
}

/// Bytes of a buffer info with the inline buffers of so many receive buffers.
pub const fn buffer_info_len(receive_buffers: u8) -> u64 {
    inline_at(receive_buffers)
}

/// The number of a package modulo 2^24, as it is in words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sequence(u32);

impl Sequence {
    /// The sequence number of the package with this number, counted from zero.
    pub const fn of(package: u64) -> Self {
        Self((package & 0xff_ffff) as u32)
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Why a connection was closed. The numbers are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum CloseReason {
    /// It is no longer needed.
    Normal = 1,
    /// The node is shutting down.
    NodeStops = 2,
    /// The peer wrote a state into the buffer info that does not exist or is not valid in its
    /// entry.
    ForeignState = 3,
    /// The peer sent an impossible package number.
    BadSequence = 4,
    /// The peer reported more bytes in a receive buffer than it holds, or too few.
    BadLength = 5,
    /// A piece's header contradicts itself, the package or the preceding pieces.
    BadHeader = 6,
    /// A message is longer than agreed.
    MessageTooLong = 7,
    /// The peer's messages are invalid to their reader.
    BadMessage = 8,
    /// A queue pair failed: the peer has left, or cannot be reached.
    TransportBroken = 9,
}

impl CloseReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Normal,
        Self::NodeStops,
        Self::ForeignState,
        Self::BadSequence,
        Self::BadLength,
        Self::BadHeader,
        Self::MessageTooLong,
        Self::BadMessage,
        Self::TransportBroken,
    ];

    /// The reason with this number, if there is one.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|&reason| reason as u16 == code)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "it is no longer needed",
            Self::NodeStops => "the node stops",
            Self::ForeignState => {
                "a word of the buffer info has a state that does not belong there"
            }
            Self::BadSequence => "a word of the buffer info names a package that cannot be",
            Self::BadLength => "a package is longer than its receive buffer, or too short",
            Self::BadHeader => "a piece contradicts its package or the pieces before",
            Self::MessageTooLong => "a message is longer than was agreed",
            Self::BadMessage => "the messages make no sense",
            Self::TransportBroken => "a queue pair broke: the peer is gone or cannot be reached",
        })
    }
}

/// The contents of an entry's word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Never written: memory is initially zero.
    Blank,
    /// A receive buffer of this node holds a package of `length` bytes.
    Filled {
        /// The package.
        sequence: Sequence,
        /// Its length in bytes.
        length: u32,
    },
    /// A receive buffer of the peer waits for a package.
    Free {
        /// The package that may be written there.
        sequence: Sequence,
    },
    /// The peer has closed the connection.
    Closed {
        /// The reason.
        reason: CloseReason,
    },
}

/// An invalid word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("word {word:#018x} of the buffer info has an unknown state or reason, or stray bits")]
pub struct UnknownWord {
    /// The whole word.
    pub word: u64,
}

const FILLED: u8 = 1;
const FREE: u8 = 2;
const CLOSED: u8 = 3;

const fn pack(state: u8, sequence: u32, high: u32) -> u64 {
    (high as u64) << 32 | (sequence as u64) << 8 | state as u64
}

impl From<Word> for u64 {
    fn from(word: Word) -> u64 {
        match word {
            Word::Blank => 0,
            Word::Filled { sequence, length } => pack(FILLED, sequence.0, length),
            Word::Free { sequence } => pack(FREE, sequence.0, 0),
            Word::Closed { reason } => pack(CLOSED, 0, reason as u32),
        }
    }
}

impl TryFrom<u64> for Word {
    type Error = UnknownWord;

    fn try_from(word: u64) -> Result<Self, UnknownWord> {
        let (state, high) = (word as u8, (word >> 32) as u32);
        let sequence = Sequence((word >> 8) as u32 & 0xff_ffff);
        let read = match state {
            0 => Word::Blank,
            FILLED => Word::Filled {
                sequence,
                length: high,
            },
            FREE => Word::Free { sequence },
            CLOSED => Word::Closed {
                reason: u16::try_from(high)
                    .ok()
                    .and_then(CloseReason::from_code)
                    .ok_or(UnknownWord { word })?,
            },
            _ => return Err(UnknownWord { word }),
        };
        // Bits that a state does not use must be zero, as writers leave them.
        if u64::from(read) == word {
            Ok(read)
        } else {
            Err(UnknownWord { word })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_as_they_lie_in_memory() {
        let check = |word: Word, bytes: [u8; 8]| {
            assert_eq!(u64::from(word).to_le_bytes(), bytes, "{word:?}");
            assert_eq!(Word::try_from(u64::from_le_bytes(bytes)), Ok(word));
        };
        check(Word::Blank, [0; 8]);
        let (sequence, length) = (Sequence::of(0x1_0203_0405), 0x0a0b_0c0d);
        check(
            Word::Filled { sequence, length },
            [1, 5, 4, 3, 0xd, 0xc, 0xb, 0xa],
        );
        check(Word::Free { sequence }, [2, 5, 4, 3, 0, 0, 0, 0]);
        let reason = CloseReason::MessageTooLong;
        check(Word::Closed { reason }, [3, 0, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for word in [
            4,
            0xff,
            0x100,
            1 << 32,
            2 | 1 << 32,
            3,
            3 | 99 << 32,
            3 | 1 << 8 | 1 << 32,
        ] {
            assert_eq!(Word::try_from(word), Err(UnknownWord { word }));
        }
    }

    #[test]
    fn entries_do_not_meet() {
        let mut all = vec![CONNECTION_ENTRY, PULSE_ENTRY];
        for buffer in 0..RECEIVE_BUFFERS_MAX {
            all.extend([own_entry(buffer), peer_entry(buffer)]);
        }
        all.sort_unstable();
        assert_eq!(all, (0..ENTRIES).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_word_that_is_read_is_written_the_same(word: u64) {
            if let Ok(read) = Word::try_from(word) {
                prop_assert_eq!(u64::from(read), word);
            }
        }
    }
}
