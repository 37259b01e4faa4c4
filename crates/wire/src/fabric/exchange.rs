//! Exchange streams: frames of many logical streams over one channel of messages.
//!
//! A frame is a [message](super::message): its opcode has the kind of frame in bits 28 to 31 and
//! the stream's number in bits 0 to 27. The node that dialed opens the streams of a connection, and
//! numbers them. Each stream has a direction to the acceptor and one back.
//!
//! | kind | payload | sent by |
//! |---|---|---|
//! | 1 [`Hello`](FrameKind::Hello) | the name of the node that dialed | it, as the first frame, with number 0 |
//! | 2 [`Open`](FrameKind::Open) | credit for the direction back (4 bytes), then the request | the node that dialed |
//! | 3 [`Data`](FrameKind::Data) | one message | the direction's sender |
//! | 4 [`Credit`](FrameKind::Credit) | bytes that may be sent in addition (4 bytes) | its receiver |
//! | 5 [`End`](FrameKind::End) | nothing: no message follows | its sender |
//! | 6 [`Error`](FrameKind::Error) | a [reason](ErrorCode) (1 byte) and a text; nothing follows | its sender |
//! | 7 [`Cancel`](FrameKind::Cancel) | nothing: messages are no longer wanted | its receiver |
//! | 8 [`Join`](FrameKind::Join) | a consumer of a flow (4 bytes), the flow's name; number 0 | the acceptor |
//! | 9 [`Joined`](FrameKind::Joined) | whether it takes that consumer's items (1 byte); number 0 | the node that dialed |
//!
//! Numbers are little-endian. Every direction ends with one End or Error, also after a Cancel. A
//! stream is over when both directions have ended; then its number is free. Credit and Cancel may
//! cross the end of their direction, and are ignored then.
//!
//! Data, End and Error of a direction may come as a [`broadcast`] instead, all of them.

pub mod broadcast;

use core::fmt;

/// Bits of an opcode that have the stream's number.
const NUMBER_BITS: u32 = 28;

/// The largest number of a stream.
pub const STREAM_NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;

/// Bytes of a number of bytes in [`FrameKind::Open`] and [`FrameKind::Credit`].
pub const CREDIT_LEN: usize = 4;

/// The number of a stream among those of its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamNumber(u32);

impl StreamNumber {
    /// The number of the connection itself, for [`FrameKind::Hello`].
    pub const CONNECTION: Self = Self(0);

    /// The number with this value; `None` if it exceeds [`STREAM_NUMBER_MAX`].
    pub const fn new(number: u32) -> Option<Self> {
        match number <= STREAM_NUMBER_MAX {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Its value.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Names the node that dialed.
    Hello = 1,
    /// Opens a stream.
    Open = 2,
    /// A message.
    Data = 3,
    /// Allows its receiver to send more bytes.
    Credit = 4,
    /// No message follows.
    End = 5,
    /// No message follows, because of an error.
    Error = 6,
    /// Messages are no longer wanted.
    Cancel = 7,
    /// Asks the peer to take the items of a replicated flow, in which broadcasts come.
    Join = 8,
    /// The answer.
    Joined = 9,
}

impl FrameKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Hello,
        Self::Open,
        Self::Data,
        Self::Credit,
        Self::End,
        Self::Error,
        Self::Cancel,
        Self::Join,
        Self::Joined,
    ];

    /// The opcode of a frame of this kind.
    pub const fn opcode(self, stream: StreamNumber) -> u32 {
        (self as u32) << NUMBER_BITS | stream.0
    }

    /// Kind and stream of an opcode; `None` if there is no such kind.
    pub fn of_opcode(opcode: u32) -> Option<(Self, StreamNumber)> {
        let kind = Self::of_code(opcode >> NUMBER_BITS)?;
        Some((kind, StreamNumber(opcode & STREAM_NUMBER_MAX)))
    }

    /// The kind with this number, if there is one.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == code)
    }
}

/// Why a direction ended with an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ErrorCode {
    /// The sending program says so, in the bytes that follow.
    Failed = 1,
    /// The sending program dropped its end without a word.
    Dropped = 2,
    /// The node accepts no streams.
    NotAccepted = 3,
    /// The flow that carried its messages was aborted.
    BroadcastLost = 4,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 4] = [
        Self::Failed,
        Self::Dropped,
        Self::NotAccepted,
        Self::BroadcastLost,
    ];

    /// The code with this number, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&known| known as u8 == code)
    }
}

/// The number of bytes at the start of an Open or Credit, and what follows it; `None` if it is too
/// short.
pub fn split_credit(payload: &[u8]) -> Option<(u32, &[u8])> {
    let (credit, rest) = payload.split_first_chunk::<CREDIT_LEN>()?;
    Some((u32::from_le_bytes(*credit), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_kind_and_stream() {
        let stream = StreamNumber::new(0x123_4567).unwrap();
        assert_eq!(FrameKind::Data.opcode(stream), 0x3123_4567);
        for kind in FrameKind::ALL {
            for number in [0, 1, STREAM_NUMBER_MAX] {
                let stream = StreamNumber::new(number).unwrap();
                let found = FrameKind::of_opcode(kind.opcode(stream));
                assert_eq!(found, Some((kind, stream)));
            }
        }
        for code in [0, 10, 15] {
            assert_eq!(FrameKind::of_opcode(code << 28 | 5), None);
        }
        assert_eq!(StreamNumber::new(STREAM_NUMBER_MAX + 1), None);
    }

    #[test]
    fn credit_comes_first() {
        assert_eq!(split_credit(&[1, 2, 0, 0, 9]), Some((513, &[9][..])));
        assert_eq!(split_credit(&[1, 2, 0]), None);
        assert_eq!(ErrorCode::from_code(2), Some(ErrorCode::Dropped));
        assert_eq!(ErrorCode::from_code(0), None);
    }
}
