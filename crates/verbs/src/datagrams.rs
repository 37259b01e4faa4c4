//! Plain UDP datagrams (RFC 768), beside queue pairs, where no connection is needed.

use std::net::Ipv4Addr;

/// Datagram operations of a NIC. Nothing is retransmitted: a datagram may be lost, late, duplicated
/// or corrupted. Ethernet, IP and UDP headers tell only where it came from.
pub trait Datagrams {
    /// Binds a port, so that datagrams for it are kept until they are received. Port 0 stands for
    /// any free port. Returns the port.
    ///
    /// # Errors
    /// If the port is bound already or no port is free.
    fn bind(&mut self, port: u16) -> Result<u16, BindError>;

    /// Unbinds a port and discards the datagrams received for it. Returns false if it was not
    /// bound.
    fn unbind(&mut self, port: u16) -> bool;

    /// Maximum payload bytes of a datagram.
    fn datagram_max(&self) -> usize;

    /// Sends `bytes` from a bound port to another node's port. An accepted datagram may still be
    /// lost, also because the address of that node cannot be resolved.
    ///
    /// # Errors
    /// If the port is not bound, there are too many bytes, or the send queue is full.
    fn send(&mut self, port: u16, to: (Ipv4Addr, u16), bytes: &[u8]) -> Result<(), DatagramError>;

    /// Moves the oldest datagram received for a port into `bytes`, replacing its contents; returns
    /// the sender. Returns `None` if there is no datagram or the port is not bound.
    fn receive(&mut self, port: u16, bytes: &mut Vec<u8>) -> Option<(Ipv4Addr, u16)>;
}

/// Why a port could not be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// The port is bound already.
    #[error("UDP port {0} is taken; unbind it first, or choose another")]
    Taken(u16),
    /// The port is reserved for RoCEv2.
    #[error("UDP port {0} is that of RoCEv2; choose another")]
    Reserved(u16),
    /// All ports of the NIC are bound.
    #[error("all {limit} UDP ports of the NIC are taken; unbind one first")]
    TooMany {
        /// The NIC's limit.
        limit: u32,
    },
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DatagramError {
    /// The port is not bound.
    #[error("UDP port {0} is not bound; bind it before sending from it")]
    NotBound(u16),
    /// Too many bytes.
    #[error("a datagram of {len} bytes; the NIC sends {limit} at most")]
    TooLarge {
        /// Bytes of the datagram.
        len: usize,
        /// Maximum bytes of a datagram.
        limit: usize,
    },
    /// The send queue is full, or no buffer is free.
    #[error("the NIC has no room for another datagram now; try again when some have left")]
    Full,
}
