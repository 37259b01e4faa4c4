//! `rackweave perf index_shift` from outside: a shifted Zipf is planned anew, and how long it took.

use serde_json::Value;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    let common = ["perf", "index_shift", "--records", "20000", "--quiet"];
    command.args(common).args(args);
    command.output().expect("the binary runs")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(value["schema"], "rackweave/perf/1");
    assert_eq!(value["test"], "index_shift");
    assert_eq!(value["verified"], true);
    value
}

#[track_caller]
fn number(value: &Value, name: &str) -> f64 {
    let found = value[name].as_f64();
    found.unwrap_or_else(|| panic!("{name} of {value:#}"))
}

#[test]
fn a_shift_is_planned_anew_within_some_looks() {
    for seed in ["1", "2", "3"] {
        let value = json(&["--simulated", "--seed", seed]);
        let look_every = number(&value["parameters"], "look_every_s");
        let replanned = number(&value, "replanned_s");
        // Not before an evaluation, and not long after the first one that can detect the shift.
        assert!(
            replanned > 0.0 && replanned < look_every * 10.0,
            "{value:#}"
        );
        assert!(number(&value, "settled_s") >= replanned);
        assert!(number(&value, "plans") >= 1.0);
        let share = |when: &str| number(&value, &format!("hit_share_{when}"));
        let (before, shifted, after) = (share("before"), share("shifted"), share("after"));
        assert!(shifted + 0.05 < before.min(after), "{value:#}");
    }
}

#[test]
fn a_rack_in_real_time_does_it_too_and_the_text_says_so() {
    let value = json(&[]);
    assert_eq!(value["rack"], "embedded");
    assert!(number(&value, "replanned_s") > 0.0);
    let output = run(&["--simulated", "--seed", "1"]);
    let text = String::from_utf8(output.stdout).expect("it is text");
    for part in [
        "replanned: ",
        "hit share before: ",
        "hit share shifted: ",
        "verified: true",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_it_has_no_use_for_is_refused() {
    for args in [&["-s", "512"][..], &["-D", "1"], &["--hosted"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
