//! What can go wrong with a request for a column.

use super::{ColumnError, RefusalCode};
use crate::messaging::Closed;

/// Why a request is not begun.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// Too many requests are under way; take answers first.
    #[error("{window} requests are under way, more the window does not hold; take answers first")]
    WindowFull {
        /// Requests that the window holds.
        window: u16,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(ColumnError),
    /// The client has said that it asks for nothing more.
    #[error("the client has finished")]
    Finished,
    /// The connection is of no use any more.
    #[error("{0}; connect anew")]
    Broken(RequestError),
}

/// How a request failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The storage unit refuses it.
    #[error("the storage unit refuses: {text} ({code})")]
    Refused {
        /// Why.
        code: RefusalCode,
        /// The same for people, as the storage unit says it.
        text: String,
    },
    /// The column is larger than this unit takes into memory.
    #[error("a column of {bytes} bytes; this unit takes at most {max} (column_max)")]
    TooLarge {
        /// Bytes of its buffers.
        bytes: u64,
        /// The most that is taken.
        max: u64,
    },
    /// There is no memory for it.
    #[error("no memory for a column of {bytes} bytes")]
    NoMemory {
        /// Bytes of its buffers.
        bytes: u64,
    },
    /// The connection was closed before the answer had come.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The storage unit sent what is no answer, and this unit closed the connection.
    #[error("the storage unit sent what is no answer: {0}")]
    BadAnswer(#[from] BadAnswer),
}

/// Why a message is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAnswer {
    /// Its opcode is none of an answer.
    #[error("unknown opcode {opcode:#x}")]
    Opcode {
        /// The opcode.
        opcode: u32,
    },
    /// It contradicts itself.
    #[error(transparent)]
    Malformed(#[from] ColumnError),
    /// A message of this opcode cannot be that long.
    #[error("a message of {bytes} bytes with opcode {opcode:#x}; at most {max} are possible")]
    TooLong {
        /// The opcode.
        opcode: u32,
        /// Its length.
        bytes: u64,
        /// The longest that such a message can be.
        max: u64,
    },
    /// It answers a request that is not under way.
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
    /// The bytes are not those of the version.
    #[error("the bytes of request {request} belong to version {found:#x}, not {expected:#x}")]
    Version {
        /// The request's number.
        request: u32,
        /// The version in the header.
        expected: u64,
        /// The version of the bytes.
        found: u64,
    },
    /// It says that nothing follows, with requests still to be answered.
    #[error("it ended with {missing} requests unanswered")]
    Ended {
        /// How many.
        missing: usize,
    },
}
