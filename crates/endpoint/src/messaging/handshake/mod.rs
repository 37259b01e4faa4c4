//! How a compute unit and a storage unit come to a connection: two machines that speak over a
//! stream of bytes, such as TCP (communication-tier, section 2.1).
//!
//! Each is a [`Handshake`]. It is told what came, and says what to send;
//! `wire::fabric::message::handshake` has the messages. Whoever has the stream
//!
//! 1. gives it what came (`handle_bytes`), and that the peer has ended the stream (`handle_end`),
//! 2. has it act (`poll`),
//! 3. sends what it has for the peer (`poll_send`), also after the end,
//! 4. does so again when something comes, or when `poll_timeout` is over.
//!
//! What holds for both:
//!
//! - The whole handshake has one deadline, however the bytes dribble in.
//! - A peer may send anything at any time. At most [`MESSAGE_MAX`] bytes of it are kept.
//! - A handshake that fails leaves nothing behind: no memory, no region, no queue pair. The peer is
//!   told why, where that is of use to it.
//!
//! A storage unit makes nothing for a peer before its Open has come and is sound; then it makes all
//! and connects it at once. So there is nothing half-open: either a connection is there, whose peer
//! is watched (`keepalive`), or nothing is. The compute unit makes its end when it has an Offer.
//!
//! When the handshake has succeeded the stream is of no further use; its end means nothing.
//!
//! [`MESSAGE_MAX`]: rackweave_wire::fabric::message::handshake::MESSAGE_MAX

mod error;
mod keys;
mod machine;
mod talk;

#[cfg(test)]
mod tests;

use super::Connection;

pub use error::{HandshakeError, KeysError};
pub use keys::{terms_from_wire, terms_to_wire};
pub use machine::Handshake;
pub use rackweave_wire::fabric::message::handshake::{Kind, RefusalCode};

/// How far a handshake is.
pub enum Step {
    /// It waits for the peer, or is over.
    Waiting,
    /// It has succeeded. Send what [`Handshake::poll_send`] still has; the machine has nothing more
    /// to do.
    Connected(Connection),
    /// It has failed. There may still be something to send: why.
    Failed(HandshakeError),
}
