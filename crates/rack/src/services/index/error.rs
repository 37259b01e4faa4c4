//! Errors of an index, by call.

use crate::{IndexNetworkError, IndexSetUpError, ProcessError};
use core::time::Duration;
use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::{
    BeginError, BeginMoveError, EndpointId, IndexError, MapError, MoveError,
};

/// Why an index or a connection could not be made, or keys were not moved.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IndexServiceError {
    /// An option is out of range.
    #[error("{what} is {value}; {least} to {most} is possible")]
    OutOfRange {
        /// The option.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// The number of boundaries does not match the number of endpoints.
    #[error("{given} boundaries between endpoints; {wanted} are needed, one fewer than endpoints")]
    Boundaries {
        /// Boundaries needed.
        wanted: usize,
        /// Boundaries given.
        given: usize,
    },
    /// The rack has no storage node.
    #[error("the rack has no storage node to have the index; name another node")]
    NoStorage,
    /// There is no second node.
    #[error("the rack has no second storage node for replicas; name two nodes")]
    NoReplicaNode,
    /// The tree's parameters are invalid.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The boundaries make no partition.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It could not be shared with other processes, or the one that has it was not reached.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It could not be set up.
    #[error(transparent)]
    SetUp(#[from] IndexSetUpError),
    /// The switches could not be loaded with a tree.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
    /// Entries could not be loaded.
    #[error("{endpoint}: {error}")]
    Load {
        /// Their endpoint.
        endpoint: EndpointId,
        /// The cause.
        error: TreeError,
    },
    /// A move of keys was not begun.
    #[error(transparent)]
    BeginMove(#[from] BeginMoveError),
    /// A move of keys ended before all had moved.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// It was not done in time. A move of keys continues while the coordinator is polled.
    #[error("it was not done within {after:?}")]
    TimedOut {
        /// The time waited.
        after: Duration,
    },
}

/// Why an operation has no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// It was not begun. Nothing was changed.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// It failed; the error says whether anything was changed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// No reply arrived in time. A write may or may not be done, now or later.
    #[error("no answer came within {after:?}; a write may or may not be done")]
    TimedOut {
        /// The time waited.
        after: Duration,
    },
}
