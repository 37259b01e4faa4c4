//! Arrow arrays as columns of a catalogue, and back.
//!
//! Columns carry texts with offsets. A table presents them as the type that its schema says:
//! `Utf8View`, which is what `DataFusion` reads from Parquet files, is made of them without a copy
//! of the bytes.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use rackweave::columns::{ColumnData, DataType as ColumnType};
use rackweave_workload::columns::{DecodeError, EncodeError, array, encode};

/// The type in which a column of this type is carried.
pub(super) fn carried(data_type: &DataType) -> Option<ColumnType> {
    Some(match data_type {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::Float64 => ColumnType::Float64,
        DataType::Date32 => ColumnType::Date32,
        DataType::Decimal128(precision, scale) => ColumnType::Decimal128 {
            precision: *precision,
            scale: *scale,
        },
        DataType::Utf8 | DataType::Utf8View => ColumnType::Utf8,
        _ => return None,
    })
}

/// An array as a column.
pub(super) fn to_column(array: &ArrayRef) -> Result<ColumnData, EncodeError> {
    if array.data_type() == &DataType::Utf8View {
        let texts = cast(array, &DataType::Utf8);
        // Only more than 2 GiB of texts can't be cast.
        return match texts {
            Ok(texts) => encode(&texts),
            Err(_) => Err(EncodeError::Type(DataType::Utf8View)),
        };
    }
    encode(array)
}

/// A column as an array of the type that the table's schema has. The memory of the column is that
/// of the array.
pub(super) fn to_array(column: ColumnData, data_type: &DataType) -> Result<ArrayRef, DecodeError> {
    let array = array(column)?;
    Ok(match data_type {
        DataType::Utf8View => Arc::new(StringViewArray::from(array.as_string::<i32>())),
        _ => array,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Int64Array, StringArray};

    fn check(array: ArrayRef) {
        let column = to_column(&array).unwrap();
        assert_eq!(Some(column.shape().data_type), carried(array.data_type()));
        let back = to_array(column, array.data_type()).unwrap();
        assert_eq!(&back, &array);
    }

    #[test]
    fn arrays_come_back() {
        let texts = [Some("a"), None, Some("a text of more than twelve bytes")];
        check(Arc::new(StringViewArray::from_iter(texts)));
        check(Arc::new(StringArray::from_iter(texts)));
        check(Arc::new(Int64Array::from(vec![Some(1), None, Some(-1)])));
        let decimals = Decimal128Array::from(vec![1, -20, 300]);
        check(Arc::new(decimals.with_precision_and_scale(15, 2).unwrap()));
        check(Arc::new(StringViewArray::from_iter([None::<&str>; 0])));
    }

    #[test]
    fn other_types_are_not_carried() {
        assert_eq!(carried(&DataType::UInt8), None);
        assert_eq!(carried(&DataType::new_list(DataType::Int32, true)), None);
    }
}
