//! Bytes that are no message, and how that is said.

use super::{HEADER_LEN, Kind, MESSAGE_MAX, RefusalCode, VERSION, VERSION_OLDEST};
use core::fmt;
use rackweave_base::MacAddr;
use std::net::Ipv4Addr;

/// The first bytes of something foreign, for those who look for what it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstBytes {
    bytes: [u8; Self::MAX],
    len: u8,
}

/// A field that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} is {value}; {possible}")]
pub struct FieldError {
    /// Which field.
    pub field: &'static str,
    /// What it is.
    pub value: u64,
    /// What is possible.
    pub possible: &'static str,
    /// The code to refuse it with.
    pub code: RefusalCode,
}

/// Bytes that are no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// They are of another protocol.
    #[error("it does not speak Rackweave messaging: it sends {0}")]
    Foreign(FirstBytes),
    /// The length cannot be.
    #[error("a message of {length} bytes; {HEADER_LEN} to {MESSAGE_MAX} are possible")]
    Length {
        /// Bytes that the message claims to have, its length included.
        length: u64,
    },
    /// There is no such kind.
    #[error("there is no message of kind {found}")]
    Kind {
        /// The kind it claims to be.
        found: u16,
    },
    /// Its kind has another length.
    #[error("{kind} of {length} bytes: too short, or with bytes behind its end")]
    Size {
        /// What it is.
        kind: Kind,
        /// Bytes of it.
        length: usize,
    },
    /// The sender of a Hello speaks none of our versions.
    #[error(
        "it speaks versions {oldest} to {newest}, this unit {VERSION_OLDEST} to {VERSION}; \
         upgrade the older one"
    )]
    NoCommonVersion {
        /// The oldest version that it speaks.
        oldest: u16,
        /// The newest version that it speaks.
        newest: u16,
    },
    /// It is of a version that was not asked for.
    #[error("{kind} of version {found}; this unit speaks {VERSION_OLDEST} to {VERSION}")]
    Version {
        /// What it is.
        kind: Kind,
        /// The version that it is of.
        found: u16,
    },
    /// A field is out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// No unit can have these addresses.
    #[error("{ip} with {mac} cannot be the addresses of a unit")]
    Address {
        /// The IP address.
        ip: Ipv4Addr,
        /// The Ethernet address.
        mac: MacAddr,
    },
    /// A byte that must be zero is not.
    #[error("{kind} has a byte set that must be zero")]
    Reserved {
        /// What it is.
        kind: Kind,
    },
    /// The text of a Refuse is no text.
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
    /// So many are shown at most.
    pub const MAX: usize = 16;

    /// The first of these.
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
