//! Requests, and the answers without data.

use super::{ColumnError, LAYOUT, check_layout, fixed, name, take, whole};
use core::fmt;

/// Maximum length of the name of a column, in bytes.
pub const NAME_MAX: usize = 255;
/// Bytes of a request before the name.
pub const ASK_HEADER_LEN: usize = 16;
/// Bytes of a request for the list.
pub const ASK_LIST_LEN: usize = 8;
/// Bytes of the answer that a column has not changed.
pub const UNCHANGED_LEN: usize = 16;
/// Bytes of a refusal before the text.
pub const REFUSED_HEADER_LEN: usize = 8;
/// Maximum length of the text of a refusal, in bytes.
pub const REFUSAL_TEXT_MAX: usize = 1024;

/// The requester has the version in the request.
const FLAG_KNOWN: u8 = 1;

/// A request for a column.
///
/// | at | bytes | content |
/// |---|---|---|
/// | 0 | 4 | the request's number |
/// | 4 | 1 | [`LAYOUT`] |
/// | 5 | 1 | 1: a version is known already; otherwise zero |
/// | 6 | 1 | bytes of the name |
/// | 7 | 1 | zero |
/// | 8 | 8 | the known version, or zero |
/// | 16 | | the name, in UTF-8 |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<'a> {
    /// The request's number.
    pub request: u32,
    /// The version that the requester has already.
    pub known: Option<u64>,
    /// The column's name.
    pub name: &'a str,
}

impl<'a> Ask<'a> {
    /// Appends the message.
    ///
    /// # Errors
    /// If the name is empty or too long.
    pub fn emit(&self, to: &mut Vec<u8>) -> Result<(), ColumnError> {
        name(self.name.as_bytes())?;
        to.extend_from_slice(&self.request.to_le_bytes());
        let flags = if self.known.is_some() { FLAG_KNOWN } else { 0 };
        to.extend_from_slice(&[LAYOUT, flags, self.name.len() as u8, 0]);
        to.extend_from_slice(&self.known.unwrap_or(0).to_le_bytes());
        to.extend_from_slice(self.name.as_bytes());
        Ok(())
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// If the bytes are not a request.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ColumnError> {
        let (fixed, rest) = fixed::<ASK_HEADER_LEN>(bytes)?;
        check_layout(fixed[4])?;
        let expected = ASK_HEADER_LEN + usize::from(fixed[6]);
        if bytes.len() != expected {
            return Err(ColumnError::Length {
                expected: expected as u64,
                found: bytes.len() as u64,
            });
        }
        let version = u64::from_le_bytes(take(fixed, 8));
        let known = match fixed[5] {
            FLAG_KNOWN => Some(version),
            0 if version == 0 => None,
            _ => return Err(ColumnError::StrayBits),
        };
        if fixed[7] != 0 {
            return Err(ColumnError::StrayBits);
        }
        Ok(Self {
            request: u32::from_le_bytes(take(fixed, 0)),
            known,
            name: name(rest)?,
        })
    }
}

/// A request for the list of columns: its number, [`LAYOUT`], three bytes of zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskList {
    /// The request's number.
    pub request: u32,
}

impl AskList {
    /// The message's bytes.
    pub fn emit(&self) -> [u8; ASK_LIST_LEN] {
        let mut bytes = [0; ASK_LIST_LEN];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4] = LAYOUT;
        bytes
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// If the bytes are not a request.
    pub fn parse(bytes: &[u8]) -> Result<Self, ColumnError> {
        let bytes = whole::<ASK_LIST_LEN>(bytes)?;
        check_layout(bytes[4])?;
        if bytes[5..] != [0; 3] {
            return Err(ColumnError::StrayBits);
        }
        Ok(Self {
            request: u32::from_le_bytes(take(bytes, 0)),
        })
    }
}

/// The answer that a column still has the known version: the request's number, [`LAYOUT`], three
/// bytes of zero, the version of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unchanged {
    /// The request that it answers.
    pub request: u32,
    /// The version.
    pub version: u64,
}

impl Unchanged {
    /// The message's bytes.
    pub fn emit(&self) -> [u8; UNCHANGED_LEN] {
        let mut bytes = [0; UNCHANGED_LEN];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4] = LAYOUT;
        bytes[8..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// If the bytes are not such an answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, ColumnError> {
        let bytes = whole::<UNCHANGED_LEN>(bytes)?;
        check_layout(bytes[4])?;
        if bytes[5..8] != [0; 3] {
            return Err(ColumnError::StrayBits);
        }
        Ok(Self {
            request: u32::from_le_bytes(take(bytes, 0)),
            version: u64::from_le_bytes(take(bytes, 8)),
        })
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RefusalCode(pub u16);

impl RefusalCode {
    /// No column has this name.
    pub const UNKNOWN_COLUMN: Self = Self(1);
    /// The answer would be longer than the limit for messages of the connection.
    pub const TOO_LONG: Self = Self(2);
    /// The storage node could not make the column's memory available to the connection.
    pub const NO_MEMORY: Self = Self(3);
    /// The storage node is shutting down.
    pub const STOPS: Self = Self(4);
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNKNOWN_COLUMN => f.write_str("there is no such column"),
            Self::TOO_LONG => f.write_str("the answer is longer than messages may be"),
            Self::NO_MEMORY => f.write_str("the column's memory could not be registered"),
            Self::STOPS => f.write_str("the storage node stops"),
            Self(code) => write!(f, "refusal {code}"),
        }
    }
}

/// A refusal: the request's number, [`LAYOUT`], a byte of zero, the code of 16 bits, and a text for
/// people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused<'a> {
    /// The request that it answers.
    pub request: u32,
    /// The reason.
    pub code: RefusalCode,
    /// The error and the remedy; up to [`REFUSAL_TEXT_MAX`] bytes.
    pub text: &'a str,
}

impl<'a> Refused<'a> {
    /// Appends the message. A text that is too long is truncated between characters.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let mut end = self.text.len().min(REFUSAL_TEXT_MAX);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        to.extend_from_slice(&self.request.to_le_bytes());
        to.extend_from_slice(&[LAYOUT, 0]);
        to.extend_from_slice(&self.code.0.to_le_bytes());
        to.extend_from_slice(&self.text.as_bytes()[..end]);
    }

    /// Decodes a refusal.
    ///
    /// # Errors
    /// If the bytes are not a refusal.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ColumnError> {
        let (fixed, rest) = fixed::<REFUSED_HEADER_LEN>(bytes)?;
        check_layout(fixed[4])?;
        if fixed[5] != 0 {
            return Err(ColumnError::StrayBits);
        }
        if rest.len() > REFUSAL_TEXT_MAX {
            return Err(ColumnError::Length {
                expected: (REFUSED_HEADER_LEN + REFUSAL_TEXT_MAX) as u64,
                found: bytes.len() as u64,
            });
        }
        Ok(Self {
            request: u32::from_le_bytes(take(fixed, 0)),
            code: RefusalCode(u16::from_le_bytes(take(fixed, 6))),
            text: str::from_utf8(rest).map_err(|_| ColumnError::NotText)?,
        })
    }
}
