//! What queries over columns have in common: the check of columns, which come from a peer.

use super::convert::arrow_type;
use super::tpch::tpch_column;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

/// Why a query cannot be computed over the columns.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueryError {
    /// A column's type differs from TPC-H's.
    #[error("{name} is a column of {found}")]
    Type {
        /// The column.
        name: &'static str,
        /// Its actual type.
        found: ArrowType,
    },
    /// Columns have different numbers of rows, or nulls.
    #[error("{name} has {rows} rows of which {nulls} are null; {expected} belong there, none null")]
    Rows {
        /// The column.
        name: &'static str,
        /// Its rows.
        rows: usize,
        /// Its null rows.
        nulls: usize,
        /// Rows of the first column.
        expected: usize,
    },
    /// A row has a value that no line item has.
    #[error("row {row} of lineitem is not TPC-H's")]
    Row {
        /// The row's number.
        row: usize,
    },
}

/// Checks that `columns` have the types of TPC-H's columns called `names`, as many rows as the
/// first, and no nulls. The number of digits of a decimal is not checked.
pub(super) fn check(columns: &[ArrayRef], names: &[&'static str]) -> Result<(), QueryError> {
    let expected = columns.first().map_or(0, |column| column.len());
    for (column, &name) in columns.iter().zip(names) {
        let found = column.data_type();
        let wanted = tpch_column(name).map(|known| arrow_type(known.data_type));
        let is_right = match (found, wanted) {
            (ArrowType::Decimal128(_, found), Ok(ArrowType::Decimal128(_, wanted))) => {
                *found == wanted
            }
            (found, wanted) => wanted.as_ref() == Ok(found),
        };
        if !is_right {
            let found = found.clone();
            return Err(QueryError::Type { name, found });
        }
        let (rows, nulls) = (column.len(), column.null_count());
        if rows != expected || nulls > 0 {
            return Err(QueryError::Rows {
                name,
                rows,
                nulls,
                expected,
            });
        }
    }
    Ok(())
}
