//! What can go wrong with an index, by the call that it goes wrong in.

use crate::{IndexNetworkError, IndexSetUpError};
use core::time::Duration;
use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::{
    BeginError, BeginMoveError, EndpointId, IndexError, MapError, MoveError,
};

/// Why there is no index, no way to it, or why keys did not change hands.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IndexServiceError {
    /// An option is out of range.
    #[error("{what} is {value}; {least} to {most} is possible")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Endpoints and boundaries between them do not fit together.
    #[error("{given} boundaries between endpoints; {wanted} are needed, one fewer than endpoints")]
    Boundaries {
        /// Boundaries needed.
        wanted: usize,
        /// Boundaries given.
        given: usize,
    },
    /// Nobody to have it.
    #[error("the rack has no storage node to have the index; name another node")]
    NoStorage,
    /// There can be no such tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The boundaries make no partition.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It could not be set up.
    #[error(transparent)]
    SetUp(#[from] IndexSetUpError),
    /// The switches were not given a tree.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
    /// Entries could not be loaded.
    #[error("{endpoint}: {error}")]
    Load {
        /// Whose they are.
        endpoint: EndpointId,
        /// Why not.
        error: TreeError,
    },
    /// A move of keys was not begun.
    #[error(transparent)]
    BeginMove(#[from] BeginMoveError),
    /// A move of keys ended before all had moved.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// It was not done in time. A move of keys goes on while the coordinator is polled.
    #[error("it was not done within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

/// Why an operation has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// It was not begun. Nothing was changed.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// It failed; the error says whether anything was changed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// No answer came in time. A write may or may not be done, now or later.
    #[error("no answer came within {after:?}; a write may or may not be done")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}
