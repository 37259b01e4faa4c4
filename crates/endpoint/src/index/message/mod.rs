//! What clients and endpoints say to each other, inside the calls of `rpc`.
//!
//! Numbers are little-endian and lie behind each other without gaps. A reply begins with an
//! [`Outcome`]. Requests that make no sense are refused by the status of the call.

mod encoding;
mod entries;

use super::map::{EndpointId, PartitionMap};
use super::shard::MoveId;
use crate::btree::Direction;
use encoding::requests;
use zerocopy::TryFromBytes;

pub(super) use encoding::Numbers;
pub use entries::{ENTRY_HEADER, Entries, PAGE_HEADER, Page, entry_header, page_header};

requests! {
    /// Reads a value.
    Get = 1 { key: u64 },
    /// Adds a value.
    Insert = 2 { key: u64, value: &'a [u8] },
    /// Changes a value.
    Update = 3 { key: u64, value: &'a [u8] },
    /// Adds or changes a value.
    Put = 4 { key: u64, value: &'a [u8] },
    /// Removes a value.
    Delete = 5 { key: u64 },
    /// Reads entries in order.
    Scan = 6 { low: u64, last: u64, direction: Direction, limit: u32 },
    /// Adds or changes many values.
    Load = 7 { entries: Entries<'a> },
    /// Gives the partition map.
    Map = 8,
    /// Gives counters and keys that were asked for.
    Statistics = 9,
    /// Says which moves are under way.
    State = 10,
    /// Begins to give a range away.
    Mark = 11 {
        id: MoveId,
        to: EndpointId,
        low: u64,
        last: u64,
        entries_max: u32,
        map: PartitionMap,
    },
    /// Reads entries of the range.
    Export = 12 { id: MoveId, from: u64 },
    /// Keeps the range after all.
    Release = 13 { id: MoveId },
    /// Gives the range away for good.
    Commit = 14 { id: MoveId, map: PartitionMap },
    /// Begins to take a range.
    Stage = 15 { id: MoveId, low: u64, last: u64, map: PartitionMap },
    /// Adds entries of the range.
    Install = 16 { id: MoveId, entries: Entries<'a> },
    /// Does not take the range after all.
    Discard = 17 { id: MoveId },
    /// All entries of the range have come.
    Seal = 18 { id: MoveId, entries: u64 },
    /// Owns the range from now on.
    Adopt = 19 { id: MoveId, map: PartitionMap },
    /// Will not give the range away.
    Abort = 20 { id: MoveId },
}

/// How a request ended: the first byte of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Outcome {
    /// Done; the key was there before, where that is the question.
    Done = 0,
    /// The key was not there before.
    Absent = 1,
    /// The keys belong to another endpoint. The endpoint's map version follows.
    Moved = 2,
    /// The keys are being moved: ask again later.
    Busy = 3,
    /// The tree has no room.
    Full = 4,
    /// The tree takes no such value.
    ValueTooLarge = 5,
    /// A step of a move that does not fit the endpoint's state.
    Conflict = 6,
    /// The tree is damaged.
    Corrupt = 7,
}

impl Outcome {
    /// The outcome of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::try_read_from_bytes(&[number]).ok()
    }
}

/// Why a request cannot be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// No such method.
    #[error("there is no method {0}")]
    UnknownMethod(u16),
    /// Not what the method takes.
    #[error("{len} bytes are no request of {method:?}")]
    Malformed {
        /// The method.
        method: Method,
        /// Bytes of the request.
        len: usize,
    },
}

/// Splits a reply into its outcome and the rest; nothing if there is no such outcome.
pub fn reply(bytes: &[u8]) -> Option<(Outcome, &[u8])> {
    let (&outcome, rest) = bytes.split_first()?;
    Some((Outcome::from_number(outcome)?, rest))
}

#[cfg(test)]
mod tests;
