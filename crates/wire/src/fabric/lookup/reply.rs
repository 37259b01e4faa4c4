//! Replies.

use super::{LookupError, REPLY, begin, judge, seal, word};
use crate::fabric::rpc::Status;

/// The level in a reply if the walk started at the root.
pub const FROM_ROOT: u8 = 255;

/// A reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply<'a> {
    /// The number of the operation that was requested.
    pub op: u8,
    /// The result.
    pub status: Status,
    /// The level of the tree node at which the server started, zero for a leaf; or [`FROM_ROOT`].
    pub level: u8,
    /// The key of the request.
    pub key: u64,
    /// The number of the request.
    pub id: u64,
    /// The client of the request.
    pub client: u64,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Decodes a reply.
    ///
    /// # Errors
    /// If the bytes are not a reply, or are corrupted.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LookupError> {
        let (header, body) = judge(bytes, false)?;
        Ok(Self {
            op: header[3] & !REPLY,
            status: Status(word(&header[4..6]) as u16),
            level: header[6],
            key: word(&header[8..16]),
            id: word(&header[16..24]),
            client: word(&header[24..32]),
            body,
        })
    }

    /// Appends its bytes.
    pub fn emit(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        begin(bytes, self.op | REPLY);
        bytes.extend(self.status.0.to_be_bytes());
        bytes.extend([self.level, 0]);
        for word in [self.key, self.id, self.client] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend([0; 4]);
        bytes.extend_from_slice(self.body);
        seal(bytes, start, false);
    }
}

/// A session that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Its number, which no other session of any server has.
    pub session: u64,
    /// Nanoseconds for which the server keeps it, at least, after its last request.
    pub keep_ns: u64,
    /// Slots: maximum writes in flight.
    pub slots: u16,
}

impl Opened {
    /// Bytes of its encoding.
    pub const LEN: usize = 18;

    /// The bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.keep_ns.to_be_bytes());
        bytes[16..].copy_from_slice(&self.slots.to_be_bytes());
        bytes
    }

    /// The session in these bytes; `None` if the length is wrong, or the session has no slots.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let slots = word(&bytes[16..]) as u16;
        (slots > 0).then(|| Self {
            session: word(&bytes[..8]),
            keep_ns: word(&bytes[8..16]),
            slots,
        })
    }
}

/// Bytes of a [`MapPiece`] before those of the map.
pub const PIECE_HEADER_LEN: usize = 12;

/// A piece of an encoded partition map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapPiece<'a> {
    /// The version of the map: pieces of different versions do not belong together.
    pub version: u64,
    /// Bytes of the whole map.
    pub total: u32,
    /// The bytes from the requested offset on.
    pub bytes: &'a [u8],
}

impl<'a> MapPiece<'a> {
    /// The header before the bytes of the map.
    pub fn header(&self) -> [u8; PIECE_HEADER_LEN] {
        let mut header = [0; PIECE_HEADER_LEN];
        header[..8].copy_from_slice(&self.version.to_be_bytes());
        header[8..].copy_from_slice(&self.total.to_be_bytes());
        header
    }

    /// The piece in these bytes; `None` if there are too few.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, bytes) = bytes.split_first_chunk::<PIECE_HEADER_LEN>()?;
        Some(Self {
            version: word(&header[..8]),
            total: word(&header[8..]) as u32,
            bytes,
        })
    }
}
