//! Arrow arrays to columns and back.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer as Bytes, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType as ArrowType};
use core::borrow::Borrow;
use rackweave_endpoint::messaging::columns::{
    Buffer, ColumnData, ColumnError, ColumnShape, DataError, DataType,
};

// Arrow stores numbers in native byte order, columns store them little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

/// Why an array cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// Columns have no corresponding type.
    #[error(
        "an array of {0}; columns are Boolean, Int32, Int64, Float64, Date32, Decimal128 or Utf8"
    )]
    Type(ArrowType),
    /// It has too many rows or bytes, or there is not enough memory.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Why a column cannot be converted to an array.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The number of nulls differs from its header.
    #[error("{found} rows are null, not {said} as the header says")]
    Nulls {
        /// The number in the header.
        said: u64,
        /// The number in the validity bitmap.
        found: u64,
    },
    /// Offsets or texts contradict each other, or values are out of range.
    #[error("no sound array: {0}")]
    Invalid(#[from] ArrowError),
}

/// Converts an array, or a slice of one, to a column. Two arrays of the same values may have
/// different versions if the bytes under their nulls differ.
///
/// # Errors
/// If columns have no corresponding type, or it is too large.
pub fn encode(array: &dyn Array) -> Result<ColumnData, EncodeError> {
    let data_type = match *array.data_type() {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int32 => DataType::Int32,
        ArrowType::Int64 => DataType::Int64,
        ArrowType::Float64 => DataType::Float64,
        ArrowType::Date32 => DataType::Date32,
        ArrowType::Decimal128(precision, scale) => DataType::Decimal128 { precision, scale },
        ArrowType::Utf8 => DataType::Utf8,
        ref other => return Err(EncodeError::Type(other.clone())),
    };
    let rows = array.len();
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = nulls.map(|nulls| bits(nulls.inner()));
    let validity = validity.as_deref().unwrap_or(&[]);
    let null_count = nulls.map_or(0, NullBuffer::null_count) as u64;
    let column = |offsets: &[u8], values: &[u8]| {
        let text_bytes = values.len() as u64;
        let shape = ColumnShape::new(data_type, rows as u64, null_count, text_bytes);
        let shape = shape.map_err(DataError::Shape)?;
        Ok(ColumnData::new(shape, validity, offsets, values)?)
    };
    match data_type {
        DataType::Boolean => column(&[], &bits(array.as_boolean().values())),
        DataType::Int32 => column(&[], values::<Int32Type>(array)),
        DataType::Int64 => column(&[], values::<Int64Type>(array)),
        DataType::Float64 => column(&[], values::<Float64Type>(array)),
        DataType::Date32 => column(&[], values::<Date32Type>(array)),
        DataType::Decimal128 { .. } => column(&[], values::<Decimal128Type>(array)),
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            let offsets = texts.value_offsets();
            // The offsets of a slice do not begin at zero.
            let (first, last) = (offsets[0], offsets[rows]);
            let moved = offsets.iter().flat_map(|at| (at - first).to_le_bytes());
            let moved: Vec<u8> = moved.collect();
            column(&moved, &texts.value_data()[first as usize..last as usize])
        }
    }
}

/// The bytes of an array's values.
fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> &[u8] {
    let array = array.as_primitive::<T>();
    let bytes = array.values().inner().as_slice();
    &bytes[..size_of_val::<[T::Native]>(array.values())]
}

/// Bits from the first byte on, padded with zeros.
fn bits(bits: &BooleanBuffer) -> Vec<u8> {
    let mut bytes = bits.sliced().as_slice()[..bits.len().div_ceil(8)].to_vec();
    if let (Some(last), used @ 1..) = (bytes.last_mut(), bits.len() % 8) {
        *last &= 0xff >> (8 - used);
    }
    bytes
}

/// The Arrow type of a column type.
pub const fn arrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Boolean => ArrowType::Boolean,
        DataType::Int32 => ArrowType::Int32,
        DataType::Int64 => ArrowType::Int64,
        DataType::Float64 => ArrowType::Float64,
        DataType::Date32 => ArrowType::Date32,
        DataType::Decimal128 { precision, scale } => ArrowType::Decimal128(precision, scale),
        DataType::Utf8 => ArrowType::Utf8,
    }
}

/// Converts a column to an array without copying it: `column` is a [`ColumnData`] or a
/// [`Pinned`](rackweave_endpoint::messaging::columns::Pinned) of a cache, and is held for as long
/// as the array lives. Everything is checked: offsets, texts, and the number of null rows.
///
/// # Errors
/// If the bytes are not a valid array.
pub fn array<C>(column: C) -> Result<ArrayRef, DecodeError>
where
    C: Borrow<ColumnData> + AsRef<[u8]> + Send + 'static,
{
    let shape = *column.borrow().shape();
    let bytes = Bytes::from(bytes::Bytes::from_owner(column));
    let buffer = |buffer: Buffer| {
        let range = shape.range_of(buffer);
        bytes.slice_with_length(range.start as usize, shape.len_of(buffer) as usize)
    };
    let rows = shape.rows as usize;
    let nulls = (shape.nulls > 0).then(|| {
        let bits = BooleanBuffer::new(buffer(Buffer::Validity), 0, rows);
        NullBuffer::new(bits)
    });
    let found = nulls.as_ref().map_or(0, NullBuffer::null_count) as u64;
    if found != shape.nulls {
        let said = shape.nulls;
        return Err(DecodeError::Nulls { said, found });
    }
    let mut builder = ArrayDataBuilder::new(arrow_type(shape.data_type))
        .len(rows)
        .nulls(nulls);
    if shape.data_type == DataType::Utf8 {
        builder = builder.add_buffer(buffer(Buffer::Offsets));
    }
    let data = builder.add_buffer(buffer(Buffer::Values)).build()?;
    Ok(make_array(data))
}

impl From<ColumnError> for EncodeError {
    fn from(error: ColumnError) -> Self {
        Self::Data(error.into())
    }
}
