//! `rackweave ycsb` from outside: every workload on every kind of rack, the store's file, errors.

use crate::common::interrupted;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.arg("ycsb").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("the binary runs")
}

/// A path in cargo's folder for tests, where no file exists.
fn path(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_file(&path).expect("the file of a run before may go");
    }
    path.to_str().expect("the path is text").to_owned()
}

const SMALL: &[&str] = &[
    "--records",
    "4000",
    "--operations",
    "3000",
    "--page-size",
    "8k",
    "--buffer",
    "256k",
];

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = run(&[SMALL, args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        (output.status.code(), error.as_str()),
        (Some(0), ""),
        "{args:?}: {text}"
    );
    let value: Value = serde_json::from_str(&text).expect("standard output is one JSON value");
    assert_eq!(value["schema"], "rackweave/ycsb/1");
    assert_eq!(value["verified"], true);
    assert_eq!(value["verification_errors"], 0);
    assert!(value["heap_to_buffers"].as_f64() > Some(5.0), "{value:#}");
    value
}

fn number(value: &Value, at: &str) -> u64 {
    let found = value.pointer(at).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{at} of {value:#}"))
}

/// Assertions that hold for every run.
#[track_caller]
fn check(value: &Value, workload: &str) {
    let kinds: &[(&str, u64, u64)] = match workload {
        "a" => &[("read", 50, 0), ("update", 50, 0)],
        "b" => &[("read", 95, 0), ("update", 5, 0)],
        "c" => &[("read", 100, 0)],
        "d" => &[("read", 95, 0), ("insert", 5, 1)],
        "e" => &[("insert", 5, 1), ("scan", 95, 0)],
        _ => &[("read", 50, 0), ("read_modify_write", 50, 0)],
    };
    let latency = value["latency"].as_array().expect("an array");
    assert_eq!(latency.len(), kinds.len(), "{latency:?}");
    let mut all = 0;
    for (found, (kind, percent, adds)) in latency.iter().zip(kinds) {
        assert_eq!(found["kind"], *kind);
        let count = number(found, "/count");
        all += count;
        // The mix is random; seven standard deviations of 3000 draws are less than a tenth.
        assert!(count.abs_diff(3000 * percent / 100) < 300, "{kind} {count}");
        assert!(found["p50_ns"].as_u64() <= found["p99_9_ns"].as_u64());
        if *adds == 1 {
            assert_eq!(number(value, "/records_after"), 4000 + count);
        }
    }
    assert_eq!((all, number(value, "/operations")), (3000, 3000));
    let pages = |name: &str| number(value, &format!("/pages/{name}"));
    let served: u64 = [
        "local_hits",
        "joined",
        "memory_indexed",
        "memory_fallback",
        "storage_indexed",
        "storage_fallback",
    ]
    .map(pages)
    .iter()
    .sum();
    // A fix may need the page more than once if it is changed meanwhile.
    assert!(served >= pages("fixes"), "{value:#}");
    assert!(pages("fixes") >= 3000);
    assert!(pages("storage_indexed") + pages("storage_fallback") > 0);
    assert!(pages("evicted_clean") + pages("evicted_dirty") > 0);
}

#[test]
fn every_workload_is_verified_in_real_time() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        check(&json(&["--workload", workload, "--memory"]), workload);
        check(&json(&["--workload", workload, "--threads", "2"]), workload);
    }
}

#[test]
fn every_workload_is_verified_in_virtual_time_among_faults() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let args = [
            "--workload",
            workload,
            "--simulated",
            "--loss",
            "0.002",
            "--reorder",
            "0.002",
            "--seed",
            "7",
        ];
        check(&json(&args), workload);
    }
}

#[test]
fn a_seed_gives_the_same_run() {
    let args = ["--workload", "a", "--simulated", "--seed", "11"];
    let (first, second) = (json(&args), json(&args));
    for at in ["/trace_hash", "/seconds", "/latency", "/pages"] {
        assert_eq!(first.pointer(at), second.pointer(at), "{at}");
    }
    let other = json(&["--workload", "a", "--simulated", "--seed", "12"]);
    assert_ne!(first["trace_hash"], other["trace_hash"]);
}

#[test]
fn pages_that_the_switch_does_not_index_come_by_the_server() {
    let value = json(&["--workload", "a", "--memory", "--indexed", "100"]);
    assert_eq!(number(&value, "/indexed_pages"), 100);
    assert!(number(&value, "/pages/storage_fallback") > 0, "{value:#}");
    assert!(number(&value, "/pages/storage_indexed") > 0, "{value:#}");
    check(&value, "a");
    let value = json(&["--workload", "f", "--memory", "--indexed", "0"]);
    assert_eq!(number(&value, "/pages/storage_indexed"), 0);
    assert_eq!(number(&value, "/pages/memory_indexed"), 0);
    check(&value, "f");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let value = json(&["--workload", "b", "--simulated", "--rate", "20000"]);
    let rate = value["operations_per_s"].as_f64().expect("a number");
    // In virtual time: 3000 gaps of 50 us on average.
    assert!((18_000.0..22_000.0).contains(&rate), "{rate}");
    check(&value, "b");
}

/// Runs `args` on the existing store in `file`, which determines the number of records.
#[track_caller]
fn again(file: &str, args: &[&str]) -> Value {
    let common = ["--file", file, "--reuse", "--format", "json"];
    let sizes = ["--page-size", "8k", "--buffer", "256k"];
    let output = run(&[&common[..], &sizes, &["--operations", "2000"], args].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["verified"], true);
    value
}

#[test]
fn a_store_is_found_as_it_was_left() {
    let file = path("again.pages");
    let first = json(&["--workload", "d", "--file", &file]);
    let records = number(&first, "/records_after");
    assert!(records > 4000);
    let second = again(&file, &["--workload", "a"]);
    assert_eq!(number(&second, "/parameters/records"), records);
    let third = again(&file, &["--workload", "e", "--nodes", "3"]);
    assert_eq!(number(&third, "/parameters/records"), records);
    let fourth = again(&file, &["--workload", "c"]);
    let after = number(&third, "/records_after");
    assert_eq!(number(&fourth, "/parameters/records"), after);
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn a_store_survives_a_process_that_is_killed() {
    let file = path("killed.pages");
    json(&["--workload", "c", "--file", &file]);
    let endless = ["--operations", "100000000", "--workload", "a"];
    let sizes = ["--page-size", "8k", "--buffer", "256k", "--reuse"];
    for _ in 0..3 {
        let mut child = command(&[&endless[..], &sizes, &["--file", &file]].concat())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(Duration::from_millis(700));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let value = again(&file, &["--workload", "f"]);
        assert_eq!(number(&value, "/parameters/records"), 4000);
    }
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn ctrl_c_writes_everything_home() {
    let file = path("interrupted.pages");
    json(&["--workload", "c", "--file", &file]);
    let args = [
        "--operations",
        "100000000",
        "--workload",
        "a",
        "--page-size",
        "8k",
        "--buffer",
        "256k",
        "--reuse",
        "--file",
        &file,
        "--format",
        "json",
    ];
    let output = interrupted(&mut command(&args), Duration::from_millis(1500));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(130), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["interrupted"], true);
    assert_eq!(value["problems"].as_array().map(Vec::len), Some(0));
    assert_eq!(value["verified"], true);
    again(&file, &["--workload", "c"]);
    std::fs::remove_file(file).expect("it is there");
}

/// The line on standard error of a command that is refused, with `file` for the path.
#[track_caller]
fn refusal(args: &[&str], file: &str) -> String {
    let output = run(args);
    let error = String::from_utf8(output.stderr).expect("standard error is text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let args = args.join(" ").replace(file, "FILE");
    format!("{args}\n    {}\n", error.trim_end().replace(file, "FILE"))
}

#[test]
fn mistakes_are_told_in_one_line() {
    let file = path("mistakes.pages");
    json(&["--workload", "c", "--file", &file]);
    let reuse = |more: &[&'static str]| {
        let mut args = vec!["--file", "FILE", "--reuse", "--page-size", "8k"];
        args.extend(more);
        args
    };
    let cases = vec![
        vec!["--records", "0"],
        vec!["--theta", "2"],
        vec!["--zipf", "NaN"],
        vec!["--record-size", "1001"],
        vec!["--record-size", "8k", "--page-size", "8k"],
        vec!["--page-size", "5000"],
        vec!["--page-size", "2k"],
        vec!["--page-size", "2m"],
        vec!["--buffer", "100k"],
        vec!["--depth", "0"],
        vec!["--depth", "1000"],
        vec!["--threads", "0"],
        vec!["--scan-length", "0"],
        vec!["--rate", "0"],
        vec!["--rate", "NaN"],
        vec!["--fallback", "nobody"],
        vec!["--simulated", "--memory"],
        vec!["--loss", "2"],
        vec!["--file", "FILE", "--page-size", "8k"],
        vec!["--file", "/nowhere/heap.pages"],
        vec!["--file", "/nowhere/heap.pages", "--reuse"],
        reuse(&["--records", "5000"]),
        reuse(&["--record-size", "992"]),
        vec!["--file", "FILE", "--reuse", "--page-size", "16k"],
        vec!["--file", "FILE", "--reuse", "--page-size", "4k"],
    ];
    let reported = |args: &Vec<&str>| {
        let args: Vec<&str> = args
            .iter()
            .map(|arg| if *arg == "FILE" { &file[..] } else { arg })
            .collect();
        refusal(&args, &file)
    };
    let all: String = cases.iter().map(reported).collect();
    insta::assert_snapshot!("ycsb_mistakes", all);
    std::fs::remove_file(file).expect("it is there");
}

/// The text with a placeholder for every number that follows one of these marks.
fn without_numbers(text: &str, marks: &[&str]) -> String {
    marks.iter().fold(text.to_owned(), |text, mark| {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let rest = part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            format!("{text}{mark}#{rest}")
        })
    })
}

#[test]
fn damaged_stores_are_told_in_one_line() {
    let file = path("damaged.pages");
    json(&["--workload", "c", "--file", &file]);
    let whole = std::fs::read(&file).expect("it is there");
    let args = ["--file", &file, "--reuse", "--page-size", "8k"];
    let mut all = String::new();
    let mut reported = |what: &str, bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("it may be written");
        // The positions of records, and so the checksums, are random.
        let error = without_numbers(&refusal(&args, &file), &["0x", "first: record "]);
        all += &format!("{what}: {error}");
    };
    reported("empty", &[]);
    reported("no whole block", &whole[..5000]);
    reported("half", &whole[..(whole.len() / 2) & !8191]);
    reported("the superblock alone", &whole[..8192]);
    reported("zeroes", &vec![0; whole.len()]);
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    reported("a bit of the superblock", &damaged(64));
    reported("a bit of the catalogue", &damaged(8192 * 2 + 200));
    reported("a bit of a record", &damaged(8192 * 20 + 4000));
    insta::assert_snapshot!("ycsb_damaged", all);
    std::fs::remove_file(file).expect("it is there");
}
