//! Column data: the messages by which one node requests columns and another one answers
//! (communication tier, sections 1 and 3: a compute node requests columns of a storage node).
//!
//! | message | opcode | content |
//! |---|---|---|
//! | ask | [`ASK`] | [`Ask`]: the column, and the version already known |
//! | ask for the list | [`ASK_LIST`] | [`AskList`] |
//! | column | [`COLUMN`] | [`ColumnHeader`] and the column's buffers |
//! | unchanged | [`UNCHANGED`] | [`Unchanged`]: the known version is still the one served |
//! | list | [`LIST`] | [`ListHeader`] and as many [`ListEntry`] |
//! | refused | [`REFUSED`] | [`Refused`]: the reason for a refusal |
//!
//! All numbers are little-endian. Every message begins with the number of the request that it is or
//! answers, of 32 bits, chosen by the requester; then comes [`LAYOUT`].
//!
//! A column's *buffers* are those of Apache Arrow's columnar format, without offsets into them:
//! *validity* (a bit per row, the least significant first; empty if nothing is null), *offsets* (32
//! bits, one more than rows, the first of them zero; only of texts) and *values*. Each is followed
//! by zeros up to a multiple of [`BUFFER_ALIGN`] bytes, and the header has that many bytes, so that
//! all of them are aligned within the message. Their lengths follow from the type, the rows and the
//! nulls, except for the values of texts; a header with other lengths is invalid
//! ([`ColumnHeader::check`]).
//!
//! The *version* of a column is the checksum of all this ([`Checksum`]): it changes when the column
//! does, and it is the same wherever the column is served.

mod ask;
mod checksum;
mod header;
mod list;
#[cfg(test)]
mod tests;

pub use ask::{
    ASK_HEADER_LEN, ASK_LIST_LEN, Ask, AskList, NAME_MAX, REFUSAL_TEXT_MAX, REFUSED_HEADER_LEN,
    RefusalCode, Refused, UNCHANGED_LEN, Unchanged,
};
pub use checksum::Checksum;
pub use header::{
    BUFFERS, Buffer, COLUMN_HEADER_LEN, ColumnHeader, ColumnShape, DECIMAL_DIGITS_MAX, DataType,
    ROWS_MAX, TEXT_BYTES_MAX,
};
pub use list::{LIST_ENTRY_LEN, LIST_HEADER_LEN, ListEntry, ListHeader, list_entries};

/// Opcode of a message that requests a column.
pub const ASK: u32 = 0x434f_0001;
/// Opcode of a message that requests the list of columns.
pub const ASK_LIST: u32 = 0x434f_0002;
/// Opcode of a message with a column.
pub const COLUMN: u32 = 0x434f_0003;
/// Opcode of a message that reports that a column has not changed.
pub const UNCHANGED: u32 = 0x434f_0004;
/// Opcode of a message with the list of columns.
pub const LIST: u32 = 0x434f_0005;
/// Opcode of a message that refuses a request.
pub const REFUSED: u32 = 0x434f_0006;

/// The number of this layout, in the fifth byte of every message.
pub const LAYOUT: u8 = 1;

/// Maximum length of a message that is neither a column nor a list. Connections with a lower limit
/// on messages cannot be used.
pub const MESSAGE_MIN: u64 = (REFUSED_HEADER_LEN + REFUSAL_TEXT_MAX) as u64;

/// The alignment of a column's buffers, counted from the start of the message.
pub const BUFFER_ALIGN: u64 = 64;

/// Why bytes are not a message about columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ColumnError {
    /// The message's opcode is not valid here.
    #[error("opcode {opcode:#x} does not belong there")]
    Opcode {
        /// The opcode.
        opcode: u32,
    },
    /// The message is too short, or has bytes after its end.
    #[error("a message of {found} bytes; {expected} belong there")]
    Length {
        /// Bytes that it should have, exactly or at least.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// The message has another layout.
    #[error("layout {found} of column data; this side knows {LAYOUT}")]
    Layout {
        /// The layout's number.
        found: u8,
    },
    /// Bits or bytes that must be zero are not.
    #[error("bits that have no meaning are set")]
    StrayBits,
    /// A text is not UTF-8.
    #[error("a name or text is not UTF-8")]
    NotText,
    /// A name has no characters, or too many.
    #[error("a name of {found} bytes; names have 1 to {NAME_MAX}")]
    Name {
        /// Its length in bytes.
        found: usize,
    },
    /// The type does not exist.
    #[error("unknown data type {tag} ({precision}, {scale})")]
    Type {
        /// Its tag.
        tag: u8,
        /// Digits of a decimal.
        precision: u8,
        /// Digits of a decimal after the point.
        scale: i8,
    },
    /// There are more rows than allowed.
    #[error("{found} rows; at most {ROWS_MAX} are possible")]
    Rows {
        /// The rows.
        found: u64,
    },
    /// More rows are null than there are.
    #[error("{nulls} of {rows} rows are null")]
    Nulls {
        /// Rows that are null.
        nulls: u64,
        /// All rows.
        rows: u64,
    },
    /// A buffer's length is not the one that follows from type, rows and nulls.
    #[error("{buffer} has {found} bytes; {expected} belong there")]
    BufferLength {
        /// The buffer.
        buffer: Buffer,
        /// Bytes that it should have; for the values of texts, the maximum.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
}

/// Splits a message into its fixed part and the rest.
fn fixed<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), ColumnError> {
    bytes.split_first_chunk().ok_or(ColumnError::Length {
        expected: N as u64,
        found: bytes.len() as u64,
    })
}

/// The fixed part of a message that has no other part.
fn whole<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], ColumnError> {
    bytes.try_into().map_err(|_| ColumnError::Length {
        expected: N as u64,
        found: bytes.len() as u64,
    })
}

fn check_layout(found: u8) -> Result<(), ColumnError> {
    if found == LAYOUT {
        Ok(())
    } else {
        Err(ColumnError::Layout { found })
    }
}

/// Decodes a valid name: UTF-8, neither empty nor too long.
fn name(bytes: &[u8]) -> Result<&str, ColumnError> {
    if bytes.is_empty() || bytes.len() > NAME_MAX {
        return Err(ColumnError::Name { found: bytes.len() });
    }
    str::from_utf8(bytes).map_err(|_| ColumnError::NotText)
}

/// `N` bytes at `at`. The ranges are constants of the layouts.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&bytes[at..at + N]);
    taken
}
