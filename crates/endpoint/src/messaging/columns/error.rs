//! Errors of a request for a column.

use super::{ColumnError, RefusalCode};
use crate::messaging::Closed;

/// Why a request was not started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// Too many requests are in flight; take answers first.
    #[error("{window} requests are under way, more the window does not hold; take answers first")]
    WindowFull {
        /// Capacity of the window.
        window: u16,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(ColumnError),
    /// The client has declared that no more requests follow.
    #[error("the client has finished")]
    Finished,
    /// The connection can no longer be used.
    #[error("{0}; connect anew")]
    Broken(RequestError),
}

/// Why a request failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The storage node refused it.
    #[error("the storage node refuses: {text} ({code})")]
    Refused {
        /// Why.
        code: RefusalCode,
        /// A human-readable explanation from the storage node.
        text: String,
    },
    /// The column is larger than this node accepts into memory.
    #[error("a column of {bytes} bytes; this node takes at most {max} (column_max)")]
    TooLarge {
        /// Bytes of its buffers.
        bytes: u64,
        /// The maximum accepted.
        max: u64,
    },
    /// There is no memory for it.
    #[error("no memory for a column of {bytes} bytes")]
    NoMemory {
        /// Bytes of its buffers.
        bytes: u64,
    },
    /// The connection was closed before the answer was complete.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The storage node sent a message that is not a valid answer, and this node closed the
    /// connection.
    #[error("the storage node sent what is no answer: {0}")]
    BadAnswer(#[from] BadAnswer),
}

/// Why a message is not a valid answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAnswer {
    /// Its opcode is not that of an answer.
    #[error("unknown opcode {opcode:#x}")]
    Opcode {
        /// The opcode.
        opcode: u32,
    },
    /// It contradicts itself.
    #[error(transparent)]
    Malformed(#[from] ColumnError),
    /// It is too long for a message of this opcode.
    #[error("a message of {bytes} bytes with opcode {opcode:#x}; at most {max} are possible")]
    TooLong {
        /// The opcode.
        opcode: u32,
        /// Its length.
        bytes: u64,
        /// The maximum length of such a message.
        max: u64,
    },
    /// It answers a request that is not in flight.
    #[error("it answers request {request}, which is not under way")]
    UnknownRequest {
        /// The request's number.
        request: u32,
    },
    /// It answers another kind of request, or a version that was not asked about.
    #[error("request {request} asked for something else")]
    WrongKind {
        /// The request's number.
        request: u32,
    },
    /// The bytes do not match the version.
    #[error("the bytes of request {request} belong to version {found:#x}, not {expected:#x}")]
    Version {
        /// The request's number.
        request: u32,
        /// The version in the header.
        expected: u64,
        /// The version computed from the bytes.
        found: u64,
    },
    /// It declares the end, with requests still unanswered.
    #[error("it ended with {missing} requests unanswered")]
    Ended {
        /// The number of unanswered requests.
        missing: usize,
    },
}
