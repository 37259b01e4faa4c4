//! `rackweave ycsb --target index` from outside: every workload by every access, errors.

use serde_json::Value;
use std::process::{Command, Output};

const ACCESSES: [&str; 4] = ["local", "rpc", "one-sided", "in-network"];

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    let output = command.arg("ycsb").args(args).output();
    output.expect("the binary runs")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let small = [
        "--target",
        "index",
        "--records",
        "3000",
        "--operations",
        "2000",
    ];
    let output = run(&[&small, args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        (output.status.code(), error.as_str()),
        (Some(0), ""),
        "{args:?}: {text}"
    );
    let value: Value = serde_json::from_str(&text).expect("standard output is one JSON value");
    assert_eq!(value["schema"], "rackweave/ycsb/1");
    assert_eq!(value["target"], "index");
    assert_eq!(
        (&value["verified"], number(&value, "/operations")),
        (&Value::Bool(true), 2000)
    );
    assert_eq!(number(&value, "/verification_errors"), 0);
    value
}

fn number(value: &Value, at: &str) -> u64 {
    let found = value.pointer(at).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{at} of {value:#}"))
}

#[test]
fn every_workload_goes_by_every_access() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        for access in ACCESSES {
            for rack in [&["--threads", "2"][..], &["--simulated", "--loss", "0.001"]] {
                let common = ["--workload", workload, "--access", access];
                let value = json(&[&common, rack].concat());
                assert_eq!(value["access"], access);
                assert_eq!(value["client"].is_null(), access == "local");
                let reads = ["one-sided", "in-network"].contains(&access);
                assert_eq!(value["reader"].is_null(), !reads);
                assert_eq!(value["network"].is_null(), access != "in-network");
                let inserts = value["latency"].as_array().expect("an array");
                let inserts = inserts.iter().find(|kind| kind["kind"] == "insert");
                let inserts = inserts.map_or(0, |kind| number(kind, "/count"));
                assert_eq!(number(&value, "/records_after"), 3000 + inserts);
            }
        }
    }
}

#[test]
fn a_dpu_has_its_part() {
    for access in ["rpc", "one-sided", "in-network"] {
        let common = ["--workload", "a", "--endpoints", "2", "--access", access];
        let value = json(&[&common, &["--simulated", "--node-size", "512"][..]].concat());
        for (at, node) in ["storage0", "dpu0"].iter().enumerate() {
            assert_eq!(value["endpoints"][at]["node"], *node);
            assert!(number(&value, &format!("/endpoints/{at}/writes")) > 100);
        }
    }
}

#[test]
fn the_text_says_where_time_goes() {
    let args = [
        "--target",
        "index",
        "--access",
        "one-sided",
        "--cache",
        "64k",
        "--simulated",
    ];
    let small = ["--records", "2000", "--operations", "1000"];
    let output = run(&[&args[..], &small].concat());
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "target:  ",
        "one-sided",
        "reads per lookup:",
        "storage0",
        "clients",
        "servers",
        "verified:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_seed_gives_the_same_run() {
    let args = [
        "--workload",
        "a",
        "--simulated",
        "--access",
        "one-sided",
        "--seed",
    ];
    let of = |seed| json(&[&args[..], &[seed]].concat());
    let (first, second, other) = (of("3"), of("3"), of("4"));
    for at in ["/trace_hash", "/seconds", "/latency", "/reader", "/time"] {
        assert_eq!(first.pointer(at), second.pointer(at), "{at}");
    }
    assert_ne!(first["trace_hash"], other["trace_hash"]);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let index = |args: &[&'static str]| [&["--target", "index"], args].concat();
    let cases = [
        index(&["--buffer", "1m"]),
        index(&["--page-size", "8k"]),
        index(&["--file", "heap.pages"]),
        index(&["--indexed", "7"]),
        index(&["--fallback", "memory0"]),
        index(&["--memory"]),
        vec!["--access", "rpc"],
        vec!["--node-size", "2k"],
        vec!["--endpoints", "2"],
        vec!["--cache", "1m"],
        vec!["--server-threads", "2"],
        index(&["--access", "local", "--depth", "4"]),
        index(&["--access", "local", "--nodes", "4"]),
        index(&["--access", "local", "--endpoints", "2"]),
        index(&["--access", "local", "--server-threads", "2"]),
        index(&["--access", "rpc", "--cache", "1m"]),
        index(&["--records", "0"]),
        index(&["--records", "100000000000"]),
        index(&["--record-size", "20"]),
        index(&["--record-size", "64k"]),
        index(&["--node-size", "100"]),
        index(&["--node-size", "1000"]),
        index(&["--node-size", "8k"]),
        index(&["--endpoints", "0"]),
        index(&["--endpoints", "3"]),
        index(&["--depth", "0"]),
        index(&["--depth", "257"]),
        index(&["--threads", "0"]),
        index(&["--server-threads", "0"]),
        index(&["--rate", "NaN"]),
        vec!["--fan-out", "16"],
        vec!["--scan-parts", "2"],
        index(&["--access", "rpc", "--scan-parts", "2"]),
        index(&["--access", "one-sided", "--scan-parts", "17"]),
        index(&["--fan-out", "2"]),
        index(&["--fan-out", "1000"]),
    ];
    let reported = |args: &Vec<&str>| {
        let output = run(args);
        let error = String::from_utf8(output.stderr).expect("standard error is text");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
        format!("{}\n{error}", args.join(" "))
    };
    let all: String = cases.iter().map(reported).collect();
    insta::assert_snapshot!("ycsb_index_mistakes", all);
}
