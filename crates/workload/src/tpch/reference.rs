//! The reference: both queries answered directly from generated rows.
//!
//! It shares no code with the system under test: no row is encoded, decoded or sent; groups are
//! ordered maps by text; the join is a merge of both tables, which the generator makes in the order
//! of their keys, and not a hash join; dates are compared as the generator's dates.

use super::codes::{LineStatus, OrderPriority, ReturnFlag};
use super::generate;
use super::result::{JoinRow, Q1Row, QueryResult};
use super::scale::{Part, RowCounts, ScaleFactor};
use std::collections::BTreeMap;
use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};
use tpchgen::generators::{LineItem, LineItemGeneratorIterator, Order, OrderGeneratorIterator};

/// The direct computation, in steps for callers that show its progress.
#[derive(Debug)]
pub struct Reference {
    orders: OrderGeneratorIterator<'static>,
    lineitem: LineItemGeneratorIterator<'static>,
    /// The order of the current line items, or of the next ones.
    order: Option<Order<'static>>,
    q1_ship_date_max: TPCHDate,
    rows: RowCounts,
    q1: BTreeMap<(&'static str, &'static str), Q1Sums>,
    join: BTreeMap<&'static str, (u64, i128)>,
}

#[derive(Default, Debug)]
struct Q1Sums {
    quantity: i128,
    price: i128,
    disc_price: i128,
    charge: i128,
    discount: i128,
    count: u64,
}

/// The direct computation in one call, on the calling thread.
pub fn reference(scale: ScaleFactor) -> QueryResult {
    let mut reference = Reference::new(scale);
    while reference.step(usize::MAX).is_some() {}
    reference.into_result()
}

impl Reference {
    /// A computation that has not started.
    pub fn new(scale: ScaleFactor) -> Self {
        Self {
            orders: generate::orders(scale, Part::WHOLE),
            lineitem: generate::lineitem(scale, Part::WHOLE),
            order: None,
            q1_ship_date_max: date("1998-09-02"),
            rows: RowCounts::default(),
            q1: BTreeMap::new(),
            join: BTreeMap::new(),
        }
    }

    /// Processes up to `lines_max` line items, at least one, and their orders. Returns the number
    /// of rows of both tables, or `None` at the end.
    pub fn step(&mut self, lines_max: usize) -> Option<u64> {
        let before = self.rows.total();
        for _ in 0..lines_max.max(1) {
            let Some(line) = self.lineitem.next() else {
                while self.next_order() {}
                break;
            };
            self.rows.lineitem += 1;
            self.add_to_q1(&line);
            self.add_to_join(&line);
        }
        let rows = self.rows.total() - before;
        (rows > 0).then_some(rows)
    }

    fn next_order(&mut self) -> bool {
        self.order = self.orders.next();
        self.rows.orders += u64::from(self.order.is_some());
        self.order.is_some()
    }

    fn add_to_q1(&mut self, line: &LineItem<'static>) {
        if line.l_shipdate > self.q1_ship_date_max {
            return;
        }
        let (price, discount, tax) = factors(line);
        let sums = self
            .q1
            .entry((line.l_returnflag, line.l_linestatus))
            .or_default();
        sums.quantity += i128::from(line.l_quantity);
        sums.price += price;
        sums.disc_price += price * (100 - discount);
        sums.charge += price * (100 - discount) * (100 + tax);
        sums.discount += discount;
        sums.count += 1;
    }

    fn add_to_join(&mut self, line: &LineItem<'static>) {
        let key = |order: &Option<Order<'_>>| order.as_ref().map(|order| order.o_orderkey);
        while key(&self.order).is_none_or(|key| key < line.l_orderkey) && self.next_order() {}
        let Some(order) = &self.order else { return };
        if order.o_orderkey == line.l_orderkey && order.o_orderdate.to_ymd().0 == 95 {
            let (price, discount, _) = factors(line);
            let (lines, revenue) = self.join.entry(order.o_orderpriority).or_default();
            *lines += 1;
            *revenue += price * (100 - discount);
        }
    }

    /// The answers over the processed rows.
    pub fn into_result(self) -> QueryResult {
        const KNOWN: &str = "the generator's texts are the specification's";
        let q1 = self.q1.into_iter().map(|((flag, status), sums)| Q1Row {
            return_flag: ReturnFlag::from_text(flag).expect(KNOWN),
            line_status: LineStatus::from_text(status).expect(KNOWN),
            sum_qty: sums.quantity * 100,
            sum_base_price: sums.price,
            sum_disc_price: sums.disc_price,
            sum_charge: sums.charge,
            sum_discount: sums.discount,
            count: sums.count,
        });
        let join = self
            .join
            .into_iter()
            .map(|(priority, (lines, revenue))| JoinRow {
                priority: OrderPriority::from_text(priority).expect(KNOWN),
                lines,
                revenue,
            });
        QueryResult {
            rows: self.rows,
            q1: q1.collect(),
            join: join.collect(),
        }
    }
}

/// Price, discount and tax in hundredths.
fn factors(line: &LineItem<'_>) -> (i128, i128, i128) {
    let wide = |decimal: tpchgen::decimal::TPCHDecimal| i128::from(decimal.into_inner());
    (
        wide(line.l_extendedprice),
        wide(line.l_discount),
        wide(line.l_tax),
    )
}

/// The generator's date for `text`.
fn date(text: &str) -> TPCHDate {
    (MIN_GENERATE_DATE..MIN_GENERATE_DATE + TOTAL_DATE_RANGE)
        .map(TPCHDate::new)
        .find(|date| date.to_string() == text)
        .expect("a date between 1992 and 1998")
}
