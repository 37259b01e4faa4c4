//! Rows from the generator `tpchgen`, which produces the same data as TPC's `dbgen`.

use super::codes::{LineStatus, OrderPriority, OrderStatus, ReturnFlag, ShipInstruct, ShipMode};
use super::rows::{LineitemRow, OrderRow};
use super::scale::{Part, ScaleFactor};
use core::fmt;
use std::sync::LazyLock;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    ClerkName, LineItem, LineItemGenerator, LineItemGeneratorIterator, Order, OrderGenerator,
    OrderGeneratorIterator, OrderStatus as GeneratedStatus,
};
use tpchgen::text::TextPool;

/// The source of comments. They are left out of our rows and no other column depends on them, so a
/// small pool replaces the generator's own of 300 MiB.
static COMMENTS: LazyLock<TextPool> =
    LazyLock::new(|| TextPool::new(1 << 16, Distributions::static_default()));

/// The generated orders of a share.
pub(crate) fn orders(scale: ScaleFactor, part: Part) -> OrderGeneratorIterator<'static> {
    OrderGenerator::new_with_distributions_and_text_pool(
        scale.get(),
        part.number(),
        part.count(),
        Distributions::static_default(),
        &COMMENTS,
    )
    .iter()
}

/// The generated line items of a share: those of its orders, in their order.
pub(crate) fn lineitem(scale: ScaleFactor, part: Part) -> LineItemGeneratorIterator<'static> {
    LineItemGenerator::new_with_distributions_and_text_pool(
        scale.get(),
        part.number(),
        part.count(),
        Distributions::static_default(),
        &COMMENTS,
    )
    .iter()
}

/// The encoded rows of `orders` of a share, in the order of their keys.
pub fn order_rows(
    scale: ScaleFactor,
    part: Part,
) -> impl Iterator<Item = [u8; OrderRow::BYTES]> + Send {
    orders(scale, part).map(|order| OrderRow::from(&order).encode())
}

/// The encoded rows of `lineitem` of a share, in the order of their keys.
pub fn lineitem_rows(
    scale: ScaleFactor,
    part: Part,
) -> impl Iterator<Item = [u8; LineitemRow::BYTES]> + Send {
    lineitem(scale, part).map(|line| LineitemRow::from(&line).encode())
}

const IN_RANGE: &str = "keys fit 32 bits up to the largest scale factor";
const KNOWN: &str = "the generator and we read one specification";

impl From<&Order<'_>> for OrderRow {
    fn from(order: &Order<'_>) -> Self {
        Self {
            order_key: order.o_orderkey,
            total_price: order.o_totalprice.into_inner(),
            customer_key: u32::try_from(order.o_custkey).expect(IN_RANGE),
            order_date: order.o_orderdate.to_unix_epoch(),
            clerk: clerk_number(order.o_clerk),
            ship_priority: i16::try_from(order.o_shippriority).expect("TPC-H's is always 0"),
            order_status: match order.o_orderstatus {
                GeneratedStatus::Fulfilled => OrderStatus::Fulfilled,
                GeneratedStatus::Open => OrderStatus::Open,
                GeneratedStatus::Pending => OrderStatus::Pending,
            },
            order_priority: OrderPriority::from_text(order.o_orderpriority).expect(KNOWN),
        }
    }
}

impl From<&LineItem<'_>> for LineitemRow {
    fn from(line: &LineItem<'_>) -> Self {
        Self {
            order_key: line.l_orderkey,
            // The generator uses whole units here, the specification a decimal.
            quantity: line.l_quantity * 100,
            extended_price: line.l_extendedprice.into_inner(),
            discount: line.l_discount.into_inner(),
            tax: line.l_tax.into_inner(),
            part_key: u32::try_from(line.l_partkey).expect(IN_RANGE),
            supplier_key: u32::try_from(line.l_suppkey).expect(IN_RANGE),
            ship_date: line.l_shipdate.to_unix_epoch(),
            commit_date: line.l_commitdate.to_unix_epoch(),
            receipt_date: line.l_receiptdate.to_unix_epoch(),
            line_number: u8::try_from(line.l_linenumber).expect("an order has seven lines at most"),
            return_flag: ReturnFlag::from_text(line.l_returnflag).expect(KNOWN),
            line_status: LineStatus::from_text(line.l_linestatus).expect(KNOWN),
            ship_instruct: ShipInstruct::from_text(line.l_shipinstruct).expect(KNOWN),
            ship_mode: ShipMode::from_text(line.l_shipmode).expect(KNOWN),
        }
    }
}

/// The number of a clerk. The generator exposes it only as text, so its digits are collected.
fn clerk_number(clerk: ClerkName) -> u32 {
    struct Digits(u32);

    impl fmt::Write for Digits {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for byte in text.bytes().filter(u8::is_ascii_digit) {
                self.0 = self.0 * 10 + u32::from(byte - b'0');
            }
            Ok(())
        }
    }

    let mut digits = Digits(0);
    fmt::write(&mut digits, format_args!("{clerk}")).expect("collecting digits does not fail");
    digits.0
}
