//! Errors of listening and connecting.

use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_endpoint::messaging::ConfigError;
use rackweave_endpoint::messaging::handshake::HandshakeError;
use std::io;
use std::net::SocketAddr;

/// Why a listener could not be made, or listening or dialing made no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The rack has no such node.
    #[error("{node:?} is not in the rack, which has nodes 0 to {last}", last = .nodes - 1)]
    NoSuchNode {
        /// The requested node.
        node: NodeId,
        /// The number of nodes of the rack.
        nodes: usize,
    },
    /// The configuration is invalid.
    #[error("messaging: {0}")]
    Config(#[from] ConfigError),
    /// The system refused the address.
    #[error("cannot listen at {address}: {error}; is the address ours, and the port free?")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// No peer completed the handshake in time.
    #[error("no compute node connected within {after:?}")]
    TimedOut {
        /// The time waited.
        after: Duration,
    },
    /// No stream to the other end could be opened.
    #[error("cannot connect to {address}: {error}; does a storage node listen there?")]
    Connect {
        /// The peer's address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The handshake failed.
    #[error("at {address}: {error}")]
    Handshake {
        /// The peer's address.
        address: SocketAddr,
        /// The cause.
        error: HandshakeError,
    },
}
