//! Connecting queue pairs by the connection manager (specification 1.4, chapter 12), as RDMA CM
//! does for addresses and ports (annex A11): for peers that no controller of ours connects.

use crate::{Access, Mtu};
use rackweave_base::{Duration, Qpn};
use std::net::SocketAddrV4;

/// A connection of the connection manager, from its request to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub u32);

/// Maximum bytes of private data in a request.
pub const REQUEST_PRIVATE_MAX: usize = 56;

/// Maximum bytes of private data in an acceptance.
pub const ACCEPT_PRIVATE_MAX: usize = 196;

/// Maximum bytes of private data in a rejection.
pub const REJECT_PRIVATE_MAX: usize = 148;

/// The attributes of a connection. What both sides must agree on becomes the smaller of their
/// values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectAttributes {
    /// The operations that the peer may perform.
    pub access: Access,
    /// The path MTU.
    pub mtu: Mtu,
    /// Maximum READs and atomics of the peer in flight, 0 to 16.
    pub reads_in_max: u8,
    /// Maximum READs and atomics to the peer in flight, 0 to 16.
    pub reads_out_max: u8,
    /// How long to wait for an acknowledgement before resending.
    pub timeout: Duration,
    /// How often to resend after timeouts and sequence errors, 0 to 7.
    pub retries: u8,
    /// How often the peer resends after a receiver-not-ready NAK, 0 to 6; 7 means for ever.
    pub rnr_retries: u8,
    /// The wait that is requested from the peer when no receive request is posted.
    pub rnr_wait: Duration,
}

impl Default for ConnectAttributes {
    fn default() -> Self {
        Self {
            access: Access::empty(),
            mtu: Mtu::B1024,
            reads_in_max: 16,
            reads_out_max: 16,
            timeout: Duration::from_millis(67),
            retries: 7,
            rnr_retries: 7,
            rnr_wait: Duration::from_micros(10),
        }
    }
}

/// What happens to connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionEvent {
    /// A peer asks for a connection. It waits for [`ConnectionManager::accept`] or
    /// [`ConnectionManager::reject`].
    Requested {
        /// The connection.
        id: ConnectionId,
        /// The port that it asks for.
        port: u16,
        /// The peer, and the port that it gives as its own.
        from: SocketAddrV4,
        /// Maximum READs and atomics in flight that the peer wants to send and to receive.
        reads: [u8; 2],
        /// The peer's data, with zeros up to [`REQUEST_PRIVATE_MAX`] bytes.
        private: Vec<u8>,
    },
    /// The connection is made, and its queue pair is ready to send.
    Established {
        /// The connection.
        id: ConnectionId,
        /// The peer's data, if it has accepted; with zeros up to [`ACCEPT_PRIVATE_MAX`] bytes.
        private: Vec<u8>,
    },
    /// There is no connection: the peer has refused, or this side could not take what it offered.
    Rejected {
        /// The connection, which is gone.
        id: ConnectionId,
        /// The reason (specification 1.4, 12.6.7.2).
        reason: u16,
        /// The reason in words.
        text: String,
        /// The peer's data, with zeros up to [`REJECT_PRIVATE_MAX`] bytes.
        private: Vec<u8>,
    },
    /// There is no connection: the peer does not answer.
    Unreachable {
        /// The connection, which is gone.
        id: ConnectionId,
    },
    /// The connection has ended, by the peer or by [`ConnectionManager::disconnect`]. Its queue
    /// pair is in the Error state.
    Disconnected {
        /// The connection.
        id: ConnectionId,
    },
    /// No packet of the connection is on its way any more: the queue pair may connect again.
    Closed {
        /// The connection, which is gone.
        id: ConnectionId,
    },
}

/// Why a call was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Somebody listens at the port already.
    #[error("port {0} of the connection manager is taken; stop listening there first")]
    Taken(u16),
    /// The queue pair does not exist.
    #[error("queue pair {0} does not exist")]
    UnknownQp(Qpn),
    /// The queue pair is in use.
    #[error("queue pair {0} is not in the Reset or Init state; reset it before it connects")]
    InUse(Qpn),
    /// The connection is unknown, or in another state than the call needs.
    #[error("connection {} does not wait for that", .0.0)]
    Unknown(ConnectionId),
    /// Too much private data.
    #[error("{len} bytes of private data; the message takes {limit} at most")]
    TooLarge {
        /// Bytes given.
        len: usize,
        /// Maximum bytes.
        limit: usize,
    },
    /// The attributes are out of range.
    #[error("the attributes are out of range for queue pair {0}")]
    BadAttributes(Qpn),
    /// The peer's packets are larger than this side takes.
    #[error("the peer asks for a path MTU of {asked} bytes; this side takes {limit} at most")]
    Mtu {
        /// Bytes that the peer asks for.
        asked: u32,
        /// Maximum bytes.
        limit: u32,
    },
    /// All connections are in use.
    #[error("all {limit} connections of the NIC are in use; end one first")]
    TooMany {
        /// The NIC's limit.
        limit: usize,
    },
}

/// Connection operations of a NIC. Messages are repeated until they are answered, and each
/// connection that was begun ends with an event.
pub trait ConnectionManager {
    /// Listens at a port: up to `backlog` requests wait for an answer at a time, and further ones
    /// are rejected.
    ///
    /// # Errors
    /// If somebody listens there already.
    fn listen(&mut self, port: u16, backlog: usize) -> Result<(), ConnectError>;

    /// Stops listening at a port. Requests that wait can still be answered. Returns false if nobody
    /// listened.
    fn unlisten(&mut self, port: u16) -> bool;

    /// Asks for a connection of a queue pair, which must be in the Reset or Init state, to a port
    /// of a node, with up to [`REQUEST_PRIVATE_MAX`] bytes of private data.
    ///
    /// # Errors
    /// If the queue pair, the attributes or the data do not allow it, or the table is full.
    fn connect(
        &mut self,
        qpn: Qpn,
        to: SocketAddrV4,
        attributes: &ConnectAttributes,
        private: &[u8],
    ) -> Result<ConnectionId, ConnectError>;

    /// Accepts a request with a queue pair in the Reset or Init state, which becomes ready to send,
    /// with up to [`ACCEPT_PRIVATE_MAX`] bytes of private data. Receives should be posted before,
    /// in state Init.
    ///
    /// # Errors
    /// As for [`ConnectionManager::connect`], or if the request no longer waits.
    fn accept(
        &mut self,
        id: ConnectionId,
        qpn: Qpn,
        attributes: &ConnectAttributes,
        private: &[u8],
    ) -> Result<(), ConnectError>;

    /// Rejects a request with up to [`REJECT_PRIVATE_MAX`] bytes of private data.
    ///
    /// # Errors
    /// If the request no longer waits, or the data is too large.
    fn reject(&mut self, id: ConnectionId, private: &[u8]) -> Result<(), ConnectError>;

    /// Ends a connection: its queue pair enters the Error state, and a DREQ is sent to the peer.
    ///
    /// # Errors
    /// If it is not established.
    fn disconnect(&mut self, id: ConnectionId) -> Result<(), ConnectError>;

    /// The next event.
    fn poll_connection(&mut self) -> Option<ConnectionEvent>;
}
