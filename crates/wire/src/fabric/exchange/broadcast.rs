//! Broadcasts: one message for streams of several nodes, in the items of a replicated flow.
//!
//! A broadcast is a header and a payload, and begins with an item of its own. Numbers are
//! little-endian.
//!
//! | bytes of an item | |
//! |---|---|
//! | 0 to 3 | how many bytes of the broadcast follow the item's header |
//! | 4 | 1: a broadcast begins |
//! | 5 to 7 | 0 |
//!
//! | bytes of a header | |
//! |---|---|
//! | 0 to 3 | bytes of the payload |
//! | 4 | [`FrameKind`]: Data, End or Error, with the payload of such a frame |
//! | 5 | 0 |
//! | 6, 7 | number of members |
//! | 8 for each member | its consumer of the flow, the number of the stream |

use super::{FrameKind, StreamNumber};

/// Bytes of an item before those of the broadcast.
pub const ITEM_HEADER_LEN: usize = 8;

/// Bytes of a header without members.
pub const HEADER_LEN: usize = 8;

/// Bytes of a member.
pub const MEMBER_LEN: usize = 8;

/// The maximum number of members.
pub const MEMBERS_MAX: usize = 32;

/// What an item has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemHeader {
    /// Bytes of a broadcast that follow.
    pub bytes: u32,
    /// Whether it begins here.
    pub is_first: bool,
}

impl ItemHeader {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; ITEM_HEADER_LEN] {
        let [a, b, c, d] = self.bytes.to_le_bytes();
        [a, b, c, d, self.is_first.into(), 0, 0, 0]
    }

    /// The header with these bytes, if there is one.
    pub fn parse(bytes: [u8; ITEM_HEADER_LEN]) -> Option<Self> {
        let [a, b, c, d, is_first @ (0 | 1), 0, 0, 0] = bytes else {
            return None;
        };
        Some(Self {
            bytes: u32::from_le_bytes([a, b, c, d]),
            is_first: is_first == 1,
        })
    }
}

/// A stream that gets the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The consumer of the flow at the stream's node.
    pub consumer: u32,
    /// The number of the stream.
    pub stream: StreamNumber,
}

/// The beginning of a broadcast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BroadcastHeader {
    /// Data, End or Error.
    pub kind: FrameKind,
    /// Bytes of the payload.
    pub payload: u32,
    /// The streams that get it, at most [`MEMBERS_MAX`].
    pub members: Vec<Member>,
}

impl BroadcastHeader {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN + MEMBER_LEN * self.members.len());
        bytes.extend(self.payload.to_le_bytes());
        bytes.extend([self.kind as u8, 0]);
        bytes.extend((self.members.len() as u16).to_le_bytes());
        for member in &self.members {
            bytes.extend(member.consumer.to_le_bytes());
            bytes.extend(member.stream.get().to_le_bytes());
        }
        bytes
    }

    /// The header at the start of `bytes`, and what follows it, if there is one.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (payload, rest) = number(bytes)?;
        let (&[code, 0, count, high], mut rest) = rest.split_first_chunk::<4>()? else {
            return None;
        };
        let kind = match FrameKind::of_code(code.into())? {
            kind @ (FrameKind::Data | FrameKind::End | FrameKind::Error) => kind,
            _ => return None,
        };
        let count = usize::from(u16::from_le_bytes([count, high]));
        if count > MEMBERS_MAX {
            return None;
        }
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let (consumer, after) = number(rest)?;
            let (stream, after) = number(after)?;
            let stream = StreamNumber::new(stream)?;
            members.push(Member { consumer, stream });
            rest = after;
        }
        let header = Self {
            kind,
            payload,
            members,
        };
        Some((header, rest))
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let member = |consumer, stream| Member {
            consumer,
            stream: StreamNumber::new(stream).unwrap(),
        };
        let header = BroadcastHeader {
            kind: FrameKind::Error,
            payload: 0x0102_0304,
            members: vec![member(3, 0xabc), member(0, 7)],
        };
        let mut bytes = header.to_bytes();
        assert_eq!(
            bytes,
            [
                4, 3, 2, 1, 6, 0, 2, 0, 3, 0, 0, 0, 0xbc, 0xa, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0
            ]
        );
        bytes.push(9);
        assert_eq!(
            BroadcastHeader::parse(&bytes),
            Some((header.clone(), &[9][..]))
        );
        for len in 0..bytes.len() - 1 {
            assert_eq!(BroadcastHeader::parse(&bytes[..len]), None);
        }
        for item in
            [(4000, true), (0, false)].map(|(bytes, is_first)| ItemHeader { bytes, is_first })
        {
            assert_eq!(ItemHeader::parse(item.to_bytes()), Some(item));
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = BroadcastHeader {
            kind: FrameKind::Data,
            payload: 0,
            members: Vec::new(),
        };
        let good = good.to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            BroadcastHeader::parse(&bytes).map(|(header, _)| header)
        };
        for code in [0, 1, 2, 4, 7, 8, 9, 10, 255] {
            assert_eq!(with(4, code), None, "kind {code}");
        }
        assert_eq!(with(5, 1), None);
        assert_eq!(with(6, MEMBERS_MAX as u8 + 1), None);
        assert_eq!(ItemHeader::parse([0, 0, 0, 0, 2, 0, 0, 0]), None);
        assert_eq!(ItemHeader::parse([0, 0, 0, 0, 1, 0, 1, 0]), None);
    }
}
