//! Index requests as UDP datagrams: what clients and servers say, and what switches see of it.
//!
//! A request goes to [`PORT`]. Switches on the way may fill in the tree node at which the server is
//! to begin (the Ethernet architecture of the fat B+tree, docs/in-network.md); they look at the
//! first 16 bytes only. The server takes that number for a hint and judges it. Headers are
//! big-endian, as all headers on a network.
//!
//! | request | bytes | content |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | [`Op`] |
//! | 4 | 4 | tree node to begin at; zero: not filled in |
//! | 8 | 8 | key; of a scan: the one at its near end |
//! | 16 | 8 | number of the request, which its client never uses again |
//! | 24 | 8 | client: a number that no other client ever has |
//! | 32 | 4 | check, see below |
//! | 36 | | body |
//!
//! | body of | bytes | content |
//! |---|---|---|
//! | a write | 8, 2 | session, slot: see [`Once`] |
//! | | | the value of an insert, update or put |
//! | a scan | 8, 4, 1 | key at its far end, entries at most, 1 if it goes backward |
//! | a question for the map | 4 | from which byte on |
//!
//! | reply | bytes | content |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | [`Op`] with its highest bit set |
//! | 4 | 2 | [`Status`] |
//! | 6 | 1 | level at which the server began; 255: at the root |
//! | 7 | 1 | zero |
//! | 8 | 24 | key, number and client of the request |
//! | 32 | 4 | check |
//! | 36 | | body |
//!
//! The body of a reply to a get, a write or a scan is that of the same call over `endpoint::rpc`
//! (`endpoint::index::message`). To [`Op::Open`] it is an [`Opened`], to [`Op::Map`] a
//! [`MapPiece`].
//!
//! The check is the CRC-32 of zlib over all bytes but those of the check and, in a request, of the
//! tree node: a switch that fills that in need not renew it, and nothing rests on the tree node. A
//! UDP checksum would be weaker, and have to be changed by switches; ours is left out.

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

/// The UDP port that requests go to.
pub const PORT: u16 = 4793;
/// The first two bytes: "RW".
pub const MAGIC: u16 = 0x5257;
/// The version of this layout.
pub const VERSION: u8 = 1;
/// Bytes of a request or a reply before its body.
pub const HEADER_LEN: usize = 36;
/// Bytes of the body of a write before its value.
pub const WRITE_LEN: usize = 10;

/// The request was not carried out: its session is not, or no longer, known to the server. Whether
/// an earlier copy of it was, nobody knows.
pub const NO_SESSION: Status = Status(1);
/// The server has as many sessions as it may have, all of them in use.
pub const SESSIONS_FULL: Status = Status(2);

/// Set in the number of the operation of a reply.
const REPLY: u8 = 0x80;
const NODE: Range<usize> = 4..8;
const CHECK: Range<usize> = 32..36;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Op {
    /// The value of a key.
    Get = 1,
    /// A value for a key that has none.
    Insert = 2,
    /// Another value for a key that has one.
    Update = 3,
    /// A value, whether or not the key has one.
    Put = 4,
    /// No value any more.
    Delete = 5,
    /// The entries of a range.
    Scan = 6,
    /// A piece of the partition map.
    Map = 7,
    /// A session, which writes need.
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

    /// Whether it is about a key, so that a switch may fill in where to begin.
    pub fn has_key(self) -> bool {
        !matches!(self, Self::Map | Self::Open)
    }
}

/// Why bytes are no request, or no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// Shorter than a header.
    #[error("{0} bytes are less than a header of {HEADER_LEN}")]
    Truncated(usize),
    /// Something else altogether.
    #[error("it begins with {0:#06x}; index requests begin with {MAGIC:#06x}")]
    Foreign(u16),
    /// Another version of the layout.
    #[error("version {0} of index requests; this is version {VERSION}")]
    Version(u8),
    /// Damaged on the way.
    #[error("the check is wrong: it was damaged on the way")]
    BadCheck,
    /// A reply where a request was expected, or the other way round.
    #[error("operation {0:#04x} is of the other direction")]
    Direction(u8),
}

/// The CRC of `bytes` but for the check, and for the tree node if they are a request's.
fn check_of(bytes: &[u8], is_request: bool) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let before = if is_request { NODE.start } else { NODE.end };
    hasher.update(&bytes[..before]);
    hasher.update(&bytes[NODE.end..CHECK.start]);
    hasher.update(&bytes[CHECK.end..]);
    hasher.finalize()
}

/// What both directions begin with, and the body: everything but the operation's number judged.
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

/// The big-endian number that up to eight bytes are.
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

/// Sets the check of what lies in `bytes` from `start` on.
fn seal(bytes: &mut [u8], start: usize, is_request: bool) {
    let bytes = &mut bytes[start..];
    let check = check_of(bytes, is_request);
    bytes[CHECK].copy_from_slice(&check.to_be_bytes());
}

/// What a switch sees of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// What it is for.
    pub op: Op,
    /// The tree node to begin at; zero if none was filled in yet.
    pub node: u32,
    /// The key.
    pub key: u64,
}

impl Start {
    /// What a switch sees of a packet: nothing if it is no request for [`PORT`], is about no key,
    /// or its first 16 bytes do not lie in the packet's header area. The check is not looked at.
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

    /// Fills `node` in, and leaves the UDP checksum out. False if [`Self::of`] says nothing.
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

/// Where what a datagram for [`PORT`] carries begins in the header area, and its first bytes.
fn seen(packet: &Packet) -> Option<(usize, &[u8; 16])> {
    let datagram = Datagram::of(packet).ok()?;
    if datagram.target_port != PORT || datagram.carried < 16 {
        return None;
    }
    let at = ethernet::header_len(packet.header()) + ipv4::LEN + udp::LEN;
    Some((at, packet.header().get(at..)?.first_chunk()?))
}
