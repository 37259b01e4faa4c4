//! Answers: each node's, and all of them merged.

use super::codes::{LineStatus, OrderPriority, ReturnFlag};
use super::published::{Q1Answer, published_q1_sf1};
use super::scale::RowCounts;
use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A group of Q1. Sums are exact; averages follow from them (see [`Q1Row::rounded`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Q1Row {
    /// `l_returnflag`
    pub return_flag: ReturnFlag,
    /// `l_linestatus`
    pub line_status: LineStatus,
    /// Sum of quantities, in hundredths.
    #[serde(with = "super::exact")]
    pub sum_qty: i128,
    /// Sum of prices, in hundredths.
    #[serde(with = "super::exact")]
    pub sum_base_price: i128,
    /// Sum of discounted prices, in ten-thousandths.
    #[serde(with = "super::exact")]
    pub sum_disc_price: i128,
    /// Sum of discounted prices with tax, in millionths.
    #[serde(with = "super::exact")]
    pub sum_charge: i128,
    /// Sum of discounts, in hundredths, for their average.
    #[serde(with = "super::exact")]
    pub sum_discount: i128,
    /// Line items.
    pub count: u64,
}

/// A group of the join.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRow {
    /// `o_orderpriority`
    pub priority: OrderPriority,
    /// Line items.
    pub lines: u64,
    /// Sum of discounted prices, in ten-thousandths.
    #[serde(with = "super::exact")]
    pub revenue: i128,
}

/// One compute node's part of the results. It is sent as JSON with its sums as decimal strings,
/// because JSON numbers are too short for them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeResult {
    /// Rows that the node saw.
    pub rows: RowCounts,
    /// Its nonempty groups of Q1.
    pub q1: Vec<Q1Row>,
    /// Its nonempty groups of the join.
    pub join: Vec<JoinRow>,
}

/// The answers of both queries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryResult {
    /// Rows of both tables, including those that count in no group.
    pub rows: RowCounts,
    /// Q1, ordered by flag and status.
    pub q1: Vec<Q1Row>,
    /// The join, ordered by priority.
    pub join: Vec<JoinRow>,
}

impl QueryResult {
    /// The nodes' parts added up.
    pub fn merge(parts: impl IntoIterator<Item = ComputeResult>) -> Self {
        let mut rows = RowCounts::default();
        let mut q1: BTreeMap<_, Q1Row> = BTreeMap::new();
        let mut join: BTreeMap<_, JoinRow> = BTreeMap::new();
        for part in parts {
            rows.orders += part.rows.orders;
            rows.lineitem += part.rows.lineitem;
            for row in part.q1 {
                q1.entry((row.return_flag, row.line_status))
                    .and_modify(|sum| sum.add(&row))
                    .or_insert(row);
            }
            for row in part.join {
                join.entry(row.priority)
                    .and_modify(|sum| {
                        sum.lines += row.lines;
                        sum.revenue += row.revenue;
                    })
                    .or_insert(row);
            }
        }
        Self {
            rows,
            q1: q1.into_values().collect(),
            join: join.into_values().collect(),
        }
    }

    /// Whether Q1, rounded as the specification rounds it, is the published answer at scale
    /// factor 1.
    pub fn matches_published_q1(&self) -> bool {
        self.q1.iter().map(Q1Row::rounded).eq(published_q1_sf1())
    }

    /// A checksum that differs if anything in the result does, up to chance: 64-bit FNV-1a over all
    /// fields in little-endian order.
    pub fn checksum(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.add(&self.rows.orders.to_le_bytes());
        hash.add(&self.rows.lineitem.to_le_bytes());
        for row in &self.q1 {
            hash.add(&[row.return_flag.code(), row.line_status.code()]);
            let sums = [
                row.sum_qty,
                row.sum_base_price,
                row.sum_disc_price,
                row.sum_charge,
                row.sum_discount,
            ];
            for sum in sums {
                hash.add(&sum.to_le_bytes());
            }
            hash.add(&row.count.to_le_bytes());
        }
        for row in &self.join {
            hash.add(&[row.priority.code()]);
            hash.add(&row.lines.to_le_bytes());
            hash.add(&row.revenue.to_le_bytes());
        }
        hash.0
    }
}

impl Q1Row {
    /// The row in the form of the specification.
    pub fn rounded(&self) -> Q1Answer {
        let count = i128::from(self.count);
        Q1Answer {
            return_flag: self.return_flag,
            line_status: self.line_status,
            sum_qty: self.sum_qty,
            sum_base_price: self.sum_base_price,
            sum_disc_price: divide(self.sum_disc_price, 100),
            sum_charge: divide(self.sum_charge, 10_000),
            avg_qty: divide(self.sum_qty, count),
            avg_price: divide(self.sum_base_price, count),
            avg_disc: divide(self.sum_discount, count),
            count: self.count,
        }
    }

    fn add(&mut self, other: &Self) {
        self.sum_qty += other.sum_qty;
        self.sum_base_price += other.sum_base_price;
        self.sum_disc_price += other.sum_disc_price;
        self.sum_charge += other.sum_charge;
        self.sum_discount += other.sum_discount;
        self.count += other.count;
    }
}

/// The quotient, halves rounded away from zero; zero for a division by zero, which only a row
/// without line items causes.
fn divide(dividend: i128, divisor: i128) -> i128 {
    let Some(quotient) = dividend.checked_div(divisor) else {
        return 0;
    };
    let rest = dividend - quotient * divisor;
    if rest.abs() * 2 >= divisor.abs() {
        quotient + rest.signum() * divisor.signum()
    } else {
        quotient
    }
}

/// Formats hundredths as a decimal.
struct Hundredths(i128);

impl fmt::Display for Hundredths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.unsigned_abs();
        let text = format!("{}.{:02}", digits / 100, digits % 100);
        out.pad_integral(self.0 >= 0, "", &text)
    }
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Both answers as tables, under the names that the queries give their columns.
impl fmt::Display for QueryResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:12} {:12} {:>16} {:>19} {:>19} {:>19} {:>8} {:>10} {:>8} {:>12}",
            "l_returnflag",
            "l_linestatus",
            "sum_qty",
            "sum_base_price",
            "sum_disc_price",
            "sum_charge",
            "avg_qty",
            "avg_price",
            "avg_disc",
            "count_order",
        )?;
        for row in &self.q1 {
            writeln!(out, "{}", row.rounded())?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "{:15} {:>12} {:>19}",
            "o_orderpriority", "count", "revenue"
        )?;
        for row in &self.join {
            let revenue = Hundredths(divide(row.revenue, 100));
            writeln!(out, "{:15} {:>12} {revenue:>19}", row.priority, row.lines)?;
        }
        Ok(())
    }
}

impl fmt::Display for Q1Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:12} {:12} {:>16} {:>19} {:>19} {:>19} {:>8} {:>10} {:>8} {:>12}",
            self.return_flag,
            self.line_status,
            Hundredths(self.sum_qty),
            Hundredths(self.sum_base_price),
            Hundredths(self.sum_disc_price),
            Hundredths(self.sum_charge),
            Hundredths(self.avg_qty),
            Hundredths(self.avg_price),
            Hundredths(self.avg_disc),
            self.count,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let cases = [
            (149, 100, 1),
            (150, 100, 2),
            (-149, 100, -1),
            (-150, 100, -2),
            (7, 3, 2),
            (8, 3, 3),
            (5, 0, 0),
        ];
        for (dividend, divisor, expect) in cases {
            assert_eq!(divide(dividend, divisor), expect, "{dividend} / {divisor}");
        }
    }

    #[test]
    fn hundredths_show_two_places() {
        let show = |value| format!("{:>8}", Hundredths(value));
        assert_eq!(show(12_345), "  123.45");
        assert_eq!(show(-7), "   -0.07");
        assert_eq!(show(0), "    0.00");
    }
}
