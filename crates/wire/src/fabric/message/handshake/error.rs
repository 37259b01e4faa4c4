//! Errors for bytes that are not a message.

use super::{HEADER_LEN, Kind, MESSAGE_MAX, RefusalCode, VERSION, VERSION_OLDEST};
use core::fmt;
use rackweave_base::MacAddr;
use std::net::Ipv4Addr;

/// The first bytes of foreign data, for diagnosis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstBytes {
    bytes: [u8; Self::MAX],
    len: u8,
}

/// A field that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} is {value}; {possible}")]
pub struct FieldError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: u64,
    /// The allowed values.
    pub possible: &'static str,
    /// The code to refuse it with.
    pub code: RefusalCode,
}

/// Why bytes are not a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The bytes are of another protocol.
    #[error("it does not speak Rackweave messaging: it sends {0}")]
    Foreign(FirstBytes),
    /// The length is not possible.
    #[error("a message of {length} bytes; {HEADER_LEN} to {MESSAGE_MAX} are possible")]
    Length {
        /// Bytes that the message claims to have, its length included.
        length: u64,
    },
    /// The kind does not exist.
    #[error("there is no message of kind {found}")]
    Kind {
        /// The number of the kind.
        found: u16,
    },
    /// The length is not that of its kind.
    #[error("{kind} of {length} bytes: too short, or with bytes behind its end")]
    Size {
        /// The kind of the message.
        kind: Kind,
        /// Its length in bytes.
        length: usize,
    },
    /// The sender of a Hello supports none of this node's versions.
    #[error(
        "it speaks versions {oldest} to {newest}, this node {VERSION_OLDEST} to {VERSION}; \
         upgrade the older one"
    )]
    NoCommonVersion {
        /// The oldest version that it supports.
        oldest: u16,
        /// The newest version that it supports.
        newest: u16,
    },
    /// The message has a version that was not requested.
    #[error("{kind} of version {found}; this node speaks {VERSION_OLDEST} to {VERSION}")]
    Version {
        /// The kind of the message.
        kind: Kind,
        /// Its version.
        found: u16,
    },
    /// A field is out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The addresses are not valid for a node.
    #[error("{ip} with {mac} cannot be the addresses of a node")]
    Address {
        /// The IP address.
        ip: Ipv4Addr,
        /// The Ethernet address.
        mac: MacAddr,
    },
    /// A byte that must be zero is not zero.
    #[error("{kind} has a byte set that must be zero")]
    Reserved {
        /// The kind of the message.
        kind: Kind,
    },
    /// The text of a Refuse is not valid.
    #[error("the text of a Refuse is not UTF-8, or has control characters")]
    Text,
}

impl MessageError {
    /// The code to refuse such bytes with.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Foreign(_) => RefusalCode::NotSpoken,
            Self::NoCommonVersion { .. } | Self::Version { .. } => RefusalCode::Version,
            Self::Field(error) => error.code,
            Self::Address { .. } => RefusalCode::Address,
            Self::Length { .. }
            | Self::Kind { .. }
            | Self::Size { .. }
            | Self::Reserved { .. }
            | Self::Text => RefusalCode::Malformed,
        }
    }
}

impl FirstBytes {
    /// Maximum number of bytes shown.
    pub const MAX: usize = 16;

    /// The first of these bytes.
    pub fn of(all: &[u8]) -> Self {
        let len = all.len().min(Self::MAX);
        let mut bytes = [0; Self::MAX];
        bytes[..len].copy_from_slice(&all[..len]);
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.bytes().escape_ascii())
    }
}
