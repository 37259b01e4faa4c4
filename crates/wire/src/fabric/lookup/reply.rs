//! Replies.

use super::{LookupError, REPLY, begin, judge, seal, word};
use crate::fabric::rpc::Status;

/// What a reply says of a walk that began at the root.
pub const FROM_ROOT: u8 = 255;

/// A reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply<'a> {
    /// The number of the operation that was asked for.
    pub op: u8,
    /// How it ended.
    pub status: Status,
    /// The level of the tree node at which the server began, zero for a leaf; [`FROM_ROOT`].
    pub level: u8,
    /// The key of the request.
    pub key: u64,
    /// The number of the request.
    pub id: u64,
    /// Its client.
    pub client: u64,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// The reply in these bytes.
    ///
    /// # Errors
    /// If they are no reply, or damaged.
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
    /// Nanoseconds for which the server keeps it at least after the last request in it.
    pub keep_ns: u64,
    /// Slots: writes that may be under way.
    pub slots: u16,
}

impl Opened {
    /// Bytes of it.
    pub const LEN: usize = 18;

    /// The bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.keep_ns.to_be_bytes());
        bytes[16..].copy_from_slice(&self.slots.to_be_bytes());
        bytes
    }

    /// The session in these bytes; nothing if they are not as many, or it has no slots.
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
    /// The version of the map: pieces of different ones do not belong together.
    pub version: u64,
    /// Bytes of the whole.
    pub total: u32,
    /// The bytes from the one that was asked for on.
    pub bytes: &'a [u8],
}

impl<'a> MapPiece<'a> {
    /// What lies before the bytes of the map.
    pub fn header(&self) -> [u8; PIECE_HEADER_LEN] {
        let mut header = [0; PIECE_HEADER_LEN];
        header[..8].copy_from_slice(&self.version.to_be_bytes());
        header[8..].copy_from_slice(&self.total.to_be_bytes());
        header
    }

    /// The piece in these bytes; nothing if they are too few.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, bytes) = bytes.split_first_chunk::<PIECE_HEADER_LEN>()?;
        Some(Self {
            version: word(&header[..8]),
            total: word(&header[8..]) as u32,
            bytes,
        })
    }
}
