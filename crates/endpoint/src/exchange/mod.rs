//! Exchange streams: many logical streams between two nodes, over one channel of messages each way.
//!
//! A [`Multiplexer`] is one node's side of a connection. It has no clock, thread or socket: its
//! owner passes it the frames that arrive, and sends those that it returns.
//! [`rackweave_wire::fabric::exchange`] has their layout.
//!
//! **Credit.** The receiver of each direction of each stream grants bytes; a sender with any credit
//! may send one message, however long. A node therefore always takes what arrives out of the
//! receive buffers, no stream waits for the consumer of another, and consumers that depend on each
//! other in any way make progress.
//!
//! **Broadcasts.** The messages of streams to several nodes may leave as items of a replicated
//! flow, each of them once; [`Broadcast`] makes items of them, and an [`Assembler`] messages again.
//!
//! **Budget.** The windows of the streams of a query together stay within its [`Budget`], but for
//! the minimum that each stream has without asking.

mod broadcast;
mod budget;
mod config;
mod direction;
mod error;
mod multiplexer;
#[cfg(test)]
mod tests;

pub use broadcast::{Assembler, BROADCAST_ITEM_MIN, Broadcast};
pub use budget::Budget;
pub use config::StreamConfig;
pub use error::{Misbehaviour, StreamError};
pub use multiplexer::{Disposition, Frame, Multiplexer, NotSent, OpenError, Received};
