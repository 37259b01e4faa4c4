//! Why a handshake failed.

use super::{Kind, RefusalCode};
use crate::messaging::{self, Role, SetUpError};
use rackweave_base::{Duration, Qpn};
use rackweave_wire::fabric::message::handshake::{FirstBytes, MessageError, Refusal};

/// Why two nodes did not establish a connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer refused.
    #[error("the {by} refused: {refusal}")]
    Refused {
        /// The role of the peer.
        by: Role,
        /// The reason.
        refusal: Refusal,
    },
    /// The peer's terms are not compatible with this node's.
    #[error("this node refused the {peer}: {cause}")]
    Terms {
        /// The role of the peer.
        peer: Role,
        /// The reason.
        cause: messaging::Refusal,
    },
    /// The peer's keys are not valid.
    #[error("this node refused the {peer}: {cause}")]
    Keys {
        /// The role of the peer.
        peer: Role,
        /// The reason.
        cause: KeysError,
    },
    /// The peer sent bytes that are not a message.
    #[error("this node refused the {peer}: {cause}")]
    NoMessage {
        /// The expected role of the peer.
        peer: Role,
        /// What is wrong with them.
        cause: MessageError,
    },
    /// The peer sent a message that is not due.
    #[error("this node refused the {peer}: it sends {found} where {due} or a Refuse is due")]
    OutOfOrder {
        /// The role of the peer.
        peer: Role,
        /// The message received.
        found: Kind,
        /// The message that is due.
        due: Kind,
    },
    /// The peer continued without waiting for an answer.
    #[error("this node refused the {peer}: behind {after} it sends {first} without waiting")]
    TooMuch {
        /// The role of the peer.
        peer: Role,
        /// The message followed by more bytes.
        after: Kind,
        /// The first of those bytes, if they were kept.
        first: FirstBytes,
    },
    /// This node does not admit the peer, for a reason other than the peer's messages.
    #[error("this node refused the {peer}: {refusal}")]
    NotAdmitted {
        /// The role of the peer.
        peer: Role,
        /// The reason.
        refusal: Refusal,
    },
    /// This node could not set up its end of the connection.
    #[error("this node cannot connect to a {peer}: {cause}")]
    SetUp {
        /// The role of the peer.
        peer: Role,
        /// The reason.
        cause: SetUpError,
    },
    /// The peer took too long.
    #[error("{due} of the {peer} did not come within {after}; is it busy, or no such node at all?")]
    TimedOut {
        /// The role of the peer.
        peer: Role,
        /// The message that was due.
        due: Kind,
        /// The total time of the handshake.
        after: Duration,
    },
    /// The peer ended the stream.
    #[error(
        "the {peer} ended the stream before {due}, with {came} bytes of it; is it a node, alive?"
    )]
    Ended {
        /// The role of the peer.
        peer: Role,
        /// The message that was due.
        due: Kind,
        /// Bytes of it that have arrived.
        came: usize,
    },
}

/// Why keys are not valid for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeysError {
    /// The number of queue pairs differs from the number of channels.
    #[error("it has {found} queue pairs, but {expected} channels were agreed on")]
    QueuePairs {
        /// Queue pairs in the keys.
        found: usize,
        /// Channels that were agreed on.
        expected: usize,
    },
    /// A queue pair is named twice, but serves one channel.
    #[error("it names queue pair {0} twice")]
    Twice(Qpn),
    /// A region exceeds the address space.
    #[error("its {what}, {bytes} bytes from address {address:#x} on, would end beyond 2^64")]
    Address {
        /// The region.
        what: &'static str,
        /// Its first address.
        address: u64,
        /// Its length according to the agreed terms.
        bytes: u64,
    },
}

impl HandshakeError {
    /// The refusal code sent to or received from the peer, for counting.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Refused { refusal, .. } | Self::NotAdmitted { refusal, .. } => refusal.code,
            Self::Terms { cause, .. } => code_of_terms(cause),
            Self::Keys { .. } => RefusalCode::BadKeys,
            Self::NoMessage { cause, .. } => cause.code(),
            Self::OutOfOrder { .. } | Self::TooMuch { .. } => RefusalCode::OutOfOrder,
            Self::SetUp { cause, .. } => code_of_set_up(cause),
            Self::TimedOut { .. } => RefusalCode::TooLate,
            Self::Ended { .. } => RefusalCode::Stopping,
        }
    }

    /// The text sent to the peer.
    pub(super) fn message_to_peer(&self) -> String {
        match self {
            Self::Terms { cause, .. } => cause.to_string(),
            Self::Keys { cause, .. } => cause.to_string(),
            Self::NoMessage { cause, .. } => cause.to_string(),
            Self::SetUp { cause, .. } => cause.to_string(),
            other => other.to_string(),
        }
    }
}

fn code_of_terms(cause: &messaging::Refusal) -> RefusalCode {
    match cause {
        messaging::Refusal::ForeignRack { .. } => RefusalCode::ForeignRack,
        messaging::Refusal::ReceiveBuffers(_) => RefusalCode::ReceiveBuffers,
        messaging::Refusal::ReceiveBytes(_) => RefusalCode::BufferSize,
        messaging::Refusal::Channels(_) | messaging::Refusal::BuffersForChannels { .. } => {
            RefusalCode::Channels
        }
        messaging::Refusal::MessageMax => RefusalCode::MessageMax,
    }
}

fn code_of_set_up(cause: &SetUpError) -> RefusalCode {
    match cause {
        SetUpError::Memory { .. } => RefusalCode::NoMemory,
        SetUpError::Register(_) | SetUpError::Cq(_) | SetUpError::Qp(_) => RefusalCode::NoRoom,
        SetUpError::Modify(_) | SetUpError::QueuePairs { .. } | SetUpError::Address { .. } => {
            RefusalCode::BadKeys
        }
    }
}
