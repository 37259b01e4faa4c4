//! The sums of both queries, straight from encoded rows.
//!
//! Q1's groups are a small array, indexed by the two bytes that name a group; the join's are
//! indexed by the priority's byte. Only the required columns of a row are decoded.

use super::codes::{LineStatus, OrderPriority, ReturnFlag};
use super::order_table::OrderTable;
use super::result::{JoinRow, Q1Row};
use super::rows::{LineitemRow, OrderRow, RowError, get, lineitem};
use super::{JOIN_ORDER_DATES, Q1_SHIP_DATE_MAX};

/// The sums so far, and the orders that line items are joined with.
#[derive(Debug)]
pub struct Aggregate {
    orders: OrderTable,
    q1: [Q1Sums; GROUPS],
    /// By the priority's code. Index zero: line items without an order in the table.
    join: [JoinSums; PRIORITIES],
}

#[derive(Clone, Copy, Default, Debug)]
struct Q1Sums {
    count: u64,
    quantity: i128,
    base_price: i128,
    disc_price: i128,
    charge: i128,
    discount: i128,
}

#[derive(Clone, Copy, Default, Debug)]
struct JoinSums {
    lines: u64,
    revenue: i128,
}

const GROUPS: usize = 6;
const PRIORITIES: usize = 6;

/// The sum of the entries of a flag's and a status's byte is their group; an invalid byte makes the
/// sum too large.
const FLAGS: [u8; 256] = groups(
    &[
        ReturnFlag::Accepted as u8,
        ReturnFlag::None as u8,
        ReturnFlag::Returned as u8,
    ],
    2,
);
const STATUSES: [u8; 256] = groups(&[LineStatus::Fulfilled as u8, LineStatus::Open as u8], 1);

const fn groups(codes: &[u8], step: u8) -> [u8; 256] {
    let mut entries = [GROUPS as u8; 256];
    let mut at = 0;
    while at < codes.len() {
        entries[codes[at] as usize] = at as u8 * step;
        at += 1;
    }
    entries
}

/// The specification's limit of decimals (section 1.3.1), in hundredths. With it and the next, no
/// product of a row exceeds 64 bits.
const DECIMAL_MAX: i64 = 999_999_999_999;
/// Discount and tax are at most 1.00 here; the specification has 0.10 and 0.08.
const RATE_MAX: i64 = 100;

impl Aggregate {
    pub fn new() -> Self {
        Self {
            orders: OrderTable::new(),
            q1: [Q1Sums::default(); GROUPS],
            join: [JoinSums::default(); PRIORITIES],
        }
    }

    /// Adds an order to the table if it counts in the join.
    #[inline]
    pub fn order(&mut self, row: &[u8; OrderRow::BYTES]) -> Result<(), RowError> {
        let order = OrderRow::decode(row)?;
        if JOIN_ORDER_DATES.contains(&order.order_date) {
            self.orders.insert(order.order_key, order.order_priority)?;
        }
        Ok(())
    }

    /// Adds a line item to the sums of both queries.
    #[inline]
    pub fn line(&mut self, row: &[u8; LineitemRow::BYTES]) -> Result<(), RowError> {
        let quantity = i64::from_le_bytes(get(row, lineitem::QUANTITY));
        let price = i64::from_le_bytes(get(row, lineitem::EXTENDED_PRICE));
        let discount = i64::from_le_bytes(get(row, lineitem::DISCOUNT));
        let tax = i64::from_le_bytes(get(row, lineitem::TAX));
        let group = FLAGS[usize::from(row[lineitem::RETURN_FLAG])]
            + STATUSES[usize::from(row[lineitem::LINE_STATUS])];
        let sums = self.q1.get_mut(usize::from(group));
        let (Some(sums), true) = (sums, are_in_range(quantity, price, discount, tax)) else {
            return Err(what_is_wrong(row));
        };
        let disc_price = price * (100 - discount);
        if i32::from_le_bytes(get(row, lineitem::SHIP_DATE)) <= Q1_SHIP_DATE_MAX {
            sums.count += 1;
            sums.quantity += i128::from(quantity);
            sums.base_price += i128::from(price);
            sums.disc_price += i128::from(disc_price);
            sums.charge += i128::from(disc_price * (100 + tax));
            sums.discount += i128::from(discount);
        }
        let key = i64::from_le_bytes(get(row, lineitem::ORDER_KEY));
        let joined = &mut self.join[self.orders.priority_code(key)];
        joined.lines += 1;
        joined.revenue += i128::from(disc_price);
        Ok(())
    }

    /// The nonempty groups, in order.
    pub fn into_rows(self) -> (Vec<Q1Row>, Vec<JoinRow>) {
        let names = ReturnFlag::ALL
            .iter()
            .flat_map(|flag| LineStatus::ALL.iter().map(move |status| (*flag, *status)));
        let q1 = names
            .zip(self.q1)
            .filter(|(_, sums)| sums.count > 0)
            .map(|((return_flag, line_status), sums)| Q1Row {
                return_flag,
                line_status,
                sum_qty: sums.quantity,
                sum_base_price: sums.base_price,
                sum_disc_price: sums.disc_price,
                sum_charge: sums.charge,
                sum_discount: sums.discount,
                count: sums.count,
            })
            .collect();
        let join = OrderPriority::ALL
            .iter()
            .map(|priority| (*priority, self.join[usize::from(priority.code())]))
            .filter(|(_, sums)| sums.lines > 0)
            .map(|(priority, sums)| JoinRow {
                priority,
                lines: sums.lines,
                revenue: sums.revenue,
            })
            .collect();
        (q1, join)
    }
}

#[inline(always)]
fn are_in_range(quantity: i64, price: i64, discount: i64, tax: i64) -> bool {
    // Interpreted as unsigned numbers, negative ones are large.
    let is_decimal = |value: i64| value as u64 <= DECIMAL_MAX as u64;
    let is_rate = |value: i64| value as u64 <= RATE_MAX as u64;
    is_decimal(quantity) & is_decimal(price) & is_rate(discount) & is_rate(tax)
}

/// Determines the error that `line` detected, off the fast path.
#[cold]
fn what_is_wrong(row: &[u8; LineitemRow::BYTES]) -> RowError {
    let code = |column, at: usize| RowError::Code {
        column,
        code: row[at],
    };
    if ReturnFlag::from_code(row[lineitem::RETURN_FLAG]).is_none() {
        return code("l_returnflag", lineitem::RETURN_FLAG);
    }
    if LineStatus::from_code(row[lineitem::LINE_STATUS]).is_none() {
        return code("l_linestatus", lineitem::LINE_STATUS);
    }
    let columns = [
        ("l_quantity", lineitem::QUANTITY, DECIMAL_MAX),
        ("l_extendedprice", lineitem::EXTENDED_PRICE, DECIMAL_MAX),
        ("l_discount", lineitem::DISCOUNT, RATE_MAX),
        ("l_tax", lineitem::TAX, RATE_MAX),
    ];
    columns
        .iter()
        .map(|(column, at, max)| (*column, i64::from_le_bytes(get(row, *at)), *max))
        .find(|(_, value, max)| !(0..=*max).contains(value))
        .map(|(column, value, _)| RowError::Range { column, value })
        .expect("a row is refused for one of its columns")
}
