//! Tests of comparing results: equal in any order, and each kind of difference.

use super::{Cell, Table};
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

async fn table(sql: &str) -> Table {
    let frame = SessionContext::new().sql(sql).await.unwrap();
    let plan = frame.logical_plan().clone();
    let schema = plan.schema().inner().clone();
    Table::read(&schema, &frame.collect().await.unwrap(), &plan).unwrap()
}

/// Compares the results of two queries; `expect` is a part of the message, `""` for equality.
async fn check(sql: &str, reference: &str, expect: &str) {
    let result = table(sql)
        .await
        .check("this", &table(reference).await, "that");
    match result {
        Ok(()) => assert_eq!("", expect, "{sql} equals {reference}"),
        Err(message) => {
            assert!(
                !expect.is_empty() && message.contains(expect),
                "{sql}: {message}"
            );
        }
    }
}

#[tokio::test]
async fn rows_are_a_multiset() {
    check("values (1, 'a'), (2, 'b')", "values (2, 'b'), (1, 'a')", "").await;
    check(
        "values (1), (1), (2)",
        "values (1), (2), (2)",
        "this has the row 1, that has 2",
    )
    .await;
    check(
        "values (1), (2)",
        "values (1)",
        "this has 2 rows, that has 1",
    )
    .await;
    check("values (null), (1)", "values (1), (null)", "").await;
    check("select 1 as a", "select 1 as b", "columns").await;
    check("select 1 as a", "select '1' as a", "columns").await;
}

#[tokio::test]
async fn keys_are_in_order_and_ties_are_not() {
    let rows = "from (values (1, 'a'), (1, 'b'), (2, 'c')) as t (k, v)";
    let other = "from (values (1, 'b'), (1, 'a'), (2, 'c')) as t (k, v)";
    check(
        &format!("select k, v {rows} order by k"),
        &format!("select k, v {other} order by k"),
        "",
    )
    .await;
    let mut reversed = table(&format!("select k, v {rows} order by k limit 10")).await;
    assert_eq!(reversed.ordered_by, [0]);
    let reference = reversed.clone();
    reversed.rows.reverse();
    let message = reversed.check("this", &reference, "that").unwrap_err();
    assert!(
        message.contains("row 0 of this is not in the order"),
        "{message}"
    );
}

#[tokio::test]
async fn the_keys_of_a_plan_are_found() {
    let from = "from (values (1, 2)) as t (a, b)";
    let ordered_by = |order: &str| format!("select b, a + b as c {from} order by {order} limit 1");
    assert_eq!(table(&ordered_by("c desc, b")).await.ordered_by, [1, 0]);
    assert_eq!(table(&ordered_by("b, a")).await.ordered_by, [0]);
    assert_eq!(
        table(&format!("select b {from}")).await.ordered_by,
        [0_usize; 0]
    );
}

#[tokio::test]
async fn decimals_are_exact_and_floats_are_not() {
    check(
        "select 0.1::double + 0.2::double as x",
        "select 0.3::double as x",
        "",
    )
    .await;
    check(
        "select 1.0::double as x",
        "select 1.000001::double as x",
        "has the row",
    )
    .await;
    let decimal = |text: &str| format!("select {text}::decimal(20, 10) as x");
    check(
        &decimal("1.0000000000"),
        &decimal("1.0000000001"),
        "has the row",
    )
    .await;
    check(
        "select date '2024-02-28' as d",
        "select date '2024-02-29' as d",
        "has the row",
    )
    .await;
}

/// Shuffled rows with slightly changed floats are equal; one changed cell is found.
#[test]
fn random_tables() {
    let seed = std::env::var("SEED").map_or_else(|_| clock_seed(), |seed| seed.parse().unwrap());
    println!("seed {seed}: replay with SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..200 {
        let rows = random.random_range(1..40);
        let table = Table {
            columns: vec![
                ("a".to_owned(), DataType::Utf8),
                ("b".to_owned(), DataType::Float64),
            ],
            rows: (0..rows).map(|_| random_row(&mut random)).collect(),
            ordered_by: Vec::new(),
        };
        let mut other = table.clone();
        other.rows.shuffle(&mut random);
        for row in &mut other.rows {
            if let Cell::Float(number) = &mut row[1] {
                *number *= 1.0 + 1e-12;
            }
        }
        assert_eq!(table.check("this", &other, "that"), Ok(()));
        let changed = random.random_range(0..rows);
        other.rows[changed][0] = Cell::Exact("changed".to_owned());
        assert!(table.check("this", &other, "that").is_err());
    }
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    now.as_secs() ^ u64::from(now.subsec_nanos())
}

fn random_row(random: &mut StdRng) -> Vec<Cell> {
    let exact = match random.random_range(0..5) {
        0 => Cell::Null,
        other => Cell::Exact(other.to_string()),
    };
    vec![
        exact,
        Cell::Float(f64::from(random.random_range(-1000..1000))),
    ]
}
