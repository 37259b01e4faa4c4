//! Partial results survive JSON exactly.

use super::*;
use proptest::prelude::*;

fn q1_row() -> impl Strategy<Value = Q1Row> {
    let flag = proptest::sample::select(ReturnFlag::ALL);
    let status = proptest::sample::select(LineStatus::ALL);
    let sums = proptest::array::uniform5(any::<i128>());
    (flag, status, sums, any::<u64>()).prop_map(|(return_flag, line_status, sums, count)| Q1Row {
        return_flag,
        line_status,
        sum_qty: sums[0],
        sum_base_price: sums[1],
        sum_disc_price: sums[2],
        sum_charge: sums[3],
        sum_discount: sums[4],
        count,
    })
}

fn join_row() -> impl Strategy<Value = JoinRow> {
    let priority = proptest::sample::select(OrderPriority::ALL);
    (priority, any::<u64>(), any::<i128>()).prop_map(|(priority, lines, revenue)| JoinRow {
        priority,
        lines,
        revenue,
    })
}

proptest! {
    #[test]
    fn a_partial_result_survives_json(
        (orders, lineitem) in any::<(u64, u64)>(),
        q1 in proptest::collection::vec(q1_row(), 0..6),
        join in proptest::collection::vec(join_row(), 0..6),
    ) {
        let result = ComputeResult { rows: RowCounts { orders, lineitem }, q1, join };
        // Through a `Value`, as on control connections: its numbers have at most 64 bits.
        let value = serde_json::to_value(&result).unwrap();
        let text = value.to_string();
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::from_value::<ComputeResult>(back).unwrap(), result);
    }
}

#[test]
fn sums_are_decimal_strings_and_columns_their_texts() {
    let row = JoinRow {
        priority: OrderPriority::NotSpecified,
        lines: 3,
        revenue: -i128::MAX,
    };
    let value = serde_json::to_value(row).unwrap();
    assert_eq!(value["priority"], "4-NOT SPECIFIED");
    assert_eq!(value["revenue"], format!("-{}", i128::MAX));
}

#[test]
fn results_that_make_no_sense_are_refused() {
    let check = |text: &str, says: &str| {
        let error = serde_json::from_str::<JoinRow>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{text} gives {error}");
    };
    check(
        r#"{"priority": "2-HIGH", "lines": 1, "revenue": "12.5"}"#,
        "`12.5` is no sum of 128 bits",
    );
    check(
        r#"{"priority": "2-HIGH", "lines": 1, "revenue": 12}"#,
        "expected a string",
    );
    check(
        r#"{"priority": "6-NEVER", "lines": 1, "revenue": "1"}"#,
        "invalid value: string \"6-NEVER\", expected OrderPriority",
    );
    check(
        r#"{"priority": "2-HIGH", "lines": 1, "revenue": "1", "more": 2}"#,
        "unknown field `more`",
    );
}
