//! The list of columns.

use super::header::{ColumnShape, DataType};
use super::{ColumnError, LAYOUT, check_layout, fixed, name, take};

/// Bytes of a list before its entries.
pub const LIST_HEADER_LEN: usize = 16;
/// Bytes of an entry before the name.
pub const LIST_ENTRY_LEN: usize = 40;

/// The head of a list: the request's number, [`LAYOUT`], three bytes of zero, the number of entries
/// of 64 bits. The entries follow without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListHeader {
    /// The request that it answers.
    pub request: u32,
    /// Number of entries that follow.
    pub count: u64,
}

impl ListHeader {
    /// The header's bytes.
    pub fn emit(&self) -> [u8; LIST_HEADER_LEN] {
        let mut bytes = [0; LIST_HEADER_LEN];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4] = LAYOUT;
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// Decodes the header at the start of the bytes; also returns the rest.
    ///
    /// # Errors
    /// If the bytes do not begin with a header.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ColumnError> {
        let (fixed, rest) = fixed::<LIST_HEADER_LEN>(bytes)?;
        check_layout(fixed[4])?;
        if fixed[5..8] != [0; 3] {
            return Err(ColumnError::StrayBits);
        }
        let header = Self {
            request: u32::from_le_bytes(take(fixed, 0)),
            count: u64::from_le_bytes(take(fixed, 8)),
        };
        Ok((header, rest))
    }
}

/// An entry of a list.
///
/// | at | bytes | content |
/// |---|---|---|
/// | 0 | 4 | type: tag, precision, scale, zero |
/// | 4 | 1 | bytes of the name |
/// | 5 | 3 | zero |
/// | 8 | 8 | rows |
/// | 16 | 8 | rows that are null |
/// | 24 | 8 | version |
/// | 32 | 8 | bytes of all texts; zero if the values are not texts |
/// | 40 | | the name, in UTF-8 |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListEntry<'a> {
    /// The column's name.
    pub name: &'a str,
    /// Its version.
    pub version: u64,
    /// The column's shape.
    pub shape: ColumnShape,
}

impl<'a> ListEntry<'a> {
    /// Appends the entry.
    ///
    /// # Errors
    /// If the name is empty or too long.
    pub fn emit(&self, to: &mut Vec<u8>) -> Result<(), ColumnError> {
        name(self.name.as_bytes())?;
        let shape = &self.shape;
        to.extend_from_slice(&shape.data_type.emit());
        to.extend_from_slice(&[self.name.len() as u8, 0, 0, 0]);
        for number in [shape.rows, shape.nulls, self.version, text_bytes(shape)] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        to.extend_from_slice(self.name.as_bytes());
        Ok(())
    }

    /// Decodes the entry at the start of the bytes; also returns the rest.
    ///
    /// # Errors
    /// If the bytes do not begin with an entry.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ColumnError> {
        let (fixed, rest) = fixed::<LIST_ENTRY_LEN>(bytes)?;
        if fixed[5..8] != [0; 3] {
            return Err(ColumnError::StrayBits);
        }
        let name_len = usize::from(fixed[4]);
        let (named, rest) = rest.split_at_checked(name_len).ok_or(ColumnError::Length {
            expected: (LIST_ENTRY_LEN + name_len) as u64,
            found: bytes.len() as u64,
        })?;
        let number = |at| u64::from_le_bytes(take(fixed, at));
        let data_type = DataType::parse(take(fixed, 0))?;
        let shape = ColumnShape::new(data_type, number(8), number(16), number(32))?;
        if text_bytes(&shape) != number(32) {
            return Err(ColumnError::StrayBits);
        }
        let entry = Self {
            name: name(named)?,
            version: number(24),
            shape,
        };
        Ok((entry, rest))
    }
}

fn text_bytes(shape: &ColumnShape) -> u64 {
    match shape.data_type {
        DataType::Utf8 => shape.lengths[2],
        _ => 0,
    }
}

/// Decodes a list.
///
/// # Errors
/// If the list or an entry is invalid, or there are bytes after the last entry.
pub fn list_entries(bytes: &[u8]) -> Result<(u32, Vec<ListEntry<'_>>), ColumnError> {
    let (header, mut rest) = ListHeader::parse(bytes)?;
    // The count is trusted only as far as bytes follow.
    let mut entries = Vec::new();
    for _ in 0..header.count {
        let (entry, after) = ListEntry::parse(rest)?;
        entries.push(entry);
        rest = after;
    }
    if rest.is_empty() {
        Ok((header.request, entries))
    } else {
        Err(ColumnError::Length {
            expected: (bytes.len() - rest.len()) as u64,
            found: bytes.len() as u64,
        })
    }
}
