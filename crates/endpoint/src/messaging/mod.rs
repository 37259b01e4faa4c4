//! Messages between a compute node and a storage node, by one-sided WRITEs (communication tier).
//!
//! A [`Connection`] has channels, each of which leads one way from a [`Sender`] to a [`Receiver`].
//! A sender puts messages into its part of the send buffer and has the NIC write them, in packages,
//! into receive buffers of the peer; a word in the peer's buffer info announces each package. The
//! receiver reads messages in place, or copies them out, and a word in the sender's buffer info
//! announces that a buffer is free. `wire::fabric::message` defines the layouts.
//!
//! Every queue pair end, buffer and word belongs to one sender or receiver, so these can move to
//! any threads and never wait for one another. They are machines: they read no clock and never
//! block; [`MessageSender`] and [`MessageReceiver`] are the blocking forms.
//!
//! [`handshake`] connects; `docs/messaging.md` in the repository states the guarantees.

pub mod columns;
mod config;
mod connection;
mod handle;
pub mod handshake;
mod receiver;
mod sender;
mod set_up;
mod shared;

pub use config::{
    Agreed, BUFFER_ALIGN, ConfigError, MessagingConfig, NodeTerms, RECEIVE_BYTES_MAX,
    RECEIVE_BYTES_MIN, Refusal, Role,
};
pub use connection::{Connection, ConnectionWatch};
pub use handle::{FAREWELL, MessageReceiver, MessageSender};
pub use rackweave_wire::fabric::message::CloseReason;
pub use rackweave_wire::fabric::message::handshake::{
    Keys as NodeKeys, QueuePair as QueuePairName, WriteTarget as KeyedAddress,
};
pub use receiver::{Arrived, MessageInfo, Piece, Receiver, ReceiverCounters};
pub use sender::{SendError, Sender, SenderCounters};
pub use set_up::{Prepared, SetUpError};
pub use shared::{Closed, ClosedBy};

#[cfg(test)]
mod tests;
