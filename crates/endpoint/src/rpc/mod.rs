//! Calls from node to node over SEND and RECV.
//!
//! A [`Client`] is one end of one connection and has a window of requests under way. A [`Server`]
//! has the other ends of any number of clients, one completion queue for all, and hands the
//! requests to a [`Service`]. Both are machines without clock or thread: whoever owns one polls it.
//!
//! - Requests that are begun between two polls travel together, and so do the replies of one round
//!   of the server: several *calls* in one SEND, several SENDs behind one doorbell. One SEND costs
//!   a NIC more than a hundred empty calls cost a core.
//! - Nobody ever sends to a receiver that is not ready: the server grants messages, the client has
//!   receive requests for its whole window (`rackweave_wire::fabric::rpc`).
//! - A connection that breaks answers everything under way with [`RpcError::Disconnected`]. It
//!   does not come back: make another client. Whether a request whose answer was lost has been
//!   carried out, nobody knows; it was at most once.
//!
//! docs/rpc.md says more. The layout of messages is `rackweave_wire::fabric::rpc`.

mod client;
mod config;
mod counters;
mod error;
mod inbox;
mod names;
mod outbox;
mod server;
mod service;
#[cfg(test)]
mod tests;
mod window;

pub use crate::ResourceError;
pub use client::{Client, Reply};
pub use config::{ClientConfig, ConfigError, ServerConfig};
pub use counters::{ClientCounters, ServerCounters};
pub use error::{Cause, RpcError};
pub use rackweave_wire::fabric::rpc::Status;
pub use server::Server;
pub use service::{Service, Writer};
pub use window::Ticket;
