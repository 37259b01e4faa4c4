//! `exchange`: batches without a query, over both transports.

use super::{check, stderr, stdout};
use serde_json::Value;

#[test]
fn all_workers_get_the_same_over_all_transports() {
    let arguments = "exchange --transports rackweave,flight --local 3 --size 4 \
                     --batch-rows 100,5000 --partitions 2 --repeat 2 --warm-up 1";
    let report = stdout(&check(&format!("{arguments} --format json"), 0));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["workers"], 3);
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let bytes = case["bytes"].as_u64().unwrap();
        assert!((4 << 20..8 << 20).contains(&bytes), "{case}");
        for (transport, runs) in case["runs"].as_array().unwrap().iter().enumerate() {
            assert_eq!(runs.as_array().unwrap().len(), 2);
            assert!(case["gigabytes_per_second"][transport].as_f64().unwrap() > 0.0);
            for run in runs.as_array().unwrap() {
                // Neither is compressed, and no part of it stays in a process.
                assert!(run["exchange_bytes"].as_u64().unwrap() >= bytes, "{case}");
                assert_eq!(run["rows"], 3, "a row of each consumer");
            }
        }
    }
}

#[test]
fn the_table_has_rates_and_ratios() {
    let arguments = "exchange --local 2 --size 1 --repeat 1 --warm-up 0 --link udp \
                     --compression lz4";
    let text = stdout(&check(arguments, 0));
    assert!(text.contains("rackweave/flight"), "{text}");
    assert_eq!(text.matches("GB/s").count(), 2, "{text}");
}

#[test]
fn an_exchange_needs_workers() {
    let check = |arguments: &str, expect: &str| {
        let text = stderr(&check(arguments, 2));
        assert!(text.contains(expect), "{arguments}: {text}");
    };
    check("exchange --local 1", "--local 4");
    check("exchange --transports single", "exchanges nothing");
}
