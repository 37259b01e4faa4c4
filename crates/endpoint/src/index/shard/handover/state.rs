//! Where a shard stands in a move, and why it refuses a step.

use crate::btree::TreeError;
use crate::index::map::{EndpointId, Part};
use crate::index::shard::ownership::Span;

/// A move of a range, as its coordinator names it: different for every move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MoveId(pub u64);

/// A range that is leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index::shard) struct Giving {
    pub id: MoveId,
    pub to: EndpointId,
    pub range: Span,
    /// It will not be committed.
    pub aborted: bool,
}

/// A range that is coming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index::shard) struct Getting {
    pub id: MoveId,
    pub range: Span,
    /// The tree's bounds before.
    pub before: (u64, u64),
    pub entries: u64,
    /// That is all.
    pub sealed: bool,
}

/// What is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marked {
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
}

/// Where a shard stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardState {
    /// The version of its map.
    pub version: u64,
    /// What it owns.
    pub part: Option<Part>,
    /// The move in which it gives keys.
    pub giving: Option<(MoveId, Marked)>,
    /// The move in which it gets keys, and how many entries have come.
    pub getting: Option<(MoveId, Marked, u64)>,
}

impl ShardState {
    /// The state as words: version, then for each of part, giving and getting whether there is one,
    /// and three words of it.
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

    /// The state of `endpoint` in these bytes.
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

/// Why a step of a move is refused. Nothing has changed then, unless the tree is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandoverError {
    /// Another move is under way.
    #[error("the shard is taking part in another move")]
    Other,
    /// There is no such move.
    #[error("the shard is not taking part in this move")]
    Unknown,
    /// The move will not be committed.
    #[error("the move was aborted")]
    Aborted,
    /// The range cannot go from here, or come here.
    #[error("keys {low} to {last} are not at an end of what the shard has, next to the taker's")]
    Range {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
    },
    /// The shard's map is another.
    #[error("the shard has map version {here}, not {there}")]
    Version {
        /// The version here.
        here: u64,
        /// The version of who asks.
        there: u64,
    },
    /// Not all entries have come.
    #[error("{here} entries have come, {there} were sent")]
    Entries {
        /// Entries here.
        here: u64,
        /// Entries sent.
        there: u64,
    },
    /// It is not known whether all entries have come.
    #[error("the range is not sealed")]
    Unsealed,
    /// The tree refused.
    #[error(transparent)]
    Tree(#[from] TreeError),
}
