//! Remote procedure calls between nodes over SEND and RECV.
//!
//! A [`Client`] is one end of one connection and has a window of requests in flight. A [`Server`]
//! has the other ends of any number of client connections, shares one completion queue among them,
//! and passes requests to a [`Service`]. Both are state machines without a clock or a thread: their
//! owner polls them.
//!
//! - Requests that begin between two polls are sent together, and so are the replies of one round
//!   of the server: several *calls* in one SEND, several SENDs behind one doorbell. One SEND costs
//!   a NIC more than a hundred empty calls cost a core.
//! - Neither end sends to a receiver that is not ready: the server grants messages, and the client
//!   has receive requests for its whole window (`rackweave_wire::fabric::rpc`).
//! - When a connection breaks, all requests in flight end with [`RpcError::Disconnected`]. The
//!   connection cannot be reused: create another client. It is unknown whether a request whose
//!   reply was lost has been executed; it was executed at most once.
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
