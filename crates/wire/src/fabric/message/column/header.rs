//! A column's type, shape and header.

use super::{BUFFER_ALIGN, Checksum, ColumnError, LAYOUT, check_layout, take, whole};
use core::fmt;
use core::ops::Range;

/// Bytes of a column's header.
pub const COLUMN_HEADER_LEN: usize = 64;
/// Buffers of a column; those that a type does not have are empty.
pub const BUFFERS: usize = 3;
/// Maximum digits of a decimal.
pub const DECIMAL_DIGITS_MAX: u8 = 38;
/// Maximum rows of a column, such that every length of a buffer fits 64 bits.
pub const ROWS_MAX: u64 = 1 << 48;
/// Maximum bytes of all texts of a column, because offsets have 31 bits.
pub const TEXT_BYTES_MAX: u64 = i32::MAX as u64;

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    /// A bit each, packed like validity.
    Boolean,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// IEEE 754 binary64.
    Float64,
    /// Days since 1970-01-01, 32 bits, signed.
    Date32,
    /// 128 bits, signed: the value times ten to the power of `scale`.
    Decimal128 {
        /// Decimal digits, 1 to [`DECIMAL_DIGITS_MAX`].
        precision: u8,
        /// Digits after the decimal point, up to `precision`; negative: zeros before it.
        scale: i8,
    },
    /// Texts in UTF-8, one after the other; offsets give the start and end of each.
    Utf8,
}

impl DataType {
    /// Bytes of a type on the wire: tag, precision, scale, zero.
    pub const LEN: usize = 4;

    /// Bytes of one value, or `None` if values are bits or texts.
    pub const fn width(self) -> Option<u64> {
        match self {
            Self::Boolean | Self::Utf8 => None,
            Self::Int32 | Self::Date32 => Some(4),
            Self::Int64 | Self::Float64 => Some(8),
            Self::Decimal128 { .. } => Some(16),
        }
    }

    /// Encodes the type.
    pub const fn emit(self) -> [u8; Self::LEN] {
        match self {
            Self::Boolean => [1, 0, 0, 0],
            Self::Int32 => [2, 0, 0, 0],
            Self::Int64 => [3, 0, 0, 0],
            Self::Float64 => [4, 0, 0, 0],
            Self::Date32 => [5, 0, 0, 0],
            Self::Decimal128 { precision, scale } => [6, precision, scale as u8, 0],
            Self::Utf8 => [7, 0, 0, 0],
        }
    }

    /// Decodes a type.
    ///
    /// # Errors
    /// If the bytes are not a type.
    pub const fn parse(bytes: [u8; Self::LEN]) -> Result<Self, ColumnError> {
        let (precision, scale) = (bytes[1], bytes[2] as i8);
        Ok(match bytes {
            [1, 0, 0, 0] => Self::Boolean,
            [2, 0, 0, 0] => Self::Int32,
            [3, 0, 0, 0] => Self::Int64,
            [4, 0, 0, 0] => Self::Float64,
            [5, 0, 0, 0] => Self::Date32,
            [6, 1..=DECIMAL_DIGITS_MAX, _, 0]
                if scale <= precision as i8 && scale >= -(DECIMAL_DIGITS_MAX as i8) =>
            {
                Self::Decimal128 { precision, scale }
            }
            [7, 0, 0, 0] => Self::Utf8,
            [tag, ..] => {
                return Err(ColumnError::Type {
                    tag,
                    precision,
                    scale,
                });
            }
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Float64 => f.write_str("float64"),
            Self::Date32 => f.write_str("date32"),
            Self::Decimal128 { precision, scale } => write!(f, "decimal128({precision},{scale})"),
            Self::Utf8 => f.write_str("utf8"),
        }
    }
}

/// One of a column's buffers, in the order of the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(usize)]
pub enum Buffer {
    /// The rows that are not null.
    Validity = 0,
    /// The start and end of texts.
    Offsets = 1,
    /// The values.
    Values = 2,
}

impl Buffer {
    /// All buffers, in the order of the message.
    pub const ALL: [Self; BUFFERS] = [Self::Validity, Self::Offsets, Self::Values];
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validity => "the validity buffer",
            Self::Offsets => "the buffer of offsets",
            Self::Values => "the buffer of values",
        })
    }
}

/// The type and the lengths of a column, without its contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ColumnShape {
    /// The type of its values.
    pub data_type: DataType,
    /// Number of rows, including nulls.
    pub rows: u64,
    /// Number of rows that are null.
    pub nulls: u64,
    /// Bytes of its buffers, without the zeros after them. See [`Buffer`].
    pub lengths: [u64; BUFFERS],
}

impl ColumnShape {
    /// The shape of a column. `text_bytes` counts for texts only.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(
        data_type: DataType,
        rows: u64,
        nulls: u64,
        text_bytes: u64,
    ) -> Result<Self, ColumnError> {
        // Before anything is multiplied.
        if rows > ROWS_MAX {
            return Err(ColumnError::Rows { found: rows });
        }
        let values = match data_type {
            DataType::Boolean => rows.div_ceil(8),
            DataType::Utf8 => text_bytes,
            _ => rows * data_type.width().unwrap_or(0),
        };
        let shape = Self {
            data_type,
            rows,
            nulls,
            lengths: [
                validity_len(rows, nulls),
                offsets_len(data_type, rows),
                values,
            ],
        };
        shape.check()?;
        Ok(shape)
    }

    /// Checks that all lengths follow from type, rows and nulls.
    ///
    /// # Errors
    /// The first length that does not.
    pub fn check(&self) -> Result<(), ColumnError> {
        let Self {
            data_type,
            rows,
            nulls,
            lengths,
        } = *self;
        DataType::parse(data_type.emit())?;
        if rows > ROWS_MAX {
            return Err(ColumnError::Rows { found: rows });
        }
        if nulls > rows {
            return Err(ColumnError::Nulls { nulls, rows });
        }
        let values = match data_type {
            DataType::Boolean => rows.div_ceil(8),
            DataType::Utf8 if rows == 0 => 0,
            DataType::Utf8 => lengths[2].min(TEXT_BYTES_MAX),
            _ => rows * data_type.width().unwrap_or(0),
        };
        let expected = [
            validity_len(rows, nulls),
            offsets_len(data_type, rows),
            values,
        ];
        for buffer in Buffer::ALL {
            let (expected, found) = (expected[buffer as usize], lengths[buffer as usize]);
            if expected != found {
                return Err(ColumnError::BufferLength {
                    buffer,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Bytes of a buffer, without the zeros after it.
    pub const fn len_of(&self, buffer: Buffer) -> u64 {
        self.lengths[buffer as usize]
    }

    /// The byte range of a buffer after the header, without the zeros after the buffer.
    pub fn range_of(&self, buffer: Buffer) -> Range<u64> {
        let before = self.lengths[..buffer as usize].iter();
        let start = before
            .map(|length| length.next_multiple_of(BUFFER_ALIGN))
            .sum();
        start..start + self.len_of(buffer)
    }

    /// Bytes of all buffers with the zeros after them.
    pub fn bytes(&self) -> u64 {
        self.lengths
            .iter()
            .map(|length| length.next_multiple_of(BUFFER_ALIGN))
            .sum()
    }
}

fn validity_len(rows: u64, nulls: u64) -> u64 {
    if nulls == 0 { 0 } else { rows.div_ceil(8) }
}

fn offsets_len(data_type: DataType, rows: u64) -> u64 {
    match data_type {
        DataType::Utf8 => (rows + 1) * 4,
        _ => 0,
    }
}

/// The header of a column.
///
/// | at | bytes | content |
/// |---|---|---|
/// | 0 | 4 | the request's number |
/// | 4 | 1 | [`LAYOUT`] |
/// | 5 | 3 | zero |
/// | 8 | 4 | type: tag, precision, scale, zero |
/// | 12 | 4 | zero |
/// | 16 | 8 | rows |
/// | 24 | 8 | rows that are null |
/// | 32 | 8 | version |
/// | 40 | 3 × 8 | bytes of validity, offsets, values |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnHeader {
    /// The request that it answers.
    pub request: u32,
    /// The column's version: its [`Checksum`].
    pub version: u64,
    /// The column's shape.
    pub shape: ColumnShape,
}

impl ColumnHeader {
    /// The header's bytes.
    pub fn emit(&self) -> [u8; COLUMN_HEADER_LEN] {
        let mut bytes = [0; COLUMN_HEADER_LEN];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4] = LAYOUT;
        bytes[8..12].copy_from_slice(&self.shape.data_type.emit());
        bytes[16..24].copy_from_slice(&self.shape.rows.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.shape.nulls.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.version.to_le_bytes());
        for (to, length) in bytes[40..].chunks_exact_mut(8).zip(self.shape.lengths) {
            to.copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }

    /// Decodes a header that is free of contradictions.
    ///
    /// # Errors
    /// If the bytes are not such a header.
    pub fn parse(bytes: &[u8]) -> Result<Self, ColumnError> {
        let bytes: &[u8; COLUMN_HEADER_LEN] = whole(bytes)?;
        check_layout(bytes[4])?;
        if bytes[5..8]
            .iter()
            .chain(&bytes[12..16])
            .any(|&byte| byte != 0)
        {
            return Err(ColumnError::StrayBits);
        }
        let number = |at| u64::from_le_bytes(take(bytes, at));
        let shape = ColumnShape {
            data_type: DataType::parse(take(bytes, 8))?,
            rows: number(16),
            nulls: number(24),
            lengths: [number(40), number(48), number(56)],
        };
        shape.check()?;
        Ok(Self {
            request: u32::from_le_bytes(take(bytes, 0)),
            version: number(32),
            shape,
        })
    }

    /// Bytes of the whole message.
    pub fn total(&self) -> u64 {
        COLUMN_HEADER_LEN as u64 + self.shape.bytes()
    }

    /// Checks that the header matches the length of a message.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn check(&self, total: u64) -> Result<(), ColumnError> {
        self.shape.check()?;
        let expected = self.total();
        if expected == total {
            Ok(())
        } else {
            Err(ColumnError::Length {
                expected,
                found: total,
            })
        }
    }

    /// The version of a column with these buffers, including the zeros after them.
    pub fn version_of(&self, buffers: &[u8]) -> u64 {
        let mut sum = Checksum::new(self);
        sum.update(buffers);
        sum.finish()
    }
}
