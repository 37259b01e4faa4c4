//! Connections between nodes of a rack in this process: listening and dialing.
//!
//! A storage node has a [`Listener`] at a TCP address, and a compute node [`dial`]s it. By the
//! handshake of `endpoint::messaging::handshake` they establish a [`MessageConnection`]; then the
//! TCP stream is closed, and the connection continues by one-sided WRITEs (communication-tier,
//! section 2.1). Nodes can join and leave at any time.
//!
//! No thread is needed: [`Listener::accept`] and [`dial`] drive sockets and rack while they wait,
//! [`Listener::poll`] and [`Dialing::poll`] never block. Whatever a peer sends, however it ends,
//! the listener is not affected; [`Listener::counters`] and [`Listener::take_failure`] show an
//! operator which peers were refused, and why.
//!
//! A rack in this process cannot be reached from another process. So each node identifies its rack
//! in the handshake, and refuses nodes of other racks.

mod columns;
mod connection;
mod counters;
mod dialing;
mod error;
mod listener;
mod quota;
mod stream;

#[cfg(test)]
mod tests;

use crate::address::Address;
use crate::{Node, Rack};
use core::time::Duration;
use rackweave_base::{KeyRng, Memory, NodeId};
use rackweave_endpoint::messaging::{MessagingConfig, NodeTerms, Role};

pub use columns::{ColumnReader, ColumnService, FetchError};
pub use connection::MessageConnection;
pub use counters::ListenerCounters;
pub use dialing::{Dialing, dial};
pub use error::ConnectError;
pub use listener::{Failure, Listener};
pub use quota::PeerQuota;

/// Default time that a listener gives a compute node for the handshake.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of pending handshakes and connections not yet accepted of a listener.
pub const PENDING_MAX: usize = 64;

/// The identity and resources of a node, on either side.
struct LocalNode {
    node: Node,
    memory: Memory,
    keys: KeyRng,
    config: MessagingConfig,
    rack: Rack,
}

impl LocalNode {
    fn new(
        rack: &Rack,
        node: NodeId,
        role: Role,
        config: MessagingConfig,
    ) -> Result<Self, ConnectError> {
        let nodes = rack.config().node.len();
        let access = rack.node_here(node);
        let access = access.ok_or(ConnectError::NoSuchNode { node, nodes })?;
        config.check(role)?;
        Ok(Self {
            memory: rack.memory().clone(),
            keys: KeyRng::system(),
            config,
            rack: rack.clone(),
            node: access,
        })
    }

    /// What the peer has to agree with. Not kept: a controller that has lost its state makes
    /// another rack of the same nodes.
    fn terms(&self) -> NodeTerms {
        let node = self.node.id();
        let (address, mtu) = (Address::of_node(node), self.rack.backend().mtu(node));
        let identity = self.rack.identity();
        NodeTerms::new(&self.config, identity, address.ip, address.mac, mtu)
    }
}
