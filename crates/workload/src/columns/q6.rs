//! TPC-H's Q6 over columns.

use super::query::{QueryError, check};
use crate::tpch::{Part, ScaleFactor, generated_lineitem};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type};
use core::ops::{Range, RangeInclusive};
use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};

/// The columns that Q6 needs, in the order in which [`q6`] takes them.
pub const Q6_COLUMNS: [&str; 4] = [
    "lineitem.l_shipdate",
    "lineitem.l_discount",
    "lineitem.l_quantity",
    "lineitem.l_extendedprice",
];

/// The answer at scale factor 1 published in the specification (section 2.4.6.4): 123141078.2283,
/// in units of a ten-thousandth.
pub const PUBLISHED_Q6_SF1: i128 = 1_231_410_782_283;

/// Ship dates of 1994, in days since 1970-01-01.
const SHIP_DATES: Range<i32> = 8_766..9_131;
/// Discounts in hundredths.
const DISCOUNTS: RangeInclusive<i128> = 5..=7;
/// Exclusive upper bound of quantities, in hundredths.
const QUANTITY_END: i128 = 2_400;

/// The revenue, in units of a ten-thousandth, over the columns named in [`Q6_COLUMNS`]. Results of
/// several parts add up.
///
/// # Errors
/// If a column has another type, another number of rows, or nulls.
pub fn q6(columns: &[ArrayRef; 4]) -> Result<i128, QueryError> {
    check(columns, &Q6_COLUMNS)?;
    let dates = columns[0].as_primitive::<Date32Type>().values();
    let [discounts, quantities, prices] = [&columns[1], &columns[2], &columns[3]]
        .map(|column| column.as_primitive::<Decimal128Type>().values());
    let mut revenue = 0i128;
    for (row, date) in dates.iter().enumerate() {
        let (discount, quantity) = (discounts[row], quantities[row]);
        let counts =
            SHIP_DATES.contains(date) && DISCOUNTS.contains(&discount) && quantity < QUANTITY_END;
        if counts {
            // Decimals have 15 digits, but peers may send 38: too large values wrap, which is as
            // wrong as the values sent.
            revenue = revenue.wrapping_add(prices[row].wrapping_mul(discount));
        }
    }
    Ok(revenue)
}

/// The same, over the generator's rows: without columns, comparing the generator's dates.
pub fn reference_q6(scale: ScaleFactor, part: Part) -> i128 {
    let (first, end) = (date("1994-01-01"), date("1995-01-01"));
    let counts = generated_lineitem(scale, part).filter(|line| {
        let discount = line.l_discount.into_inner();
        line.l_shipdate >= first
            && line.l_shipdate < end
            && (5..=7).contains(&discount)
            && line.l_quantity < 24
    });
    counts
        .map(|line| {
            let price = i128::from(line.l_extendedprice.into_inner());
            price * i128::from(line.l_discount.into_inner())
        })
        .sum()
}

/// The generator's date for this text.
fn date(text: &str) -> TPCHDate {
    let days = MIN_GENERATE_DATE..MIN_GENERATE_DATE + TOTAL_DATE_RANGE;
    let mut dates = days.map(TPCHDate::new);
    let found = dates.find(|date| date.to_string() == text);
    found.expect("within the dates that the generator makes")
}
