//! Sums of columns: from memory, in place in receive buffers, and their expected values.

use super::tpch::{UnknownColumn, tpch_column};
use crate::tpch::{LineitemRow, OrderRow, Part, ScaleFactor, lineitem_rows, order_rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::DataType as ArrowType;
use rackweave_endpoint::messaging::columns::{Buffer, ColumnPiece, DataType, PieceReader};

/// Values of this type cannot be added exactly.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a column of {0} has no exact sum; integers, dates and decimals have")]
pub struct SumError(pub String);

/// The exact sum of an array's values that are not null: of dates in days, of decimals in units of
/// their last digit. Results beyond 128 bits wrap.
///
/// # Errors
/// If it does not hold integers, dates or decimals.
pub fn sum(array: &dyn Array) -> Result<i128, SumError> {
    match array.data_type() {
        ArrowType::Int32 => Ok(total(array.as_primitive::<Int32Type>())),
        ArrowType::Int64 => Ok(total(array.as_primitive::<Int64Type>())),
        ArrowType::Date32 => Ok(total(array.as_primitive::<Date32Type>())),
        ArrowType::Decimal128(..) => Ok(total(array.as_primitive::<Decimal128Type>())),
        other => Err(SumError(other.to_string())),
    }
}

fn total<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &PrimitiveArray<T>) -> i128 {
    if array.null_count() == 0 {
        let values = array.values().iter();
        return values.fold(0i128, |sum, &value| sum.wrapping_add(value.into()));
    }
    let values = array.iter().flatten();
    values.fold(0i128, |sum, value| sum.wrapping_add(value.into()))
}

/// Adds up columns in place in receive buffers. Only the validity is stored.
#[derive(Debug, Default)]
pub struct PieceSum {
    sum: i128,
    values: u64,
    validity: Vec<u8>,
    /// The beginning of a value whose end is in the next piece.
    carry: Vec<u8>,
    error: Option<SumError>,
}

impl PieceSum {
    /// The sum of one column and the number of its values; then it starts over. To be called when
    /// the column has been passed in to its end.
    ///
    /// # Errors
    /// If it did not hold integers, dates or decimals.
    pub fn take(&mut self) -> Result<(i128, u64), SumError> {
        let done = core::mem::take(self);
        match done.error {
            None => Ok((done.sum, done.values)),
            Some(error) => Err(error),
        }
    }

    fn add(&mut self, row: u64, value: i128) {
        let bit = self.validity.get((row / 8) as usize);
        if bit.is_none_or(|bits| bits >> (row % 8) & 1 == 1) {
            self.sum = self.sum.wrapping_add(value);
            self.values += 1;
        }
    }

    fn add_all<const N: usize>(&mut self, at: u64, mut bytes: &[u8], value: fn([u8; N]) -> i128) {
        let mut row = at / N as u64;
        if !self.carry.is_empty() {
            let missing = bytes.len().min(N - self.carry.len());
            self.carry.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            let Ok(whole) = self.carry[..].try_into() else {
                return;
            };
            self.carry.clear();
            self.add(row, value(whole));
            row += 1;
        }
        let (whole, rest) = bytes.as_chunks::<N>();
        if self.validity.is_empty() {
            let values = whole.iter().map(|&bytes| value(bytes));
            self.sum = values.fold(self.sum, i128::wrapping_add);
            self.values += whole.len() as u64;
        } else {
            for &bytes in whole {
                self.add(row, value(bytes));
                row += 1;
            }
        }
        self.carry.extend_from_slice(rest);
    }
}

impl PieceReader for PieceSum {
    fn piece(&mut self, piece: &ColumnPiece<'_>) {
        if let Some((_, bytes)) = piece.part_of(Buffer::Validity) {
            self.validity.extend_from_slice(bytes);
        }
        let data_type = piece.header.shape.data_type;
        let (at, bytes) = piece.part_of(Buffer::Values).unwrap_or_default();
        match data_type {
            DataType::Int32 | DataType::Date32 => {
                self.add_all(at, bytes, |bytes| i32::from_le_bytes(bytes).into());
            }
            DataType::Int64 => self.add_all(at, bytes, |bytes| i64::from_le_bytes(bytes).into()),
            DataType::Decimal128 { .. } => self.add_all(at, bytes, i128::from_le_bytes),
            // Regardless of its content: a column without numbers has no sum.
            DataType::Boolean | DataType::Float64 | DataType::Utf8 => {
                self.error = Some(SumError(data_type.to_string()));
            }
        }
    }
}

/// The sum of a TPC-H column, from rows that were made and encoded independently.
///
/// # Errors
/// If there is no such column, or it holds texts.
pub fn reference_sum(scale: ScaleFactor, part: Part, name: &str) -> Result<i128, UnknownColumn> {
    let unknown = || UnknownColumn(name.to_owned());
    tpch_column(name)?;
    let of_order: Option<fn(&OrderRow) -> i64> = match name {
        "orders.o_orderkey" => Some(|row| row.order_key),
        "orders.o_custkey" => Some(|row| row.customer_key.into()),
        "orders.o_totalprice" => Some(|row| row.total_price),
        "orders.o_orderdate" => Some(|row| row.order_date.into()),
        "orders.o_shippriority" => Some(|row| row.ship_priority.into()),
        _ => None,
    };
    if let Some(value) = of_order {
        let rows = order_rows(scale, part).map(|bytes| OrderRow::decode(&bytes));
        let rows = rows.map(|row| row.expect("it was encoded"));
        return Ok(rows.map(|row| i128::from(value(&row))).sum());
    }
    let value: fn(&LineitemRow) -> i64 = match name {
        "lineitem.l_orderkey" => |row| row.order_key,
        "lineitem.l_partkey" => |row| row.part_key.into(),
        "lineitem.l_suppkey" => |row| row.supplier_key.into(),
        "lineitem.l_linenumber" => |row| row.line_number.into(),
        "lineitem.l_quantity" => |row| row.quantity,
        "lineitem.l_extendedprice" => |row| row.extended_price,
        "lineitem.l_discount" => |row| row.discount,
        "lineitem.l_tax" => |row| row.tax,
        "lineitem.l_shipdate" => |row| row.ship_date.into(),
        "lineitem.l_commitdate" => |row| row.commit_date.into(),
        "lineitem.l_receiptdate" => |row| row.receipt_date.into(),
        _ => return Err(unknown()),
    };
    let rows = lineitem_rows(scale, part).map(|bytes| LineitemRow::decode(&bytes));
    let rows = rows.map(|row| row.expect("it was encoded"));
    Ok(rows.map(|row| i128::from(value(&row))).sum())
}
