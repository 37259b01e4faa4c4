//! Plain UDP datagrams (RFC 768), beside queue pairs: for what needs no connection.

use std::net::Ipv4Addr;

/// What a NIC does for who sends and receives datagrams. Nothing is repeated, and what arrives may
/// be lost, late, doubled or damaged; Ethernet, IP and UDP say only where it came from.
pub trait Datagrams {
    /// Takes a port, so that datagrams for it are kept until they are received. Port 0 stands for
    /// any that is free. Returns the port.
    ///
    /// # Errors
    /// If the port is taken or none is to be had.
    fn bind(&mut self, port: u16) -> Result<u16, BindError>;

    /// Gives a port back; what has come for it is gone. False if it was not taken.
    fn unbind(&mut self, port: u16) -> bool;

    /// Bytes that a datagram carries at most.
    fn datagram_max(&self) -> usize;

    /// Sends `bytes` from a port that was taken to another node's port. What was taken for sending
    /// may be lost all the same, also because nobody knows where that node is.
    ///
    /// # Errors
    /// If the port was not taken, there are too many bytes, or there is no room now.
    fn send(&mut self, port: u16, to: (Ipv4Addr, u16), bytes: &[u8]) -> Result<(), DatagramError>;

    /// Puts what has come for a port into `bytes`, in place of what was there, the oldest first;
    /// returns who sent it. Nothing if nothing has come, or the port was not taken.
    fn receive(&mut self, port: u16, bytes: &mut Vec<u8>) -> Option<(Ipv4Addr, u16)>;
}

/// Why a port could not be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody has it.
    #[error("UDP port {0} is taken; unbind it first, or choose another")]
    Taken(u16),
    /// It belongs to RoCEv2.
    #[error("UDP port {0} is that of RoCEv2; choose another")]
    Reserved(u16),
    /// As many ports are taken as the NIC has.
    #[error("all {limit} UDP ports of the NIC are taken; unbind one first")]
    TooMany {
        /// How many it has.
        limit: u32,
    },
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DatagramError {
    /// The port was not taken.
    #[error("UDP port {0} is not bound; bind it before sending from it")]
    NotBound(u16),
    /// Too many bytes.
    #[error("a datagram of {len} bytes; the NIC sends {limit} at most")]
    TooLarge {
        /// Bytes of the datagram.
        len: usize,
        /// Bytes that are possible.
        limit: usize,
    },
    /// As many datagrams wait to be sent as may, or there is no buffer for another.
    #[error("the NIC has no room for another datagram now; try again when some have left")]
    Full,
}
