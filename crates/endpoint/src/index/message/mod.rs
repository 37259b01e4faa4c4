//! The messages between clients and endpoints, inside the calls of `rpc`.
//!
//! Numbers are little-endian and follow each other without gaps. A reply begins with an
//! [`Outcome`]. Malformed requests are refused by the status of the call.

mod encoding;
mod entries;

use super::map::{EndpointId, PartitionMap};
use super::shard::MoveId;
use crate::btree::Direction;
use crate::rpc::Status;
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
    /// Returns the partition map.
    Map = 8,
    /// Returns counters and a sample of the requested keys.
    Statistics = 9,
    /// Returns the moves in progress.
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
    /// Keeps the range: cancels the move.
    Release = 13 { id: MoveId },
    /// Gives the range away for good.
    Commit = 14 { id: MoveId, map: PartitionMap },
    /// Begins to take a range.
    Stage = 15 { id: MoveId, low: u64, last: u64, map: PartitionMap },
    /// Adds entries of the range.
    Install = 16 { id: MoveId, entries: Entries<'a> },
    /// Does not take the range: cancels the move.
    Discard = 17 { id: MoveId },
    /// Reports that all entries of the range have been sent.
    Seal = 18 { id: MoveId, entries: u64 },
    /// Owns the range from now on.
    Adopt = 19 { id: MoveId, map: PartitionMap },
    /// Refuses to give the range away.
    Abort = 20 { id: MoveId },
    /// Adds or changes a value at a replica.
    ReplicaPut = 21 { epoch: u64, key: u64, value: &'a [u8] },
    /// Removes a value at a replica.
    ReplicaRemove = 22 { epoch: u64, key: u64 },
    /// Adds entries at a replica.
    ReplicaInstall = 23 { epoch: u64, entries: Entries<'a> },
    /// Removes the entries of a range at a replica.
    ReplicaClear = 24 { epoch: u64, low: u64, last: u64 },
    /// Stores the map in which the endpoint has given a range away, or taken one, at a replica.
    ReplicaMap = 25 { epoch: u64, map: PartitionMap },
}

/// The outcome of a request: the first byte of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Outcome {
    /// Done; for requests on a key, the key was present before.
    Done = 0,
    /// The key was absent before.
    Absent = 1,
    /// The keys belong to another endpoint. The endpoint's map version follows.
    Moved = 2,
    /// The keys are being moved: retry later.
    Busy = 3,
    /// The tree is full.
    Full = 4,
    /// The value is too long for the tree.
    ValueTooLarge = 5,
    /// A step of a move that does not fit the endpoint's state, a request to a replica at an
    /// endpoint or the reverse, or an epoch that a replica does not accept.
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

/// Why a request cannot be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The method does not exist.
    #[error("there is no method {0}")]
    UnknownMethod(u16),
    /// The bytes are not a request of the method.
    #[error("{len} bytes are no request of {method:?}")]
    Malformed {
        /// The method.
        method: Method,
        /// Bytes of the request.
        len: usize,
    },
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::UnknownMethod(_) => Self::UNKNOWN_METHOD,
            RequestError::Malformed { .. } => Self::MALFORMED,
        }
    }
}

/// Splits a reply into its outcome and the rest; `None` if the outcome is unknown.
pub fn reply(bytes: &[u8]) -> Option<(Outcome, &[u8])> {
    let (&outcome, rest) = bytes.split_first()?;
    Some((Outcome::from_number(outcome)?, rest))
}

#[cfg(test)]
mod tests;
