//! Rows compared to the text that the generator prints, and round trips.

use super::scale;
use crate::tpch::rows::{lineitem, order};
use crate::tpch::*;
use proptest::prelude::*;

#[test]
fn columns_cover_their_rows() {
    for table in TABLES {
        let mut end = 0;
        for column in table.columns {
            assert_eq!(column.offset, end, "{}", column.name);
            assert!(
                column.offset.is_multiple_of(column.bytes),
                "{}",
                column.name
            );
            end += column.bytes;
        }
        assert_eq!(end, table.row_bytes);
    }
}

/// Packets' payloads begin with rows. Wireshark takes a payload that begins with an Ethernet type
/// and two zeros for an encapsulated packet, and then calls the packet malformed.
#[test]
fn the_codes_in_bytes_2_and_3_are_never_zero() {
    assert_eq!((order::STATUS, order::PRIORITY), (2, 3));
    assert!(OrderStatus::ALL.iter().all(|status| status.code() != 0));
    assert!(
        OrderPriority::ALL
            .iter()
            .all(|priority| priority.code() != 0)
    );
    assert_eq!((lineitem::RETURN_FLAG, lineitem::LINE_STATUS), (2, 3));
    assert!(ReturnFlag::ALL.iter().all(|flag| flag.code() != 0));
    assert!(LineStatus::ALL.iter().all(|status| status.code() != 0));
}

/// What dbgen prints for the first rows at scale factor 1, the comments left out.
const FIRST_LINES: [&str; 3] = [
    "1|155190|7706|1|17|21168.23|0.04|0.02|N|O|\
     1996-03-13|1996-02-12|1996-03-22|DELIVER IN PERSON|TRUCK|",
    "1|67310|7311|2|36|45983.16|0.09|0.06|N|O|\
     1996-04-12|1996-02-28|1996-04-20|TAKE BACK RETURN|MAIL|",
    "1|63700|3701|3|8|13309.60|0.10|0.02|N|O|\
     1996-01-29|1996-03-05|1996-01-31|TAKE BACK RETURN|REG AIR|",
];
const FIRST_ORDERS: [&str; 2] = [
    "1|36901|O|173665.47|1996-01-02|5-LOW|Clerk#000000951|0|",
    "2|78002|O|46929.18|1996-12-01|1-URGENT|Clerk#000000880|0|",
];

#[test]
fn first_rows_are_those_of_dbgen_and_survive_encoding() {
    let lines = generate::lineitem(scale(1.0), Part::WHOLE);
    for (line, expect) in lines.zip(FIRST_LINES) {
        let bytes = LineitemRow::from(&line).encode();
        assert_eq!(line_text(&LineitemRow::decode(&bytes).unwrap()), expect);
    }
    let orders = generate::orders(scale(1.0), Part::WHOLE);
    for (order, expect) in orders.zip(FIRST_ORDERS) {
        let bytes = OrderRow::from(&order).encode();
        assert_eq!(order_text(&OrderRow::decode(&bytes).unwrap()), expect);
    }
}

#[test]
fn an_encoded_line_item_has_its_columns_where_the_layout_says() {
    let line = generate::lineitem(scale(1.0), Part::WHOLE).next().unwrap();
    let bytes = LineitemRow::from(&line).encode();
    assert_eq!(bytes[..4], [1, 0x14, b'N', b'O']);
    // 1996-03-13 is day 9568.
    assert_eq!(bytes[4..8], 9577u32.to_le_bytes());
    assert_eq!(bytes[8..16], 1u64.to_le_bytes());
    assert_eq!(bytes[16..24], 1700u64.to_le_bytes());
    assert_eq!(bytes[24..32], 2_116_823u64.to_le_bytes());
    assert_eq!(
        bytes[32..48],
        [4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes[48..56], [0x36, 0x5e, 2, 0, 0x1a, 0x1e, 0, 0]);
    assert_eq!(bytes[56..60], 9568u32.to_le_bytes());
    assert_eq!(bytes[60..], 9538u32.to_le_bytes());
}

#[test]
fn an_encoded_order_has_its_columns_where_the_layout_says() {
    let order = generate::orders(scale(1.0), Part::WHOLE).next().unwrap();
    let bytes = OrderRow::from(&order).encode();
    assert_eq!(bytes[..4], [0, 0, b'O', 5]);
    // 1996-01-02 is day 9497.
    assert_eq!(bytes[4..8], 9497u32.to_le_bytes());
    assert_eq!(bytes[8..16], 1u64.to_le_bytes());
    assert_eq!(bytes[16..24], 17_366_547u64.to_le_bytes());
    assert_eq!(bytes[24..28], 36_901u32.to_le_bytes());
    assert_eq!(bytes[28..], 951u32.to_le_bytes());
}

fn line_text(row: &LineitemRow) -> String {
    format!(
        "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|",
        row.order_key,
        row.part_key,
        row.supplier_key,
        row.line_number,
        row.quantity / 100,
        money(row.extended_price),
        money(row.discount),
        money(row.tax),
        row.return_flag,
        row.line_status,
        day(row.ship_date),
        day(row.commit_date),
        day(row.receipt_date),
        row.ship_instruct,
        row.ship_mode,
    )
}

fn order_text(row: &OrderRow) -> String {
    format!(
        "{}|{}|{}|{}|{}|{}|Clerk#{:09}|{}|",
        row.order_key,
        row.customer_key,
        row.order_status,
        money(row.total_price),
        day(row.order_date),
        row.order_priority,
        row.clerk,
        row.ship_priority,
    )
}

fn money(hundredths: i64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The proleptic Gregorian date of a day since 1970-01-01, counted up year by year.
fn day(days: i32) -> String {
    let leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + i32::from(leap(year)) {
        left -= 365 + i32::from(leap(year));
        year += 1;
    }
    let february = 28 + i32::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

#[test]
fn dates_of_the_queries_are_right() {
    assert_eq!(day(Q1_SHIP_DATE_MAX), "1998-09-02");
    assert_eq!(day(Q1_SHIP_DATE_MAX + 90), "1998-12-01");
    assert_eq!(day(JOIN_ORDER_DATES.start), "1995-01-01");
    assert_eq!(day(JOIN_ORDER_DATES.end), "1996-01-01");
}

#[test]
fn every_generated_row_survives_encoding() {
    for line in generate::lineitem(scale(0.002), Part::WHOLE) {
        let text = line.to_string();
        let row = LineitemRow::decode(&LineitemRow::from(&line).encode()).unwrap();
        assert_eq!(text, line_text(&row) + line.l_comment + "|");
    }
    for order in generate::orders(scale(0.002), Part::WHOLE) {
        let text = order.to_string();
        let row = OrderRow::decode(&OrderRow::from(&order).encode()).unwrap();
        assert_eq!(text, order_text(&row) + order.o_comment + "|");
    }
}

fn one_of<T: Copy + core::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(values)
}

prop_compose! {
    fn any_line()(
        (order_key, quantity, extended_price, discount, tax) in any::<(i64, i64, i64, i64, i64)>(),
        (part_key, supplier_key, line_number) in any::<(u32, u32, u8)>(),
        (ship_date, commit_date, receipt_date) in any::<(i32, i32, i32)>(),
        return_flag in one_of(ReturnFlag::ALL),
        line_status in one_of(LineStatus::ALL),
        ship_instruct in one_of(ShipInstruct::ALL),
        ship_mode in one_of(ShipMode::ALL),
    ) -> LineitemRow {
        LineitemRow {
            order_key, quantity, extended_price, discount, tax, part_key, supplier_key,
            ship_date, commit_date, receipt_date, line_number, return_flag, line_status,
            ship_instruct, ship_mode,
        }
    }
}

prop_compose! {
    fn any_order()(
        (order_key, total_price, order_date, ship_priority) in any::<(i64, i64, i32, i16)>(),
        (customer_key, clerk) in any::<(u32, u32)>(),
        order_status in one_of(OrderStatus::ALL),
        order_priority in one_of(OrderPriority::ALL),
    ) -> OrderRow {
        OrderRow {
            order_key, total_price, customer_key, order_date, clerk, ship_priority,
            order_status, order_priority,
        }
    }
}

proptest! {
    #[test]
    fn line_items_survive_encoding(row in any_line()) {
        prop_assert_eq!(LineitemRow::decode(&row.encode()), Ok(row));
    }

    #[test]
    fn orders_survive_encoding(row in any_order()) {
        prop_assert_eq!(OrderRow::decode(&row.encode()), Ok(row));
    }

    #[test]
    fn bytes_that_decode_encode_to_themselves(
        mut bytes in proptest::array::uniform(any::<u8>()), order in any_order(),
        (at, value) in (0..OrderRow::BYTES, any::<u8>()),
    ) {
        // This makes some of them valid rows.
        bytes[lineitem::RETURN_FLAG] = b'R';
        bytes[lineitem::LINE_STATUS] = b'O';
        if let Ok(row) = LineitemRow::decode(&bytes) {
            prop_assert_eq!(row.encode(), bytes);
        }
        let mut bytes = order.encode();
        bytes[at] = value;
        if let Ok(row) = OrderRow::decode(&bytes) {
            prop_assert_eq!(row.encode(), bytes);
        }
    }
}
