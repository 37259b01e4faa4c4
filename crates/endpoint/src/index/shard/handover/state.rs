//! The state of a shard in a move, and why it refuses a step.

use crate::btree::TreeError;
use crate::index::map::{EndpointId, Part};
use crate::index::shard::ownership::Span;
use serde::{Deserialize, Serialize};

/// The identity of a move, chosen by its coordinator: different for every move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MoveId(pub u64);

/// A range that is leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index::shard) struct Giving {
    pub id: MoveId,
    pub to: EndpointId,
    pub range: Span,
    /// Whether the commit will be refused.
    pub aborted: bool,
}

/// A range that is being taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index::shard) struct Getting {
    pub id: MoveId,
    pub range: Span,
    /// The tree's bounds before the move.
    pub before: (u64, u64),
    pub entries: u64,
    /// Whether all entries have arrived.
    pub sealed: bool,
    /// The epoch in which the replica gets the range as well; zero: none.
    pub replica: u64,
    /// Whether the replica has removed what it had of the range.
    pub is_cleared: bool,
}

/// A range to be moved or copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Marked {
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
}

impl From<Span> for Marked {
    fn from(range: Span) -> Self {
        Self {
            low: range.low,
            last: range.last,
        }
    }
}

/// The state of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardState {
    /// The version of its map.
    pub version: u64,
    /// The range that it owns.
    pub part: Option<Part>,
    /// The move in which it gives keys.
    pub giving: Option<(MoveId, Marked)>,
    /// The move in which it takes keys, and the number of entries received.
    pub getting: Option<(MoveId, Marked, u64)>,
}

impl ShardState {
    /// Encodes the state as words: version, then for each of part, giving and getting whether it is
    /// present, and its three words.
    pub fn encode(&self) -> Vec<u8> {
        let part = self.part.map(|part| [0, part.low, part.last, 0]);
        let giving = self.giving.map(|(id, keys)| [id.0, keys.low, keys.last, 0]);
        let getting = self.getting;
        let getting = getting.map(|(id, keys, entries)| [id.0, keys.low, keys.last, entries]);
        let words = [part, giving, getting].into_iter().flat_map(|words| {
            let there = u64::from(words.is_some());
            core::iter::once(there).chain(words.unwrap_or_default())
        });
        let words = core::iter::once(self.version).chain(words);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes the state of `endpoint`.
    pub fn decode(bytes: &[u8], endpoint: EndpointId) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: [u64; 16] = words
            .iter()
            .map(|&w| u64::from_le_bytes(w))
            .collect::<Vec<_>>()
            .try_into()
            .ok()
            .filter(|_| rest.is_empty())?;
        let group = |at: usize| {
            (words[at] != 0).then(|| {
                (
                    MoveId(words[at + 1]),
                    Marked {
                        low: words[at + 2],
                        last: words[at + 3],
                    },
                    words[at + 4],
                )
            })
        };
        Some(Self {
            version: words[0],
            part: group(1).map(|(_, keys, _)| Part {
                low: keys.low,
                last: keys.last,
                endpoint,
            }),
            giving: group(6).map(|(id, keys, _)| (id, keys)),
            getting: group(11),
        })
    }
}

/// Why a step of a move is refused. Then nothing has changed, unless the tree is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandoverError {
    /// Another move is pending.
    #[error("the shard is taking part in another move")]
    Other,
    /// There is no such move.
    #[error("the shard is not taking part in this move")]
    Unknown,
    /// The move was aborted and will not be committed.
    #[error("the move was aborted")]
    Aborted,
    /// The range cannot be given from here, or taken here.
    #[error("keys {low} to {last} are not at an end of what the shard has, next to the taker's")]
    Range {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
    },
    /// The shard has another map.
    #[error("the shard has map version {here}, not {there}")]
    Version {
        /// The version here.
        here: u64,
        /// The version of the requester's map.
        there: u64,
    },
    /// Not all entries have arrived.
    #[error("{here} entries have come, {there} were sent")]
    Entries {
        /// Entries received.
        here: u64,
        /// Entries sent.
        there: u64,
    },
    /// It is not known whether all entries have arrived.
    #[error("the range is not sealed")]
    Unsealed,
    /// Writes or earlier steps are waiting for the replica: repeat the step.
    #[error("the replica has not acknowledged everything yet; repeat the step")]
    Unfinished,
    /// The tree returned an error.
    #[error(transparent)]
    Tree(#[from] TreeError),
}
