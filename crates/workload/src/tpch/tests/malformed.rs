//! Items and rows that no storage worker sends.

use super::{ITEM_BYTES, flow, scale};
use crate::tpch::rows::{lineitem, order};
use crate::tpch::worker::{LINEITEM, ORDERS};
use crate::tpch::*;
use proptest::prelude::*;
use rackweave_endpoint::flow::ITEM_HEADER;

/// The first bytes of an item of rows.
const ITEM_MAGIC: [u8; 4] = *b"RWit";

fn order_row() -> OrderRow {
    OrderRow::from(&generate::orders(scale(0.001), Part::WHOLE).nth(1).unwrap())
}

fn line_row() -> LineitemRow {
    LineitemRow::from(
        &generate::lineitem(scale(0.001), Part::WHOLE)
            .next()
            .unwrap(),
    )
}

/// An item with these rows, up to its end or beyond.
fn item_of(rows: u32, bytes: &[u8]) -> Vec<u8> {
    let mut item = [ITEM_MAGIC, rows.to_le_bytes()].concat();
    item.resize(ITEM_HEADER, 0);
    item.extend_from_slice(bytes);
    item.resize(ITEM_BYTES, 0);
    item
}

/// Delivers a malformed item; the worker must give up with `expect` and leave both flows.
fn check_refused(table: &'static str, item: &[u8], expect: &str) {
    let (mut orders, mut lineitem) = (flow(), flow());
    let mut worker = ComputeWorker::new(orders.consumer(0), lineitem.consumer(0));
    match table {
        ORDERS => orders.deliver(0, item),
        _ => {
            orders.end(0);
            lineitem.deliver(0, item);
        }
    }
    assert_eq!(worker.step(1000), WorkerStep::Aborted);
    assert_eq!(worker.step(1000), WorkerStep::Aborted);
    assert_eq!(worker.error().unwrap().to_string(), expect);
    assert!(orders.has_left(0) && lineitem.has_left(0));
    assert!(worker.into_result().is_err());
}

#[test]
fn malformed_items_are_refused() {
    for (table, fit) in [(ORDERS, 4), (LINEITEM, 2)] {
        let mut almost = item_of(1, &[]);
        almost[3] ^= 1;
        let expect =
            format!("item 0 of {table} does not begin with a header that counts 1 to {fit} rows");
        for item in [
            item_of(0, &[]),
            item_of(fit + 1, &[]),
            item_of(u32::MAX, &[]),
            almost,
            // Bytes that were never written.
            vec![0; ITEM_BYTES],
            vec![0xff; ITEM_BYTES],
        ] {
            check_refused(table, &item, &expect);
        }
    }
}

#[test]
fn malformed_orders_are_refused() {
    let good = order_row().encode();
    let check = |at: usize, value: u8, error: &str| {
        let mut bad = good;
        bad[at] = value;
        let expect = format!("row 1 of item 0 of orders: {error}");
        check_refused(ORDERS, &item_of(2, &[good, bad].concat()), &expect);
    };
    check(
        order::STATUS,
        b'X',
        "o_orderstatus has the unknown code 0x58",
    );
    check(
        order::PRIORITY,
        6,
        "o_orderpriority has the unknown code 0x06",
    );

    let row = OrderRow {
        order_date: JOIN_ORDER_DATES.start,
        ..order_row()
    };
    let twice = [row.encode(), row.encode()].concat();
    let expect = format!(
        "row 1 of item 0 of orders: the order {} is there twice",
        row.order_key
    );
    check_refused(ORDERS, &item_of(2, &twice), &expect);
    let negative = OrderRow {
        order_key: -1,
        ..row
    }
    .encode();
    let expect = "row 0 of item 0 of orders: o_orderkey is -1, which is out of its range";
    check_refused(ORDERS, &item_of(1, &negative), expect);
}

#[test]
fn malformed_line_items_are_refused() {
    let good = line_row();
    let check = |bad: LineitemRow, error: &str| {
        let expect = format!("row 1 of item 0 of lineitem: {error}");
        let rows = [good.encode(), bad.encode()].concat();
        check_refused(LINEITEM, &item_of(2, &rows), &expect);
    };
    let (min, far) = (i64::MIN, 1_000_000_000_000);
    let range =
        |column: &str, value: i64| format!("{column} is {value}, which is out of its range");
    check(
        LineitemRow {
            quantity: min,
            ..good
        },
        &range("l_quantity", min),
    );
    check(
        LineitemRow {
            extended_price: far,
            ..good
        },
        &range("l_extendedprice", far),
    );
    check(
        LineitemRow {
            discount: 101,
            ..good
        },
        &range("l_discount", 101),
    );
    check(LineitemRow { tax: -1, ..good }, &range("l_tax", -1));
    for (at, column) in [
        (lineitem::RETURN_FLAG, "l_returnflag"),
        (lineitem::LINE_STATUS, "l_linestatus"),
    ] {
        let mut bad = good.encode();
        bad[at] = b'?';
        let expect = format!("row 0 of item 0 of lineitem: {column} has the unknown code 0x3f");
        check_refused(LINEITEM, &item_of(1, &bad), &expect);
    }
}

#[test]
fn the_largest_values_do_not_overflow() {
    let (mut orders, mut lineitem) = (flow(), flow());
    let mut worker = ComputeWorker::new(orders.consumer(0), lineitem.consumer(0));
    orders.end(0);
    let row = LineitemRow {
        quantity: 999_999_999_999,
        extended_price: 999_999_999_999,
        discount: 0,
        tax: 100,
        ..line_row()
    };
    lineitem.deliver(0, &item_of(2, &[row.encode(), row.encode()].concat()));
    lineitem.end(0);
    assert_eq!(
        worker.step(9),
        WorkerStep::Worked {
            rows: 2,
            bytes: 128
        }
    );
    assert_eq!(worker.step(9), WorkerStep::Done);
    let result = worker.into_result().unwrap();
    assert_eq!(result.q1[0].sum_charge, 2 * 999_999_999_999 * 100 * 200);
    assert_eq!(result.join, [], "there is no order for it");
}

proptest! {
    #[test]
    fn no_item_makes_a_compute_worker_panic(
        item in proptest::collection::vec(any::<u8>(), ITEM_BYTES),
        count in 0u8..6,
        is_lineitem in any::<bool>(),
    ) {
        let mut item = item;
        item[..4].copy_from_slice(&ITEM_MAGIC);
        item[4..8].copy_from_slice(&[count, 0, 0, 0]);
        let rows_fit = if is_lineitem { 2 } else { 4 };
        let (mut orders, mut lineitem) = (flow(), flow());
        let mut worker = ComputeWorker::new(orders.consumer(0), lineitem.consumer(0));
        if is_lineitem {
            orders.end(0);
            lineitem.deliver(0, &item);
        } else {
            orders.deliver(0, &item);
        }
        match worker.step(1000) {
            WorkerStep::Worked { rows, .. } => prop_assert!(rows <= rows_fit),
            WorkerStep::Aborted => prop_assert!(worker.error().is_some()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
