//! What can go wrong between listening and being connected.

use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_endpoint::messaging::ConfigError;
use rackweave_endpoint::messaging::handshake::HandshakeError;
use std::io;
use std::net::SocketAddr;

/// Why nobody listens, or no connection came of listening or dialing.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
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
    /// The system does not let us listen there.
    #[error("cannot listen at {address}: {error}; is the address ours, and the port free?")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// Nobody who dialed came through the handshake in time.
    #[error("no compute unit connected within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
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
