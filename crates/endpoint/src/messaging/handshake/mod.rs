//! How a compute node and a storage node establish a connection: two machines that communicate over
//! a stream of bytes, such as TCP (communication-tier, section 2.1).
//!
//! Each is a [`Handshake`]. It is given the received bytes, and returns the bytes to send;
//! `wire::fabric::message::handshake` defines the messages. The owner of the stream
//!
//! 1. passes on received bytes (`handle_bytes`), and the end of the stream by the peer
//!    (`handle_end`),
//! 2. lets the machine act (`poll`),
//! 3. sends what it has for the peer (`poll_send`), also after the end,
//! 4. repeats this when something arrives, or when `poll_timeout` is due.
//!
//! Both machines guarantee:
//!
//! - The whole handshake has one deadline, however slowly the bytes arrive.
//! - A peer may send anything at any time. At most [`MESSAGE_MAX`] bytes of it are kept.
//! - A handshake that fails leaves nothing behind: no memory, no region, no queue pair. The reason
//!   is sent to the peer where that is useful.
//!
//! A storage node allocates nothing for a peer until it has received a valid Open; it then creates
//! and connects everything at once. So there is no half-open state: either a connection exists,
//! whose peer is monitored (`keepalive`), or nothing does. The compute node creates its end when it
//! has an Offer.
//!
//! After a successful handshake the stream is no longer needed; its end has no meaning.
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

/// The progress of a handshake.
pub enum Step {
    /// It waits for the peer, or is over.
    Waiting,
    /// It has succeeded. Send what [`Handshake::poll_send`] still has; the machine has nothing more
    /// to do.
    Connected(Connection),
    /// It has failed. The reason may still have to be sent.
    Failed(HandshakeError),
}
