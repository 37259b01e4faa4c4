//! The ring: a circular buffer of items in a region, used by zero-sided flows (zero-sided RDMA,
//! sections 3.2 and 4).
//!
//! | offset | bytes | written by | content |
//! |---|---|---|---|
//! | 0 | 8 | the node | node word: [`NodeState`] and counter |
//! | 64 | 8 | the switch | commit record of a consumer ring: producer and its tail |
//! | 72 | 8 | the switch | switch word: [`SwitchState`] and counter |
//! | 128 | slots × item size | producer ring: the node; consumer ring: the switch | items |
//!
//! A word has its state (in a record: the producer) in bits 0 to 15, [`MAGIC`] in bits 16 to 31 and
//! its counter in bits 32 to 63. The magic distinguishes a word from uninitialised memory.
//!
//! Counters count items, modulo 2^32; an item's slot is its number modulo the number of slots. A
//! producer's node word holds the head and its switch word the tail; a consumer's node word holds
//! the tail and its switch word the head. Each line of 64 bytes has one writer, so neither side
//! overwrites the other's words. Words are in the byte order of the node.
//!
//! The commit record goes beyond the paper. The switch writes it together with the head, so that
//! after a restart of the switch the controller knows which items of which producer the consumer
//! has seen, even if the producer's tail had not been written yet.

use serde::{Deserialize, Serialize};
/// Offset of the word that the node writes.
pub const NODE_WORD: u64 = 0;
/// Offset of the commit record, which the switch writes together with its word.
pub const COMMIT_RECORD: u64 = 64;
/// Offset of the word that the switch writes.
pub const SWITCH_WORD: u64 = 72;
/// Offset of the first item.
pub const ITEMS: u64 = 128;
/// The largest number of slots: counters must distinguish a full ring from an empty one.
pub const SLOTS_MAX: u32 = 1 << 30;

/// The contents of bits 16 to 31 of every word: "RW".
pub const MAGIC: u16 = 0x5257;

/// The byte order of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// The state that a node reports for its end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u16)]
pub enum NodeState {
    /// Not set up yet.
    #[default]
    Vacant = 0,
    /// In operation.
    Open = 1,
    /// A producer will add no more items; a consumer will consume no more.
    Finished = 2,
}

/// The state that the switch reports for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u16)]
pub enum SwitchState {
    /// Not set up yet.
    #[default]
    Vacant = 0,
    /// In operation.
    Open = 1,
    /// Every producer has finished and every item has been delivered.
    Ended = 2,
    /// The flow was aborted; published items stay valid, and nothing follows.
    Aborted = 3,
}

/// A counter and a state in one word, so that they are always read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word<S> {
    /// Items so far, modulo 2^32.
    pub counter: u32,
    /// The state.
    pub state: S,
}

/// The word that a node writes.
pub type NodeWord = Word<NodeState>;
/// The word that the switch writes.
pub type SwitchWord = Word<SwitchState>;

/// The producer and the items of it that the newest head of a consumer ring contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitRecord {
    /// The producer's index among those of the ring, counted from one; zero before the first
    /// commit.
    pub producer: u16,
    /// Its tail: the number of its items that were published here.
    pub tail: u32,
}

/// A word without magic, or with an unknown state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("ring word {word:#018x} has no magic or an unknown state")]
pub struct UnknownState {
    /// The whole word.
    pub word: u64,
}

const fn pack(low: u16, counter: u32) -> u64 {
    (counter as u64) << 32 | (MAGIC as u64) << 16 | low as u64
}

/// The low 16 bits and the counter of a word; `None` if the magic is missing.
const fn unpack(word: u64) -> Option<(u16, u32)> {
    if (word >> 16) as u16 == MAGIC {
        Some((word as u16, (word >> 32) as u32))
    } else {
        None
    }
}

impl TryFrom<u64> for NodeWord {
    type Error = UnknownState;
    fn try_from(word: u64) -> Result<Self, UnknownState> {
        let (state, counter) = match unpack(word) {
            Some((0, counter)) => (NodeState::Vacant, counter),
            Some((1, counter)) => (NodeState::Open, counter),
            Some((2, counter)) => (NodeState::Finished, counter),
            _ => return Err(UnknownState { word }),
        };
        Ok(Self { counter, state })
    }
}

impl TryFrom<u64> for SwitchWord {
    type Error = UnknownState;
    fn try_from(word: u64) -> Result<Self, UnknownState> {
        let (state, counter) = match unpack(word) {
            Some((0, counter)) => (SwitchState::Vacant, counter),
            Some((1, counter)) => (SwitchState::Open, counter),
            Some((2, counter)) => (SwitchState::Ended, counter),
            Some((3, counter)) => (SwitchState::Aborted, counter),
            _ => return Err(UnknownState { word }),
        };
        Ok(Self { counter, state })
    }
}

impl From<NodeWord> for u64 {
    fn from(word: NodeWord) -> u64 {
        pack(word.state as u16, word.counter)
    }
}

impl From<SwitchWord> for u64 {
    fn from(word: SwitchWord) -> u64 {
        pack(word.state as u16, word.counter)
    }
}

/// Memory that holds no record reads as the record before the first commit.
impl From<u64> for CommitRecord {
    fn from(word: u64) -> Self {
        unpack(word).map_or(Self::default(), |(producer, tail)| Self { producer, tail })
    }
}

impl From<CommitRecord> for u64 {
    fn from(record: CommitRecord) -> u64 {
        pack(record.producer, record.tail)
    }
}

impl ByteOrder {
    /// The bytes of `word` in memory order.
    pub const fn to_bytes(self, word: u64) -> [u8; 8] {
        match self {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }

    /// The word with these bytes in memory.
    pub const fn from_bytes(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Converts the result of an aligned load in this process to the word; it is its own inverse.
    pub const fn native(self, raw: u64) -> u64 {
        match self {
            ByteOrder::Little => raw.to_le(),
            ByteOrder::Big => raw.to_be(),
        }
    }
}

/// The bytes that a ring needs.
pub const fn region_bytes(item_size: u32, slots: u32) -> u64 {
    ITEMS + item_size as u64 * slots as u64
}

/// Number of items in a run: at most those available, the free slots, those before the end of
/// either ring, and `limit`.
///
/// `available` and `room` are item counts; `source` and `target` the counters of the first item in
/// the two rings.
pub fn run_length(
    available: u32,
    room: u32,
    (source, source_slots): (u32, u32),
    (target, target_slots): (u32, u32),
    limit: u32,
) -> u32 {
    let before_end = |counter: u32, slots: u32| slots - (counter & (slots - 1));
    available
        .min(room)
        .min(before_end(source, source_slots))
        .min(before_end(target, target_slots))
        .min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_documented() {
        let word = NodeWord {
            counter: 0x0102_0304,
            state: NodeState::Finished,
        };
        assert_eq!(u64::from(word), 0x0102_0304_5257_0002);
        assert_eq!(NodeWord::try_from(u64::from(word)), Ok(word));
        assert_eq!(
            ByteOrder::Big.to_bytes(word.into()),
            [1, 2, 3, 4, 0x52, 0x57, 0, 2],
            "a big-endian node sees the counter first"
        );
        let record = CommitRecord {
            producer: 3,
            tail: 9,
        };
        assert_eq!(u64::from(record), 0x0000_0009_5257_0003);
        assert_eq!(CommitRecord::from(u64::from(record)), record);
    }

    #[test]
    fn unknown_states_are_refused() {
        assert_eq!(
            SwitchWord::try_from(0x5257_0004).unwrap_err().to_string(),
            "ring word 0x0000000052570004 has no magic or an unknown state"
        );
        assert!(NodeWord::try_from(u64::MAX).is_err());
        assert!(
            NodeWord::try_from(0).is_err(),
            "memory that nobody has written"
        );
        assert_eq!(CommitRecord::from(0), CommitRecord::default());
    }

    #[test]
    fn a_run_stops_at_the_end_of_either_ring() {
        assert_eq!(run_length(10, 10, (6, 8), (0, 16), 100), 2);
        assert_eq!(run_length(10, 10, (0, 16), (u32::MAX, 16), 100), 1);
        assert_eq!(run_length(10, 3, (0, 16), (0, 16), 100), 3);
        assert_eq!(run_length(10, 10, (0, 16), (0, 16), 4), 4);
        assert_eq!(run_length(0, 10, (0, 16), (0, 16), 4), 0);
    }
}
