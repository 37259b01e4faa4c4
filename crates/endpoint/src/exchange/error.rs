//! Why streams end.

use rackweave_wire::fabric::exchange::{ErrorCode, StreamNumber};
use std::sync::Arc;

/// Why streams end that were part of a broadcast.
pub(super) const BROADCAST_LOST: &str = "the flow of its broadcasts was aborted";

/// Why a direction of a stream ended before its sender had finished.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamError {
    /// The sender says so, in bytes of its own.
    #[error("the sender failed: {}", String::from_utf8_lossy(.0))]
    Failed(Vec<u8>),
    /// The sender dropped its end without finishing.
    #[error("the sender at {peer} dropped its end without finishing")]
    Dropped {
        /// The node.
        peer: Arc<str>,
    },
    /// The peer accepts no streams.
    #[error("{peer} accepts no streams")]
    NotAccepted {
        /// The node.
        peer: Arc<str>,
    },
    /// The receiver wants no more messages.
    #[error("{peer} has cancelled the stream")]
    Cancelled {
        /// The node.
        peer: Arc<str>,
    },
    /// The message exceeds the limit.
    #[error("a message of {bytes} bytes; at most {max} may be sent (message_max)")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// There is no connection to the peer, or it ended.
    #[error("no connection to {peer}: {why}")]
    Gone {
        /// The node.
        peer: Arc<str>,
        /// The cause.
        why: Arc<str>,
    },
}

impl StreamError {
    pub(super) fn from_wire(code: ErrorCode, text: Vec<u8>, peer: &Arc<str>) -> Self {
        let peer = peer.clone();
        match code {
            ErrorCode::Failed => Self::Failed(text),
            ErrorCode::Dropped => Self::Dropped { peer },
            ErrorCode::NotAccepted => Self::NotAccepted { peer },
            ErrorCode::BroadcastLost => Self::Gone {
                peer,
                why: BROADCAST_LOST.into(),
            },
        }
    }
}

/// What a peer did that the protocol excludes. Its connection is closed for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misbehaviour {
    /// No frame has this opcode, or this node's peer may not send it.
    #[error("a frame with opcode {0:#010x}")]
    Opcode(u32),
    /// A frame has an impossible length.
    #[error("a frame with opcode {opcode:#010x} of {bytes} bytes")]
    Length {
        /// The opcode.
        opcode: u32,
        /// Its length.
        bytes: u64,
    },
    /// A direction that has ended, or a stream that there is not.
    #[error("a frame for stream {0}, which is not open")]
    NotOpen(StreamNumber),
    /// A stream that is open is opened.
    #[error("stream {0} is opened twice")]
    OpenedTwice(StreamNumber),
    /// More streams at a time than are allowed.
    #[error("more than {0} streams at a time")]
    TooMany(usize),
    /// A message without credit.
    #[error("a message on stream {0} without credit")]
    NoCredit(StreamNumber),
    /// More credit than a direction can have.
    #[error("too much credit on stream {0}")]
    TooMuchCredit(StreamNumber),
    /// An error has an unknown code.
    #[error("an error with code {0}")]
    ErrorCode(u8),
    /// An item of a broadcast contradicts itself or those before.
    #[error("an item that is no part of a broadcast")]
    Item,
}
