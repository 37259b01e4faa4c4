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
    q1: Q1Groups,
    /// By the priority's code. Index zero: line items without an order in the table.
    join: [JoinSums; PRIORITIES],
}

/// What Q1 needs of a line item: decimals in hundredths.
#[derive(Clone, Copy, Debug)]
pub struct Q1Line {
    pub return_flag: u8,
    pub line_status: u8,
    pub ship_date: i32,
    pub quantity: i64,
    pub price: i64,
    pub discount: i64,
    pub tax: i64,
}

/// Q1's sums, by group.
#[derive(Clone, Copy, Default, Debug)]
pub struct Q1Groups([Q1Sums; GROUPS]);

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

/// Line items whose orders are looked up together.
const TOGETHER: usize = 16;

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
            q1: Q1Groups::default(),
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

    /// Adds line items to the sums of both queries.
    ///
    /// # Errors
    /// The index of the first row that is malformed, and what is wrong with it. The rows before it
    /// are added.
    #[inline]
    pub fn lines(&mut self, rows: &[[u8; LineitemRow::BYTES]]) -> Result<(), (usize, RowError)> {
        let (blocks, rest) = rows.as_chunks::<TOGETHER>();
        for (number, block) in blocks.iter().enumerate() {
            let before = number * TOGETHER;
            self.block(block)
                .map_err(|(at, error)| (before + at, error))?;
        }
        for (at, row) in rest.iter().enumerate() {
            let before = blocks.len() * TOGETHER;
            self.block(core::array::from_ref(row))
                .map_err(|(_, error)| (before + at, error))?;
        }
        Ok(())
    }

    #[inline]
    fn block<const N: usize>(
        &mut self,
        rows: &[[u8; LineitemRow::BYTES]; N],
    ) -> Result<(), (usize, RowError)> {
        let keys =
            core::array::from_fn(|at| i64::from_le_bytes(get(&rows[at], lineitem::ORDER_KEY)));
        let priorities = self.orders.priority_codes::<N>(&keys);
        for (at, (row, priority)) in rows.iter().zip(priorities).enumerate() {
            let line = Q1Line {
                return_flag: row[lineitem::RETURN_FLAG],
                line_status: row[lineitem::LINE_STATUS],
                ship_date: i32::from_le_bytes(get(row, lineitem::SHIP_DATE)),
                quantity: i64::from_le_bytes(get(row, lineitem::QUANTITY)),
                price: i64::from_le_bytes(get(row, lineitem::EXTENDED_PRICE)),
                discount: i64::from_le_bytes(get(row, lineitem::DISCOUNT)),
                tax: i64::from_le_bytes(get(row, lineitem::TAX)),
            };
            let Some(disc_price) = self.q1.add(&line) else {
                return Err((at, what_is_wrong(row)));
            };
            let joined = &mut self.join[usize::from(priority)];
            joined.lines += 1;
            joined.revenue += i128::from(disc_price);
        }
        Ok(())
    }

    /// The nonempty groups, in order.
    pub fn into_rows(self) -> (Vec<Q1Row>, Vec<JoinRow>) {
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
        (self.q1.into_rows(), join)
    }
}

impl Q1Groups {
    /// Adds a line item if its ship date counts. Returns its discounted price in ten-thousandths,
    /// or `None` if a value is none of a line item.
    #[inline(always)]
    pub fn add(&mut self, line: &Q1Line) -> Option<i64> {
        let Q1Line {
            quantity,
            price,
            discount,
            tax,
            ..
        } = *line;
        let group = FLAGS[usize::from(line.return_flag)] + STATUSES[usize::from(line.line_status)];
        let sums = self.0.get_mut(usize::from(group))?;
        if !are_in_range(quantity, price, discount, tax) {
            return None;
        }
        let disc_price = price * (100 - discount);
        if line.ship_date <= Q1_SHIP_DATE_MAX {
            sums.count += 1;
            sums.quantity += i128::from(quantity);
            sums.base_price += i128::from(price);
            sums.disc_price += i128::from(disc_price);
            sums.charge += i128::from(disc_price * (100 + tax));
            sums.discount += i128::from(discount);
        }
        Some(disc_price)
    }

    /// The nonempty groups, in order.
    pub fn into_rows(self) -> Vec<Q1Row> {
        let names = ReturnFlag::ALL
            .iter()
            .flat_map(|flag| LineStatus::ALL.iter().map(move |status| (*flag, *status)));
        names
            .zip(self.0)
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
            .collect()
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
