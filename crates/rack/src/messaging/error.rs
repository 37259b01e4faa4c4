//! What can go wrong between listening and being connected.

use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::messaging::ConfigError;
use rackweave_endpoint::messaging::handshake::HandshakeError;
use std::io;
use std::net::SocketAddr;

/// Why there can be no such unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// The rack has no such node.
    #[error("{node:?} is not in the rack, which has nodes 0 to {last}", last = .nodes - 1)]
    NoSuchNode {
        /// The node asked for.
        node: NodeId,
        /// Nodes of the rack.
        nodes: usize,
    },
    /// The configuration makes no sense.
    #[error("messaging: {0}")]
    Config(#[from] ConfigError),
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There can be no such unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The system does not let us listen there.
    #[error("cannot listen at {address}: {error}; is the address ours, and the port free?")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
}

/// Why no connection was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AcceptError {
    /// No handshake succeeded in time.
    #[error("no compute unit connected within {after}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

/// Why no connection came of dialing.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// There can be no such unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// There is no stream to the other end.
    #[error("cannot connect to {address}: {error}; does a storage unit listen there?")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The handshake failed.
    #[error("at {address}: {error}")]
    Handshake {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: HandshakeError,
    },
}
