//! The messages over TCP by which a compute node and a storage node agree on a connection.
//!
//! The storage node listens, the compute node connects (communication-tier, section 2.1). There are
//! at most four messages; all numbers are little-endian, except for the addresses of IP and
//! Ethernet, which are in network byte order:
//!
//! ```text
//! compute node ── Hello ──▶ storage node      my terms and the versions that I support
//!              ◀── Offer ──                   my terms, in the chosen version
//!              ── Open ───▶                   my queue pairs, regions and keys
//!              ◀── Accept ─                   mine; the connection is open
//! ```
//!
//! In place of any of its messages, a node may send a `Refuse`, after which it closes the stream.
//! Nothing follows an `Accept` either: from then on the connection uses one-sided WRITEs only.
//!
//! | header | bytes | content |
//! |---|---|---|
//! | 0 | 4 | bytes that follow this number, [`HEADER_LEN`] - 4 to [`MESSAGE_MAX`] - 4 |
//! | 4 | 4 | [`MAGIC`] |
//! | 8 | 2 | [`Kind`] |
//! | 10 | 2 | Hello and Refuse: the newest version of the sender; otherwise the chosen one |
//!
//! | Hello | bytes | content |
//! |---|---|---|
//! | 12 | 2 | the oldest version that the sender supports |
//! | 14 | 2 | zero |
//! | 16 | 40 | terms |
//!
//! An Offer has its terms at 12. Open and Accept have their keys at 12:
//!
//! | terms | bytes | content |
//! |---|---|---|
//! | 0 | 8 | the rack that the node is in; zero: any rack |
//! | 8 | 8 | maximum bytes of a message that it receives or sends, at least 1 |
//! | 16 | 4 | bytes of each of its receive buffers: a multiple of 64, 1 KiB to 1 GiB |
//! | 20 | 4 | its IP address |
//! | 24 | 6 | its Ethernet address |
//! | 30 | 2 | its MTU in bytes: 256, 512, 1024, 2048 or 4096 |
//! | 32 | 1 | number of its receive buffers, 1 to 7 |
//! | 33 | 1 | maximum channels from compute to storage node that it wants, 1 to 7 |
//! | 34 | 1 | maximum channels from storage to compute node that it wants, 1 to 7 |
//! | 35 | 1 | 1 if its NIC stores the last aligned word of a WRITE after the other bytes, else 0 |
//! | 36 | 4 | zero |
//!
//! | keys | bytes | content |
//! |---|---|---|
//! | 0 | 8 | address of its buffer info, a multiple of 64 |
//! | 8 | 8 | address of its receive buffers, a multiple of 64 |
//! | 16 | 4 | remote key of its buffer info |
//! | 20 | 4 | remote key of its receive buffers |
//! | 24 | 1 | number of its queue pairs: one for each channel, 2 to 14 |
//! | 25 | 7 | zero |
//! | 32 | 8 each | a queue pair: its number (24 bits), the PSN that it starts with (24 bits) |
//!
//! | Refuse | bytes | content |
//! |---|---|---|
//! | 12 | 2 | [`RefusalCode`] |
//! | 14 | 2 | the oldest version that the sender supports |
//! | 16 | 0 to 200 | the reason, in UTF-8 without control characters |
//!
//! **Versions.** Hello and Refuse keep their format in all future versions. The terms of a Hello
//! whose newest version is above the receiver's may be followed by further bytes, which are
//! ignored. The storage node chooses the newest version that both support.
//!
//! This module is stateless; `rackweave_endpoint::messaging::handshake` has the two machines.

mod error;
mod fields;
mod refusal;
#[cfg(test)]
mod tests;

use core::fmt;
use fields::TermsBytes;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

pub use error::{FieldError, FirstBytes, MessageError};
pub use fields::{
    CHANNELS_MAX, Keys, QUEUE_PAIRS_MAX, QueuePair, RECEIVE_BYTES_MAX, RECEIVE_BYTES_MIN, Terms,
    WriteTarget,
};
pub use refusal::{Refusal, RefusalCode, TEXT_MAX};

/// Bytes 4 to 7 of every message.
pub const MAGIC: [u8; 4] = *b"RWMH";
/// The newest version that this module supports.
pub const VERSION: u16 = 2;
/// The oldest version that this module supports.
pub const VERSION_OLDEST: u16 = 2;
/// Bytes of a message's header.
pub const HEADER_LEN: usize = 12;
/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 1024;

/// Bytes of the length at the start of a message.
const LENGTH_LEN: usize = 4;
/// Bytes that distinguish these messages from others.
const SIGN_LEN: usize = LENGTH_LEN + MAGIC.len();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    length: U32,
    magic: [u8; 4],
    kind: U16,
    version: U16,
}

/// The fields between the header of a Hello or a Refuse and the rest.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Pair {
    first: U16,
    second: U16,
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

/// The kind of a message. The numbers are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u16)]
pub enum Kind {
    /// The first message of a compute node.
    Hello = 1,
    /// A storage node's answer to a Hello.
    Offer = 2,
    /// The second message of a compute node.
    Open = 3,
    /// A storage node's answer to an Open.
    Accept = 4,
    /// A refusal, the last message of either node.
    Refuse = 5,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A compute node describes itself.
    Hello {
        /// The oldest version that it supports.
        oldest: u16,
        /// The newest version that it supports.
        newest: u16,
        /// Its terms.
        terms: Terms,
    },
    /// A storage node describes itself.
    Offer(Terms),
    /// A compute node sends the keys with which its memory may be written.
    Open(Keys),
    /// A storage node sends its keys; the connection is open.
    Accept(Keys),
    /// The sender does not want to connect, or cannot.
    Refuse {
        /// The oldest version that the sender supports.
        oldest: u16,
        /// The newest version that the sender supports.
        newest: u16,
        /// The reason.
        refusal: Refusal,
    },
}

impl Kind {
    fn from_number(number: u16) -> Option<Self> {
        Self::try_read_from_bytes(&number.to_ne_bytes()).ok()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hello => "a Hello",
            Self::Offer => "an Offer",
            Self::Open => "an Open",
            Self::Accept => "an Accept",
            Self::Refuse => "a Refuse",
        })
    }
}

impl Message {
    /// A Hello with the versions that this module supports.
    pub const fn hello(terms: Terms) -> Self {
        Self::Hello {
            oldest: VERSION_OLDEST,
            newest: VERSION,
            terms,
        }
    }

    /// A Refuse with the versions that this module supports.
    pub const fn refuse(refusal: Refusal) -> Self {
        Self::Refuse {
            oldest: VERSION_OLDEST,
            newest: VERSION,
            refusal,
        }
    }

    /// The message's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Hello { .. } => Kind::Hello,
            Self::Offer(_) => Kind::Offer,
            Self::Open(_) => Kind::Open,
            Self::Accept(_) => Kind::Accept,
            Self::Refuse { .. } => Kind::Refuse,
        }
    }

    /// Encodes the message. Nothing is checked: the peer refuses values that are out of range.
    pub fn emit(&self) -> Vec<u8> {
        let pair = |first: u16, second: u16| Pair {
            first: first.into(),
            second: second.into(),
        };
        let mut body = Vec::new();
        let mut version = VERSION;
        match self {
            Self::Hello {
                oldest,
                newest,
                terms,
            } => {
                version = *newest;
                body.extend_from_slice(pair(*oldest, 0).as_bytes());
                terms.emit(&mut body);
            }
            Self::Offer(terms) => terms.emit(&mut body),
            Self::Open(keys) | Self::Accept(keys) => keys.emit(&mut body),
            Self::Refuse {
                oldest,
                newest,
                refusal,
            } => {
                version = *newest;
                body.extend_from_slice(pair(refusal.code.number(), *oldest).as_bytes());
                body.extend_from_slice(refusal.text().as_bytes());
            }
        }
        let header = Header {
            length: ((HEADER_LEN - LENGTH_LEN + body.len()) as u32).into(),
            magic: MAGIC,
            kind: (self.kind() as u16).into(),
            version: version.into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.append(&mut body);
        bytes
    }

    /// Decodes the message at the start of `bytes` and returns its length; `None` if it is
    /// incomplete. A foreign message is detected as soon as its first bytes have arrived.
    ///
    /// # Errors
    /// If the bytes do not begin with a message, or with one that has impossible values.
    pub fn take(bytes: &[u8]) -> Result<Option<(Self, usize)>, MessageError> {
        let sign = bytes.get(LENGTH_LEN..).unwrap_or_default();
        if sign.iter().zip(MAGIC).any(|(&found, magic)| found != magic) {
            return Err(MessageError::Foreign(FirstBytes::of(bytes)));
        }
        if bytes.len() < SIGN_LEN {
            return Ok(None);
        }
        let (follow, _) = U32::read_from_prefix(bytes).expect("eight bytes are there");
        let length = u64::from(follow) + LENGTH_LEN as u64;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (HEADER_LEN..=MESSAGE_MAX).contains(length))
            .ok_or(MessageError::Length { length })?;
        match bytes.get(..length) {
            Some(whole) => Ok(Some((Self::parse(whole)?, length))),
            None => Ok(None),
        }
    }

    /// Decodes the message in these bytes, whose number matches its header.
    fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let (header, body) = Header::ref_from_prefix(bytes).expect("a length is at least this");
        let (found, version) = (header.kind.get(), header.version.get());
        let kind = Kind::from_number(found).ok_or(MessageError::Kind { found })?;
        let size = || MessageError::Size {
            kind,
            length: bytes.len(),
        };
        let chosen = |read: fn(Kind, &[u8]) -> Result<Self, MessageError>| match version {
            VERSION_OLDEST..=VERSION => read(kind, body),
            found => Err(MessageError::Version { kind, found }),
        };
        match kind {
            Kind::Hello => {
                let (pair, terms) = Pair::ref_from_prefix(body).map_err(|_| size())?;
                let oldest = pair.first.get();
                check_versions(oldest, version)?;
                if oldest > VERSION || version < VERSION_OLDEST {
                    let newest = version;
                    return Err(MessageError::NoCommonVersion { oldest, newest });
                }
                if pair.second != 0 {
                    return Err(MessageError::Reserved { kind });
                }
                let (terms, more) = TermsBytes::ref_from_prefix(terms).map_err(|_| size())?;
                if !more.is_empty() && version <= VERSION {
                    return Err(size());
                }
                Ok(Self::Hello {
                    oldest,
                    newest: version,
                    terms: Terms::parse(kind, terms)?,
                })
            }
            Kind::Offer => chosen(|kind, body| {
                let terms = TermsBytes::ref_from_bytes(body);
                let terms = terms.map_err(|_| MessageError::Size {
                    kind,
                    length: HEADER_LEN + body.len(),
                })?;
                Ok(Self::Offer(Terms::parse(kind, terms)?))
            }),
            Kind::Open => chosen(|kind, body| Ok(Self::Open(Keys::parse(kind, body)?))),
            Kind::Accept => chosen(|kind, body| Ok(Self::Accept(Keys::parse(kind, body)?))),
            Kind::Refuse => {
                let (pair, text) = Pair::ref_from_prefix(body).map_err(|_| size())?;
                let oldest = pair.second.get();
                check_versions(oldest, version)?;
                if text.len() > TEXT_MAX {
                    return Err(size());
                }
                let text = core::str::from_utf8(text).map_err(|_| MessageError::Text)?;
                if text.chars().any(char::is_control) {
                    return Err(MessageError::Text);
                }
                Ok(Self::Refuse {
                    oldest,
                    newest: version,
                    refusal: Refusal::new(RefusalCode::from_number(pair.first.get()), text),
                })
            }
        }
    }
}

/// Checks that no version is zero and that the range is not empty.
fn check_versions(oldest: u16, newest: u16) -> Result<(), FieldError> {
    if oldest >= 1 && oldest <= newest {
        return Ok(());
    }
    Err(FieldError {
        field: "the oldest version",
        value: oldest.into(),
        possible: "it is at least 1, and not beyond the newest",
        code: RefusalCode::Malformed,
    })
}
