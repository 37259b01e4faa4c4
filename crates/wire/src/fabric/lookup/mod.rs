//! Index requests as UDP datagrams: the messages of clients and servers, and the part that switches
//! read.
//!
//! A request goes to [`PORT`]. Switches on the path may fill in the tree node at which the server
//! should start (the Ethernet architecture of the fat B+tree, docs/in-network.md); they read the
//! first 16 bytes only. The server treats that number as a hint and checks it. Headers are
//! big-endian, like all network headers.
//!
//! | request | bytes | content |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | [`Op`] |
//! | 4 | 4 | tree node to start at; zero: not filled in |
//! | 8 | 8 | key; in a scan: the key at its near end |
//! | 16 | 8 | number of the request, which its client never reuses |
//! | 24 | 8 | client: a number that no other client ever has |
//! | 32 | 4 | check, see below |
//! | 36 | | body |
//!
//! | body of | bytes | content |
//! |---|---|---|
//! | a write | 8, 2 | session, slot: see [`Once`] |
//! | | | the value of an insert, update or put |
//! | a scan | 8, 4, 1 | key at its far end, maximum entries, 1 if backward |
//! | a request for the map | 4 | offset of the first byte |
//!
//! | reply | bytes | content |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | [`Op`] with its highest bit set |
//! | 4 | 2 | [`Status`] |
//! | 6 | 1 | level at which the server started; 255: the root |
//! | 7 | 1 | zero |
//! | 8 | 24 | key, number and client of the request |
//! | 32 | 4 | check |
//! | 36 | | body |
//!
//! The body of a reply to a get, a write or a scan is that of the same call over `endpoint::rpc`
//! (`endpoint::index::message`). To [`Op::Open`] it is an [`Opened`], to [`Op::Map`] a
//! [`MapPiece`].
//!
//! The check is the CRC-32 of zlib over all bytes except those of the check and, in a request, of
//! the tree node: a switch that fills in the tree node need not update the check, and correctness
//! does not depend on the tree node. A UDP checksum would be weaker, and switches would have to
//! change it; it is omitted.

mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use reply::{FROM_ROOT, MapPiece, Opened, PIECE_HEADER_LEN, Reply};
pub use request::{Ask, Once, Request};

use super::rpc::Status;
use crate::{Datagram, ethernet, ipv4, udp};
use core::ops::Range;
use rackweave_base::Packet;
use zerocopy::TryFromBytes;

/// The UDP port for requests.
pub const PORT: u16 = 4793;
/// The first two bytes: "RW".
pub const MAGIC: u16 = 0x5257;
/// The version of this layout.
pub const VERSION: u8 = 1;
/// Bytes of a request or a reply before its body.
pub const HEADER_LEN: usize = 36;
/// Bytes of the body of a write before its value.
pub const WRITE_LEN: usize = 10;

/// The request was not executed: its session is not, or no longer, known to the server. It is
/// unknown whether an earlier copy of it was executed.
pub const NO_SESSION: Status = Status(1);
/// The server has the maximum number of sessions, all of them in use.
pub const SESSIONS_FULL: Status = Status(2);

/// Set in the operation number of a reply.
const REPLY: u8 = 0x80;
const NODE: Range<usize> = 4..8;
const CHECK: Range<usize> = 32..36;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Op {
    /// Reads the value of a key.
    Get = 1,
    /// Stores a value for a key that has none.
    Insert = 2,
    /// Replaces the value of a key that has one.
    Update = 3,
    /// Stores a value, whether or not the key has one.
    Put = 4,
    /// Removes the value of a key.
    Delete = 5,
    /// Reads the entries of a range.
    Scan = 6,
    /// Reads a piece of the partition map.
    Map = 7,
    /// Opens a session, which writes need.
    Open = 8,
}

impl Op {
    /// The operation of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::try_read_from_bytes(&[number]).ok()
    }

    /// Whether it changes the index.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Put | Self::Delete)
    }

    /// Whether it has a key, so that a switch may fill in the tree node to start at.
    pub fn has_key(self) -> bool {
        !matches!(self, Self::Map | Self::Open)
    }
}

/// Why bytes are not a request or a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// Shorter than a header.
    #[error("{0} bytes are less than a header of {HEADER_LEN}")]
    Truncated(usize),
    /// Not a message of this protocol.
    #[error("it begins with {0:#06x}; index requests begin with {MAGIC:#06x}")]
    Foreign(u16),
    /// Another version of the layout.
    #[error("version {0} of index requests; this is version {VERSION}")]
    Version(u8),
    /// Corrupted on the path.
    #[error("the check is wrong: it was damaged on the way")]
    BadCheck,
    /// A reply where a request was expected, or vice versa.
    #[error("operation {0:#04x} is of the other direction")]
    Direction(u8),
}

/// The CRC of `bytes` without the check and, in a request, without the tree node.
fn check_of(bytes: &[u8], is_request: bool) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let before = if is_request { NODE.start } else { NODE.end };
    hasher.update(&bytes[..before]);
    hasher.update(&bytes[NODE.end..CHECK.start]);
    hasher.update(&bytes[CHECK.end..]);
    hasher.finalize()
}

/// The header that both directions share, and the body: everything is checked except the operation
/// number.
fn judge(bytes: &[u8], is_request: bool) -> Result<(&[u8; HEADER_LEN], &[u8]), LookupError> {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(LookupError::Truncated(bytes.len()));
    };
    let magic = u16::from_be_bytes([header[0], header[1]]);
    if magic != MAGIC {
        return Err(LookupError::Foreign(magic));
    }
    if header[2] != VERSION {
        return Err(LookupError::Version(header[2]));
    }
    if (header[3] & REPLY == 0) != is_request {
        return Err(LookupError::Direction(header[3]));
    }
    if word(&header[CHECK]) != u64::from(check_of(bytes, is_request)) {
        return Err(LookupError::BadCheck);
    }
    Ok((header, body))
}

/// The big-endian number in up to eight bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Appends magic, version and the number of an operation.
fn begin(bytes: &mut Vec<u8>, op: u8) {
    bytes.extend(MAGIC.to_be_bytes());
    bytes.extend([VERSION, op]);
}

/// Sets the check of the message in `bytes` from `start` on.
fn seal(bytes: &mut [u8], start: usize, is_request: bool) {
    let bytes = &mut bytes[start..];
    let check = check_of(bytes, is_request);
    bytes[CHECK].copy_from_slice(&check.to_be_bytes());
}

/// The part of a request that a switch reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The operation.
    pub op: Op,
    /// The tree node to start at; zero if none has been filled in.
    pub node: u32,
    /// The key.
    pub key: u64,
}

impl Start {
    /// Reads this part of a packet: `None` if it is not a request to [`PORT`], has no key, or its
    /// first 16 bytes are not in the packet's header area. The check is not verified.
    pub fn of(packet: &Packet) -> Option<Self> {
        let (_, seen) = seen(packet)?;
        let op = Op::from_number(seen[3]).filter(|op| op.has_key())?;
        let known = seen[..2] == MAGIC.to_be_bytes() && seen[2] == VERSION;
        known.then(|| Self {
            op,
            node: word(&seen[NODE]) as u32,
            key: word(&seen[8..16]),
        })
    }

    /// Fills in `node` and omits the UDP checksum. Returns false if [`Self::of`] returns `None`.
    pub fn fill_in(packet: &mut Packet, node: u32) -> bool {
        let Some((at, _)) = seen(packet).filter(|_| Self::of(packet).is_some()) else {
            return false;
        };
        let header = packet.header_mut();
        header[at - 2..at].fill(0);
        header[at + NODE.start..at + NODE.end].copy_from_slice(&node.to_be_bytes());
        true
    }
}

/// The offset in the header area of the data of a datagram to [`PORT`], and its first bytes.
fn seen(packet: &Packet) -> Option<(usize, &[u8; 16])> {
    let datagram = Datagram::of(packet).ok()?;
    if datagram.target_port != PORT || datagram.carried < 16 {
        return None;
    }
    let at = ethernet::header_len(packet.header()) + ipv4::LEN + udp::LEN;
    Some((at, packet.header().get(at..)?.first_chunk()?))
}
