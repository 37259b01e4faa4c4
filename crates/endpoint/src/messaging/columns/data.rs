//! A column in memory.

use super::{Buffer, ColumnError, ColumnHeader, ColumnShape};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The alignment unit of buffers.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u8; 64]);

const _: () = assert!(size_of::<Line>() as u64 == super::BUFFER_ALIGN);

/// A column: its shape, its version, and its buffers in memory that is aligned to
/// [`super::BUFFER_ALIGN`] bytes, each buffer followed by zeros up to a multiple of that.
pub struct ColumnData {
    shape: ColumnShape,
    version: u64,
    lines: Box<[Line]>,
}

/// Why a column could not be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DataError {
    /// The shape contradicts itself, or a buffer's length does not match it.
    #[error(transparent)]
    Shape(#[from] ColumnError),
    /// There is not enough memory.
    #[error("no memory for a column of {bytes} bytes")]
    NoMemory {
        /// Bytes of all buffers.
        bytes: u64,
    },
}

impl ColumnData {
    /// Creates a column from these buffers, which are copied. A buffer that the shape does not have
    /// is empty.
    ///
    /// # Errors
    /// If the shape contradicts itself or the buffers, or there is no memory.
    pub fn new(
        shape: ColumnShape,
        validity: &[u8],
        offsets: &[u8],
        values: &[u8],
    ) -> Result<Self, DataError> {
        shape.check()?;
        for (buffer, bytes) in Buffer::ALL.into_iter().zip([validity, offsets, values]) {
            let (expected, found) = (shape.len_of(buffer), bytes.len() as u64);
            if expected != found {
                return Err(DataError::Shape(ColumnError::BufferLength {
                    buffer,
                    expected,
                    found,
                }));
            }
        }
        let mut data = Self::zeroed(shape, 0)?;
        for (buffer, bytes) in Buffer::ALL.into_iter().zip([validity, offsets, values]) {
            let range = index(shape.range_of(buffer));
            data.bytes_mut()[range].copy_from_slice(bytes);
        }
        data.version = data.content();
        Ok(data)
    }

    /// A zeroed column of this version, to be filled with bytes that are yet to arrive.
    pub(super) fn zeroed(shape: ColumnShape, version: u64) -> Result<Self, DataError> {
        shape.check()?;
        let bytes = shape.bytes();
        let lines = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| <[Line]>::new_box_zeroed_with_elems(bytes / size_of::<Line>()).ok());
        Ok(Self {
            shape,
            version,
            lines: lines.ok_or(DataError::NoMemory { bytes })?,
        })
    }

    /// Its type, rows, nulls and lengths.
    pub fn shape(&self) -> &ColumnShape {
        &self.shape
    }

    /// Its version. It matches the bytes if this node has created or verified them.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version computed from the bytes.
    pub fn content(&self) -> u64 {
        let header = ColumnHeader {
            request: 0,
            version: 0,
            shape: self.shape,
        };
        header.version_of(self.bytes())
    }

    /// One of its buffers, without the zeros behind it. Empty if the column has no such buffer.
    pub fn buffer(&self, buffer: Buffer) -> &[u8] {
        &self.bytes()[index(self.shape.range_of(buffer))]
    }

    /// All buffers, including the zeros behind each.
    pub fn bytes(&self) -> &[u8] {
        self.lines.as_bytes()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.lines.as_mut_bytes()
    }
}

/// Converts a range of bytes that are in memory.
fn index(range: core::ops::Range<u64>) -> core::ops::Range<usize> {
    range.start as usize..range.end as usize
}

impl AsRef<[u8]> for ColumnData {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for ColumnData {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl Eq for ColumnData {}

impl core::fmt::Debug for ColumnData {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ColumnData")
            .field("shape", &self.shape)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
