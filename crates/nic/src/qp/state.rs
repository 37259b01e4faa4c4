//! The states of a queue pair and their legal transitions (InfiniBand specification 1.4, 10.3.1).

use rackweave_verbs::{QpModify, QpState};

/// The state after `modify`, or `None` if the transition is not legal.
pub(crate) fn next(state: QpState, modify: &QpModify) -> Option<QpState> {
    use QpState::*;
    match (state, modify) {
        (_, QpModify::Reset) => Some(Reset),
        (Reset, QpModify::Init) => Some(Init),
        (Init, QpModify::ReadyToReceive(_)) => Some(ReadyToReceive),
        (ReadyToReceive, QpModify::ReadyToSend(_)) => Some(ReadyToSend),
        (ReadyToSend, QpModify::Drain) => Some(SendQueueDrain),
        (SendQueueDrain, QpModify::Resume) => Some(ReadyToSend),
        (Init | ReadyToReceive | ReadyToSend | SendQueueDrain | Error, QpModify::Error) => {
            Some(Error)
        }
        _ => None,
    }
}

/// Whether requests of the peer are executed.
#[inline]
pub(crate) fn receives(state: QpState) -> bool {
    matches!(
        state,
        QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrain
    )
}

/// Whether requests are sent, and their responses handled.
#[inline]
pub(crate) fn sends(state: QpState) -> bool {
    matches!(state, QpState::ReadyToSend | QpState::SendQueueDrain)
}
