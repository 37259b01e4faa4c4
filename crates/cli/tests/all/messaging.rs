//! `rackweave perf messaging` from outside: its report, its end, its refusals.

use crate::common::interrupted;
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.args(["perf", "messaging"]).args(args);
    command
}

#[track_caller]
fn json(output: &Output, status: i32) -> Value {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(status), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(value["schema"], "rackweave/perf/1");
    assert_eq!(value["test"], "messaging");
    assert_eq!(value["verified"], true);
    value
}

#[track_caller]
fn number(value: &Value, at: &str) -> u64 {
    let found = value.pointer(at).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{at} of {value:#}"))
}

/// Unaligned sizes, also over links that lose, duplicate and reorder packets.
#[test]
fn everything_is_measured_and_verified() {
    let bad_links = [
        "--loss",
        "0.001",
        "--duplicate",
        "0.001",
        "--reorder",
        "0.001",
    ];
    for (size, links) in [("70001", &[][..]), ("1048576", &bad_links)] {
        let common = ["-D", "0.1", "-s", size, "--seed", "5", "--format", "json"];
        let output = command(&[&common, links].concat()).output();
        let value = json(&output.expect("the binary runs"), 0);
        assert_eq!(value["interrupted"], false);
        for test in ["in_place", "in_place_region", "copied_out", "single_buffer"] {
            assert_eq!(number(&value[test], "/message_bytes").to_string(), size);
            assert!(number(&value[test], "/messages") >= 1);
        }
        let small = &value["small"];
        assert_eq!(number(small, "/message_bytes"), 64);
        assert!(number(small, "/messages") >= 1024);
        assert!(small["messages_per_package"].as_f64() >= Some(1.0));
        for ping_pong in [&value["ping_pong"], &value["ping_pong_resting"]] {
            assert!(number(ping_pong, "/round_trip_ns/samples") >= 1);
            let half = number(ping_pong, "/round_trip_ns/p50") as f64 / 2.0;
            assert_eq!(ping_pong["one_way_ns"]["p50"].as_f64(), Some(half));
        }
        for curve in ["streamed", "alone"] {
            let points = value["sweep"][curve]["points"].as_array().expect("points");
            let sizes: Vec<u64> = points
                .iter()
                .map(|point| number(point, "/message_bytes"))
                .collect();
            let expected: Vec<u64> = (16..=26).map(|power| 1 << power).collect();
            assert_eq!(sizes, expected, "{curve}");
        }
        let memcpy = &value["memcpy"];
        assert_eq!(number(memcpy, "/buffer_bytes"), 64 << 20);
    }
}

#[cfg(unix)]
#[test]
fn an_interruption_ends_it_in_an_orderly_way() {
    let mut command = command(&["-D", "3600", "--format", "json"]);
    let output = interrupted(&mut command, Duration::from_millis(1500));
    let value = json(&output, 130);
    assert_eq!(value["interrupted"], true);
    assert!(value["sweep"].is_null(), "there was no time for it");
    assert!(number(&value, "/in_place/messages") >= 1);
}

#[test]
fn what_it_has_no_use_for_is_refused() {
    for (args, words) in [
        (&["-s", "100000000"][..], "at most 67108864 bytes"),
        (&["-n", "5"], "messaging has no use for -n"),
        (&["--simulated"], "messaging has no use for --simulated"),
    ] {
        let output = command(args).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(words), "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}
