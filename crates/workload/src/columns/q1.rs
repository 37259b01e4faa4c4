//! TPC-H's Q1 over columns.

use super::query::{QueryError, check};
use crate::tpch::{Q1Groups, Q1Line, Q1Row};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type};

/// The columns that Q1 needs, in the order in which [`q1`] takes them.
pub const Q1_COLUMNS: [&str; 7] = [
    "lineitem.l_returnflag",
    "lineitem.l_linestatus",
    "lineitem.l_shipdate",
    "lineitem.l_quantity",
    "lineitem.l_extendedprice",
    "lineitem.l_discount",
    "lineitem.l_tax",
];

/// The nonempty groups, in order, over the columns named in [`Q1_COLUMNS`].
/// [`QueryResult::merge`](crate::tpch::QueryResult::merge) adds up those of several parts.
///
/// # Errors
/// If a column has another type, another number of rows, or nulls, or a value that no line item
/// has.
pub fn q1(columns: &[ArrayRef; 7]) -> Result<Vec<Q1Row>, QueryError> {
    check(columns, &Q1_COLUMNS)?;
    let [flags, statuses] = [&columns[0], &columns[1]].map(|column| column.as_string::<i32>());
    let dates = columns[2].as_primitive::<Date32Type>().values();
    let [quantities, prices, discounts, taxes] = [3, 4, 5, 6]
        .map(|at| &columns[at])
        .map(|column| column.as_primitive::<Decimal128Type>().values());
    let mut groups = Q1Groups::default();
    for (row, &ship_date) in dates.iter().enumerate() {
        // Beyond 64 bits as beyond TPC-H's digits: refused below.
        let narrow = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        let line = Q1Line {
            return_flag: code(flags.value(row)),
            line_status: code(statuses.value(row)),
            ship_date,
            quantity: narrow(quantities[row]),
            price: narrow(prices[row]),
            discount: narrow(discounts[row]),
            tax: narrow(taxes[row]),
        };
        groups.add(&line).ok_or(QueryError::Row { row })?;
    }
    Ok(groups.into_rows())
}

/// The byte of a text of one letter; zero, which no code is, for other texts.
fn code(text: &str) -> u8 {
    match text.as_bytes() {
        [letter] => *letter,
        _ => 0,
    }
}
