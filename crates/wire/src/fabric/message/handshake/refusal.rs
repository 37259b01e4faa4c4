//! Why a node does not connect.

use core::fmt;

/// Maximum length of the text of a refusal, in bytes.
pub const TEXT_MAX: usize = 200;

/// Why a node does not connect, as reported to the peer. The numbers are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusalCode {
    /// 1: the received data is of another protocol.
    NotSpoken,
    /// 2: the nodes have no version in common.
    Version,
    /// 3: the received message is of this protocol, but has impossible values.
    Malformed,
    /// 4: a message arrived out of order.
    OutOfOrder,
    /// 5: the nodes are in different racks.
    ForeignRack,
    /// 6: a number of receive buffers that is not allowed.
    ReceiveBuffers,
    /// 7: a size of receive buffers that is not allowed.
    BufferSize,
    /// 8: a number of channels that is not allowed.
    Channels,
    /// 9: a maximum message length that is not allowed.
    MessageMax,
    /// 10: an address or MTU that is not allowed.
    Address,
    /// 11: too many connections are being established at a time.
    Busy,
    /// 12: there is no memory for the buffers.
    NoMemory,
    /// 13: the NIC has no capacity for more queue pairs, completion queues or regions.
    NoRoom,
    /// 14: queue pairs, regions or keys that are invalid, or with which no connection could be
    /// established.
    BadKeys,
    /// 15: the node is shutting down, or accepts no more connections.
    Stopping,
    /// 16: the peer took too long.
    TooLate,
    /// 17: the peer has as many connections, or as much memory for them, as one peer is allowed.
    OverQuota,
    /// Another number, from a future version.
    Other(u16),
}

/// All codes that have a name, by number from 1.
const NAMED: [RefusalCode; 17] = [
    RefusalCode::NotSpoken,
    RefusalCode::Version,
    RefusalCode::Malformed,
    RefusalCode::OutOfOrder,
    RefusalCode::ForeignRack,
    RefusalCode::ReceiveBuffers,
    RefusalCode::BufferSize,
    RefusalCode::Channels,
    RefusalCode::MessageMax,
    RefusalCode::Address,
    RefusalCode::Busy,
    RefusalCode::NoMemory,
    RefusalCode::NoRoom,
    RefusalCode::BadKeys,
    RefusalCode::Stopping,
    RefusalCode::TooLate,
    RefusalCode::OverQuota,
];

impl RefusalCode {
    /// Every code that has a name, in the order of their numbers, from 1.
    pub const NAMED: [Self; 17] = NAMED;

    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::Other(number) => number,
            named => NAMED
                .iter()
                .zip(1..)
                .find(|&(&code, _)| code == named)
                .map_or(0, |(_, number)| number),
        }
    }

    /// The code with this number on the wire.
    pub fn from_number(number: u16) -> Self {
        usize::from(number)
            .checked_sub(1)
            .and_then(|at| NAMED.get(at))
            .copied()
            .unwrap_or(Self::Other(number))
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSpoken => "it does not speak Rackweave messaging",
            Self::Version => "no version of the handshake in common",
            Self::Malformed => "a malformed message",
            Self::OutOfOrder => "a message that is not due",
            Self::ForeignRack => "the nodes are in different racks",
            Self::ReceiveBuffers => "a number of receive buffers that cannot be",
            Self::BufferSize => "a size of receive buffers that cannot be",
            Self::Channels => "a number of channels that cannot be",
            Self::MessageMax => "a longest message that cannot be",
            Self::Address => "an address or MTU that cannot be",
            Self::Busy => "too many connect at a time; try again later",
            Self::NoMemory => "no memory for the buffers",
            Self::NoRoom => "no room in the NIC",
            Self::BadKeys => "queue pairs, regions or keys that cannot be",
            Self::Stopping => "the node takes no more connections",
            Self::TooLate => "the peer took too long",
            Self::OverQuota => "one peer may have no more connections or memory",
            Self::Other(number) => return write!(f, "reason {number} of a newer version"),
        })
    }
}

/// Why a node does not connect: a code for programs, and a text for people.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}{}{text}", if .text.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// The code.
    pub code: RefusalCode,
    text: String,
}

impl Refusal {
    /// A refusal with a text, which is truncated to [`TEXT_MAX`] bytes; control characters become
    /// spaces.
    pub fn new(code: RefusalCode, text: &str) -> Self {
        let fits = |&end: &usize| text.is_char_boundary(end);
        let cut = (0..=text.len().min(TEXT_MAX)).rfind(fits).unwrap_or(0);
        let clean = |character: char| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        };
        Self {
            code,
            text: text[..cut].chars().map(clean).collect(),
        }
    }

    /// The text, on one line.
    pub fn text(&self) -> &str {
        &self.text
    }
}
