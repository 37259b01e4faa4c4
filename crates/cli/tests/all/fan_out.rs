//! Load-balanced and replicated flows of `demo` and `perf`, from outside.

use serde_json::Value;
use std::process::Command;

#[track_caller]
fn json(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    let output = command.args(args).args(["--format", "json"]).output();
    let output = output.expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), error.as_str()),
        (Some(0), ""),
        "{args:?}"
    );
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON value")
}

#[track_caller]
fn demo(args: &[&str]) -> Value {
    let value = json(&[&["demo", "--scale-factor", "0.02"], args].concat());
    assert_eq!(value["verified"], true, "{value:#}");
    assert_eq!(value["balanced"]["verified"], true);
    let consumers = value["balanced"]["consumers"]
        .as_array()
        .expect("consumers");
    let rows = consumers
        .iter()
        .map(|one| one["rows"].as_u64().expect("rows"));
    assert_eq!(Some(rows.sum()), value["rows_lineitem"].as_u64());
    let replicated = &value["replicated"];
    assert_eq!(replicated["verified"], true);
    assert_eq!(replicated["rows"], value["rows_orders"]);
    let replicas = replicated["replicas"].as_array().expect("replicas");
    assert!(replicas.len() > 1);
    assert!(
        replicas
            .iter()
            .all(|one| one["checksum"] == replicas[0]["checksum"])
    );
    value
}

#[test]
fn the_demo_balances_and_replicates() {
    let value = demo(&["--simulated"]);
    let consumers = value["balanced"]["consumers"]
        .as_array()
        .expect("consumers");
    let rows = |slowed: bool| -> Vec<u64> {
        let some = consumers.iter().filter(|one| one["slowed"] == slowed);
        some.filter_map(|one| one["rows"].as_u64()).collect()
    };
    // In virtual time the slow consumer takes four times as long per row.
    assert!(rows(true)[0] * 2 < rows(false)[0], "{consumers:?}");
    demo(&[
        "--simulated",
        "--loss",
        "0.01",
        "--corrupt",
        "0.01",
        "--seed",
        "7",
    ]);
    demo(&["--systems", "flows"]);
}

#[test]
fn perf_measures_both_shapes() {
    for (test, copies) in [("balance_bw", 1), ("replicate_bw", 3)] {
        for rack in [
            &["--simulated"][..],
            &["--drivers", "0", "--ring", "1048576"],
        ] {
            let args = ["perf", test, "-n", "200", "-s", "4096", "--consumers", "3"];
            let value = json(&[&args[..], rack].concat());
            assert_eq!(value["verified"], true, "{value:#}");
            assert_eq!(value["items"], 200 * copies);
            let each = value["consumer_gigabytes_per_s"].as_f64().expect("a rate");
            let all = value["gigabytes_per_s"].as_f64().expect("a rate");
            assert!((each * 3.0 - all).abs() < 1e-9 * all);
            assert_eq!(value["ratio_to_memcpy"].is_null(), rack[0] == "--simulated");
        }
    }
}
