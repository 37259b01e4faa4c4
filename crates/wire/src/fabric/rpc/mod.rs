//! Calls between nodes: the contents of the SENDs of `endpoint::rpc`.
//!
//! A *message* is one SEND. It has a header and any number of *calls*, each a request or a reply,
//! one after the other without gaps; all numbers are little-endian.
//!
//! | message header | bytes | content |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | [`MessageKind`] |
//! | 4 | 2 | number of calls |
//! | 6 | 2 | reply: grant, see below; otherwise zero |
//! | 8 | 8 | the server's incarnation; in a request: the expected one, or zero |
//!
//! | call | bytes | content |
//! |---|---|---|
//! | 0 | 2 | slot of the client's window |
//! | 2 | 2 | generation of the slot |
//! | 4 | 2 | request: method; reply: [`Status`] |
//! | 6 | 2 | number of bytes that follow |
//!
//! The *grant* is the number of messages that the client may have sent on this connection so far,
//! modulo 2^16: those that the server has read, plus one for each further receive request that the
//! server has posted, minus one. Before the first reply it is [`GRANT_INITIAL`]. So no request
//! meets a receiver that is not ready. A reply needs no grant, because a client has a receive
//! request for every slot of its window, and one more.
//!
//! A request message without calls asks whether the server is alive. It is answered by a reply
//! message, which may be without calls, too. One such request may be in flight beyond the grant. A
//! [`MessageKind::Refusal`] has one call, which belongs to no slot ([`CallId::NONE`]) and whose
//! status gives the reason why a whole message was refused.

#[cfg(test)]
mod tests;

use core::fmt;

/// Bytes of a message's header.
pub const MESSAGE_HEADER_LEN: usize = 16;
/// Bytes of a call's header.
pub const CALL_HEADER_LEN: usize = 8;
/// The first two bytes of a message: "RP", little-endian.
pub const MAGIC: u16 = 0x5052;
/// The version of this layout.
pub const VERSION: u8 = 1;
/// Maximum length of the content of a call.
pub const PAYLOAD_MAX: usize = u16::MAX as usize;
/// Messages that a client may send before the first reply of the server.
pub const GRANT_INITIAL: u16 = 8;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum MessageKind {
    /// Requests of a client.
    Request = 1,
    /// Replies of a server.
    Reply = 2,
    /// The refusal of a whole message of the client.
    Refusal = 3,
}

/// The result of a request. Zero is success; numbers below [`Status::RESERVED`] belong to the
/// service, the others to the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Status(pub u16);

impl Status {
    /// The request was executed.
    pub const OK: Self = Self(0);
    /// The first number that a service must not use for its own purposes.
    pub const RESERVED: u16 = 0xff00;
    /// The service does not have the method.
    pub const UNKNOWN_METHOD: Self = Self(0xff01);
    /// The message, the call or the request in it is not well-formed.
    pub const MALFORMED: Self = Self(0xff02);
    /// The answer is longer than a reply may be. The request was executed.
    pub const REPLY_TOO_LARGE: Self = Self(0xff03);
    /// The request was meant for another incarnation of the server.
    pub const OTHER_INCARNATION: Self = Self(0xff04);
    /// The message has another version than the server supports.
    pub const OTHER_VERSION: Self = Self(0xff05);

    /// Whether the status is a success.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OK => f.write_str("success"),
            Self::UNKNOWN_METHOD => f.write_str("the service has no such method"),
            Self::MALFORMED => f.write_str("the request is not well-formed"),
            Self::REPLY_TOO_LARGE => f.write_str("the answer is longer than a reply may be"),
            Self::OTHER_INCARNATION => f.write_str("the server has been restarted"),
            Self::OTHER_VERSION => f.write_str("the server speaks another version"),
            Self(number) => write!(f, "status {number} of the service"),
        }
    }
}

/// Identifies the request that a reply answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallId {
    /// The slot of the client's window.
    pub slot: u16,
    /// How often the slot was used before, modulo 2^16.
    pub generation: u16,
}

impl CallId {
    /// No request; used in a refusal. A window has at most 65535 slots.
    pub const NONE: Self = Self {
        slot: u16::MAX,
        generation: u16::MAX,
    };
}

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageHeader {
    /// The kind of the message.
    pub kind: MessageKind,
    /// Number of calls in the message.
    pub count: u16,
    /// Messages that the client may have sent, modulo 2^16; zero if it is not a reply.
    pub grant: u16,
    /// The server's incarnation; zero in a request for any incarnation.
    pub incarnation: u64,
}

/// The header of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallHeader {
    /// The request that the call is or answers.
    pub id: CallId,
    /// The method of a request, the [`Status`] of a reply.
    pub code: u16,
    /// Number of bytes that follow.
    pub length: u16,
}

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// The request that the call is or answers.
    pub id: CallId,
    /// The method of a request, the [`Status`] of a reply.
    pub code: u16,
    /// The content, which the service interprets.
    pub payload: &'a [u8],
}

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MessageError {
    /// The header is incomplete.
    #[error("{len} bytes are no RPC message: the header alone has {MESSAGE_HEADER_LEN}")]
    Truncated {
        /// Bytes present.
        len: usize,
    },
    /// The magic does not match.
    #[error("it begins with {found:#06x}, an RPC message with {MAGIC:#06x}")]
    NoRpc {
        /// The first two bytes.
        found: u16,
    },
    /// The message has another version.
    #[error(
        "the RPC message has version {found}, this is {VERSION}; run the same version at both ends"
    )]
    Version {
        /// Its version.
        found: u8,
    },
    /// The kind does not exist.
    #[error("there is no RPC message of kind {found}")]
    Kind {
        /// The number of the kind.
        found: u8,
    },
}

/// The calls of a message do not match its header. Nothing after this can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum CallError {
    /// The header of a call is incomplete.
    #[error("{missing} calls are missing: {left} bytes are left")]
    Missing {
        /// Calls that the message should still have.
        missing: u16,
        /// Bytes that are left.
        left: usize,
    },
    /// The content of a call is incomplete.
    #[error("a call of {length} bytes, but {left} are left in the message")]
    Truncated {
        /// The request that the call is or answers.
        id: CallId,
        /// Bytes that it should have.
        length: u16,
        /// Bytes that are left.
        left: usize,
    },
    /// There are bytes after the last call.
    #[error("{left} bytes behind the last call")]
    Trailing {
        /// Number of these bytes.
        left: usize,
    },
}

impl MessageHeader {
    /// The bytes of the header.
    pub fn emit(&self) -> [u8; MESSAGE_HEADER_LEN] {
        let mut bytes = [0; MESSAGE_HEADER_LEN];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        bytes[3] = self.kind as u8;
        bytes[4..6].copy_from_slice(&self.count.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.grant.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }
}

impl CallHeader {
    /// The bytes of the header.
    #[inline]
    pub fn emit(&self) -> [u8; CALL_HEADER_LEN] {
        let word = u64::from(self.id.slot)
            | u64::from(self.id.generation) << 16
            | u64::from(self.code) << 32
            | u64::from(self.length) << 48;
        word.to_le_bytes()
    }

    /// Decodes a header.
    #[inline]
    pub fn parse(bytes: &[u8; CALL_HEADER_LEN]) -> Self {
        let word = u64::from_le_bytes(*bytes);
        Self {
            id: CallId {
                slot: word as u16,
                generation: (word >> 16) as u16,
            },
            code: (word >> 32) as u16,
            length: (word >> 48) as u16,
        }
    }
}

/// Decodes a message: its header, and its calls one after the other.
///
/// # Errors
/// If the header is invalid.
pub fn parse(bytes: &[u8]) -> Result<(MessageHeader, Calls<'_>), MessageError> {
    let Some((header, rest)) = bytes.split_first_chunk::<MESSAGE_HEADER_LEN>() else {
        return Err(MessageError::Truncated { len: bytes.len() });
    };
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if half(0) != MAGIC {
        return Err(MessageError::NoRpc { found: half(0) });
    }
    if header[2] != VERSION {
        return Err(MessageError::Version { found: header[2] });
    }
    let kind = match header[3] {
        1 => MessageKind::Request,
        2 => MessageKind::Reply,
        3 => MessageKind::Refusal,
        found => return Err(MessageError::Kind { found }),
    };
    let (_, incarnation) = header.split_last_chunk::<8>().expect("it has 16 bytes");
    let header = MessageHeader {
        kind,
        count: half(4),
        grant: half(6),
        incarnation: u64::from_le_bytes(*incarnation),
    };
    Ok((
        header,
        Calls {
            rest,
            left: header.count,
            failed: false,
        },
    ))
}

/// The calls of a message, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Calls<'a> {
    rest: &'a [u8],
    left: u16,
    failed: bool,
}

impl<'a> Calls<'a> {
    fn read(&mut self) -> Result<Call<'a>, CallError> {
        let Some((header, rest)) = self.rest.split_first_chunk::<CALL_HEADER_LEN>() else {
            return Err(CallError::Missing {
                missing: self.left,
                left: self.rest.len(),
            });
        };
        let CallHeader { id, code, length } = CallHeader::parse(header);
        let Some((payload, rest)) = rest.split_at_checked(usize::from(length)) else {
            return Err(CallError::Truncated {
                id,
                length,
                left: rest.len(),
            });
        };
        self.rest = rest;
        self.left -= 1;
        Ok(Call { id, code, payload })
    }
}

impl<'a> Iterator for Calls<'a> {
    type Item = Result<Call<'a>, CallError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.left > 0 {
            let call = self.read();
            self.failed = call.is_err();
            return Some(call);
        }
        let left = self.rest.len();
        self.failed = left > 0;
        self.failed.then_some(Err(CallError::Trailing { left }))
    }
}
