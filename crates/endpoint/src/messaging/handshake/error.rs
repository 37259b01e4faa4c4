//! Why a handshake failed.

use super::{Kind, RefusalCode};
use crate::messaging::{self, Role, SetUpError};
use rackweave_base::{Duration, Qpn};
use rackweave_wire::fabric::message::handshake::{FirstBytes, MessageError, Refusal};

/// Why two units did not come to a connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer has refused.
    #[error("the {by} refused: {refusal}")]
    Refused {
        /// Who has.
        by: Role,
        /// Why.
        refusal: Refusal,
    },
    /// The peer's terms do not fit this unit's.
    #[error("this unit refused the {peer}: {cause}")]
    Terms {
        /// Who wants to connect.
        peer: Role,
        /// Why not.
        cause: messaging::Refusal,
    },
    /// The peer's keys cannot be.
    #[error("this unit refused the {peer}: {cause}")]
    Keys {
        /// Who wants to connect.
        peer: Role,
        /// Why not.
        cause: KeysError,
    },
    /// What the peer sends is no message.
    #[error("this unit refused the {peer}: {cause}")]
    NoMessage {
        /// Who, if it is one.
        peer: Role,
        /// What is wrong with it.
        cause: MessageError,
    },
    /// The peer sent a message that is not due.
    #[error("this unit refused the {peer}: it sends {found} where {due} or a Refuse is due")]
    OutOfOrder {
        /// Who.
        peer: Role,
        /// What it sends.
        found: Kind,
        /// What is due.
        due: Kind,
    },
    /// The peer went on without waiting for an answer.
    #[error("this unit refused the {peer}: behind {after} it sends {first} without waiting")]
    TooMuch {
        /// Who.
        peer: Role,
        /// The message behind which there is more.
        after: Kind,
        /// The first of what is behind it, if it was kept.
        first: FirstBytes,
    },
    /// This unit does not let the peer in, for a reason that is not the peer's messages.
    #[error("this unit refused the {peer}: {refusal}")]
    NotAdmitted {
        /// Who wants to connect.
        peer: Role,
        /// Why not.
        refusal: Refusal,
    },
    /// This unit could not make its end of the connection.
    #[error("this unit cannot connect to a {peer}: {cause}")]
    SetUp {
        /// The peer that it was meant for.
        peer: Role,
        /// Why not.
        cause: SetUpError,
    },
    /// The peer took too long.
    #[error("{due} of the {peer} did not come within {after}; is it busy, or no such unit at all?")]
    TimedOut {
        /// Who.
        peer: Role,
        /// What it should have sent.
        due: Kind,
        /// How long the handshake had, all in all.
        after: Duration,
    },
    /// The peer ended the stream.
    #[error(
        "the {peer} ended the stream before {due}, with {came} bytes of it; is it a unit, alive?"
    )]
    Ended {
        /// Who.
        peer: Role,
        /// What it should have sent.
        due: Kind,
        /// Bytes of that which have come.
        came: usize,
    },
}

/// Why keys cannot be those of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeysError {
    /// There is one queue pair per channel.
    #[error("it has {found} queue pairs, but {expected} channels were agreed on")]
    QueuePairs {
        /// Queue pairs that it names.
        found: usize,
        /// Channels that were agreed on.
        expected: usize,
    },
    /// A queue pair serves one channel.
    #[error("it names queue pair {0} twice")]
    Twice(Qpn),
    /// Memory ends with the address space.
    #[error("its {what}, {bytes} bytes from address {address:#x} on, would end beyond 2^64")]
    Address {
        /// Which of its regions.
        what: &'static str,
        /// Where it begins.
        address: u64,
        /// Its bytes by what was agreed on.
        bytes: u64,
    },
}

impl HandshakeError {
    /// The code that the other unit is told, or has told: to count by.
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

    /// What the peer is told of it.
    pub(super) fn told(&self) -> String {
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
