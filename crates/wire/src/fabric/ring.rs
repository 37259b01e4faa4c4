//! The ring: a circular buffer of items in a region, as zero-sided flows use it (zero-sided RDMA,
//! sections 3.2 and 4).
//!
//! | offset | bytes | written by | content |
//! |---|---|---|---|
//! | 0 | 8 | the node | unit word: counter in the low 32 bits, [`UnitState`] in the high 32 |
//! | 64 | 8 | the switch | commit record of a consumer ring: producer in the low 32 bits, its tail in the high 32 |
//! | 72 | 8 | the switch | switch word: counter in the low 32 bits, [`SwitchState`] in the high 32 |
//! | 128 | slots × item size | producer ring: the node; consumer ring: the switch | items |
//!
//! Counters count items, modulo 2^32; an item's slot is its number modulo the number of slots. A
//! producer's unit word holds the head and its switch word the tail; a consumer's unit word holds
//! the tail and its switch word the head. Each line of 64 bytes has one writer, so that neither
//! side ever writes over the other's news. Words are in the byte order of the node.
//!
//! The commit record goes beyond the paper. The switch writes it together with the head, so that
//! after a restart of the switch the controller knows which items of which producer the consumer
//! has seen, even if the producer's tail had not been written yet.

/// Offset of the word that the node writes.
pub const UNIT_WORD: u64 = 0;
/// Offset of the commit record, which the switch writes together with its word.
pub const COMMIT_RECORD: u64 = 64;
/// Offset of the word that the switch writes.
pub const SWITCH_WORD: u64 = 72;
/// Offset of the first item.
pub const ITEMS: u64 = 128;
/// The largest number of slots: counters must tell a full ring from an empty one.
pub const SLOTS_MAX: u32 = 1 << 30;

/// The byte order of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// What a node says about its end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum UnitState {
    /// Not set up yet.
    #[default]
    Vacant = 0,
    /// Working.
    Open = 1,
    /// A producer will add no more items; a consumer will take no more.
    Finished = 2,
}

/// What the switch says about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum SwitchState {
    /// Not set up yet.
    #[default]
    Vacant = 0,
    /// Working.
    Open = 1,
    /// Every producer has finished and every item has been delivered.
    Ended = 2,
    /// The flow was broken off; what has been published stays valid, nothing follows.
    Aborted = 3,
}

/// A counter and a state in one word, so that they are always seen together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word<S> {
    /// Items so far, modulo 2^32.
    pub counter: u32,
    /// The state.
    pub state: S,
}

/// What a node writes.
pub type UnitWord = Word<UnitState>;
/// What the switch writes.
pub type SwitchWord = Word<SwitchState>;

/// Which items of which producer the newest head of a consumer ring contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitRecord {
    /// The producer's place in the flow, counted from one; zero before the first commit.
    pub producer: u32,
    /// Its tail: items of it that were published here.
    pub tail: u32,
}

/// A state that is none of the known ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("ring word {word:#018x} has an unknown state")]
pub struct UnknownState {
    /// The whole word.
    pub word: u64,
}

impl TryFrom<u64> for UnitWord {
    type Error = UnknownState;
    fn try_from(word: u64) -> Result<Self, UnknownState> {
        let state = match word >> 32 {
            0 => UnitState::Vacant,
            1 => UnitState::Open,
            2 => UnitState::Finished,
            _ => return Err(UnknownState { word }),
        };
        Ok(Self { counter: word as u32, state })
    }
}

impl TryFrom<u64> for SwitchWord {
    type Error = UnknownState;
    fn try_from(word: u64) -> Result<Self, UnknownState> {
        let state = match word >> 32 {
            0 => SwitchState::Vacant,
            1 => SwitchState::Open,
            2 => SwitchState::Ended,
            3 => SwitchState::Aborted,
            _ => return Err(UnknownState { word }),
        };
        Ok(Self { counter: word as u32, state })
    }
}

impl From<UnitWord> for u64 {
    fn from(word: UnitWord) -> u64 {
        u64::from(word.state as u32) << 32 | u64::from(word.counter)
    }
}

impl From<SwitchWord> for u64 {
    fn from(word: SwitchWord) -> u64 {
        u64::from(word.state as u32) << 32 | u64::from(word.counter)
    }
}

impl From<u64> for CommitRecord {
    fn from(word: u64) -> Self {
        Self { producer: word as u32, tail: (word >> 32) as u32 }
    }
}

impl From<CommitRecord> for u64 {
    fn from(record: CommitRecord) -> u64 {
        u64::from(record.tail) << 32 | u64::from(record.producer)
    }
}

impl ByteOrder {
    /// The bytes of `word` as they lie in memory.
    pub const fn to_bytes(self, word: u64) -> [u8; 8] {
        match self {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }

    /// The word that lies in memory as `bytes`.
    pub const fn from_bytes(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }

    /// What an aligned load in this process reads, turned into the word; its own inverse.
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

/// How many items a run may have: no more than there are, than there is room for, than lie before
/// either ring's end, and than `limit`.
///
/// `available` and `room` are item counts; `source` and `target` the counters of the first item in
/// either ring.
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
        let word = UnitWord { counter: 0x0102_0304, state: UnitState::Finished };
        assert_eq!(u64::from(word), 0x0000_0002_0102_0304);
        assert_eq!(UnitWord::try_from(u64::from(word)), Ok(word));
        assert_eq!(
            ByteOrder::Big.to_bytes(word.into()),
            [0, 0, 0, 2, 1, 2, 3, 4],
            "a big-endian node sees the state first"
        );
        let record = CommitRecord { producer: 3, tail: 9 };
        assert_eq!(u64::from(record), 0x0000_0009_0000_0003);
        assert_eq!(CommitRecord::from(u64::from(record)), record);
    }

    #[test]
    fn unknown_states_are_refused() {
        assert_eq!(
            SwitchWord::try_from(4 << 32).unwrap_err().to_string(),
            "ring word 0x0000000400000000 has an unknown state"
        );
        assert!(UnitWord::try_from(u64::MAX).is_err());
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
