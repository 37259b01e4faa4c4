//! The command `flow` from outside: scripts that run, scripts that are refused, interruption.

use crate::common::interrupted;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    // Messages name the file as it was given.
    command
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .arg("flow")
        .args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("the binary runs")
}

/// A file of this name with this text, in the working folder of commands.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the tests' folder may be written to");
    name.to_owned()
}

/// Runs a script. Returns its exit status and its report as JSON.
#[track_caller]
fn played(script: &str, more: &[&str]) -> (i32, Value) {
    let output = run(&[&[script, "--format", "json"], more].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error, "", "{script}");
    let value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    (output.status.code().expect("it ended by itself"), value)
}

/// The error message of a script that is refused.
#[track_caller]
fn refused(name: &str, text: &str) -> String {
    let output = run(&[&file(name, text), "--simulated"]);
    let error = String::from_utf8(output.stderr).expect("standard error is text");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        output.stdout.is_empty(),
        "nothing is printed beside an error"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    error.trim_end().to_owned()
}

/// A script with a flow `f` from the first storage node to both compute nodes, followed by `more`.
fn with_flow(shape: &str, more: &str) -> String {
    format!(
        "[[action]]\nat_ms = 0\naction = \"create\"\nflow = \"f\"\nshape = \"{shape}\"\n\
         producers = [\"storage0\"]\nconsumers = [\"compute0\", \"compute1\"]\nitem_bytes = 512\n\
         ring_bytes = 16384\nitems = 3000\n\n{more}"
    )
}

#[test]
fn the_example_runs_on_both_kinds_of_rack() {
    let example = run(&["--example"]);
    assert_eq!(example.status.code(), Some(0));
    let text = String::from_utf8(example.stdout).expect("it is text");
    let script = file("flow-example.toml", &text);
    for more in [&["--simulated", "--seed", "3"][..], &["--drivers", "0"]] {
        let (status, value) = played(&script, more);
        assert_eq!(status, 0, "{value:#}");
        assert_eq!(value["schema"], "rackweave/flow/1");
        assert_eq!(value["verified"], true);
        assert_eq!(value["problems"], Value::Array(Vec::new()));
        let flows = value["flows"].as_array().expect("flows");
        assert_eq!((flows.len(), &flows[0]["name"]), (2, &"scan".into()));
        assert!(
            flows.iter().all(|flow| flow["state"] == "ended"),
            "{value:#}"
        );
        let taken = |flow: &Value, role: &str| -> u64 {
            let members = flow["members"].as_array().expect("members").iter();
            let items = members.filter(|member| member["role"] == role);
            items
                .map(|member| member["items"].as_u64().expect("a number"))
                .sum()
        };
        let (pushed, got) = (taken(&flows[0], "producer"), taken(&flows[0], "consumer"));
        assert!(pushed > 0 && pushed == got, "{pushed} and {got}");
        let actions = value["actions"].as_array().expect("actions");
        let refused: Vec<_> = actions.iter().filter(|one| one["done"] == false).collect();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0]["expect_error"], true);
        assert!(!value["snapshots"].as_array().expect("snapshots").is_empty());
    }
}

#[test]
fn a_simulated_script_is_the_same_every_time() {
    let script = file(
        "flow-same.toml",
        &with_flow(
            "balance",
            "[[action]]\nat_us = 40\naction = \"add-consumer\"\nflow = \"f\"\nnode = \"storage1\"\n\
             consumer_rate_mb_s = 900\n\n\
             [[action]]\nat_us = 90\naction = \"remove-consumer\"\nflow = \"f\"\nconsumer = 0\n",
        ),
    );
    let (status, mut one) = played(&script, &["--simulated", "--seed", "9"]);
    let (_, mut other) = played(&script, &["--simulated", "--seed", "9"]);
    for value in [&mut one, &mut other] {
        value["real_seconds"] = Value::Null;
    }
    assert_eq!(one, other);
    assert_eq!(status, 0, "{one:#}");
    let members = one["flows"][0]["members"].as_array().expect("members");
    assert_eq!(members.len(), 4);
    assert_eq!(members[1]["state"], "removed");
    assert!(
        members[3]["items"].as_u64() > Some(0),
        "the new one gets its share"
    );
}

#[test]
fn a_refused_action_fails_the_verdict_unless_it_was_expected() {
    let actions = |expect: &str| {
        format!(
            "[[action]]\nat_us = 10\naction = \"add-consumer\"\nflow = \"f\"\nnode = \"storage1\"\n\
             {expect}\n[[action]]\nat_us = 20\naction = \"weight\"\nflow = \"f\"\nweight = 0\n\
             {expect}"
        )
    };
    let script = file("flow-refused.toml", &with_flow("shuffle", &actions("")));
    let (status, value) = played(&script, &["--simulated"]);
    assert_eq!(status, 1);
    let problems = value["problems"].as_array().expect("problems").iter();
    let problems: Vec<&str> = problems.filter_map(Value::as_str).collect();
    insta::assert_snapshot!("refused_actions", problems.join("\n"));
    // The flow has continued.
    assert_eq!(value["flows"][0]["state"], "ended");
    assert_eq!(value["flows"][0]["items"], 6000);
    let expected = actions("expect_error = true\n");
    let script = file("flow-expected.toml", &with_flow("shuffle", &expected));
    assert_eq!(played(&script, &["--simulated"]).0, 0);
    let done = with_flow(
        "shuffle",
        "[[action]]\nat_us = 5\naction = \"weight\"\nflow = \"f\"\nweight = 2\n\
         expect_error = true\n",
    );
    let (status, value) = played(&file("flow-done.toml", &done), &["--simulated"]);
    assert_eq!(status, 1);
    assert_eq!(
        value["problems"][0],
        "action 2: weight was to be refused, and was done"
    );
}

#[test]
fn a_closed_flow_is_no_failure_and_a_replica_may_join_and_leave() {
    let script = file(
        "flow-replicas.json",
        r#"[
          {"at_ms": 0, "action": "create", "flow": "log", "shape": "replicate", "items": 2000,
           "producers": ["storage0", "storage1"], "consumers": ["compute0", "compute1"],
           "item_bytes": 256, "doorbells": true},
          {"at_ms": 0, "action": "create", "flow": "other", "shape": "balance", "run_ms": 5000,
           "producers": ["storage0"], "consumers": ["compute0"], "consumer_rate_mb_s": 20},
          {"at_us": 50, "action": "add-consumer", "flow": "log", "node": "storage1"},
          {"at_us": 60, "action": "add-producer", "flow": "log", "node": "compute0", "items": 100},
          {"at_us": 90, "action": "remove-consumer", "flow": "log", "node": "compute1"},
          {"at_us": 400, "action": "close", "flow": "other"},
          {"at_us": 400, "action": "weight", "flow": "other", "weight": 3, "expect_error": true}
        ]"#,
    );
    let (status, value) = played(&script, &["--simulated", "--loss", "0.01", "--seed", "5"]);
    assert_eq!(status, 0, "{value:#}");
    assert_eq!(value["flows"][0]["state"], "ended");
    assert_eq!(value["flows"][1]["state"], "closed");
    assert_eq!(value["flows"][0]["members"][3]["items"], 4100);
}

#[test]
fn scripts_that_cannot_be_meant_are_refused_before_anything_runs() {
    let after = |more: &str| with_flow("balance", &format!("[[action]]\nflow = \"f\"\n{more}\n"));
    let said = [
        refused(
            "unknown-key.toml",
            &with_flow("balance", "").replace("producers", "producer"),
        ),
        refused(
            "unknown-action.toml",
            &after("at_ms = 1\naction = \"remove-consumr\""),
        ),
        refused(
            "unknown-node.toml",
            &with_flow("balance", "").replace("storage0", "storag0"),
        ),
        refused(
            "unknown-flow.toml",
            &with_flow(
                "balance",
                "[[action]]\nat_ms = 1\naction = \"close\"\nflow = \"g\"\n",
            ),
        ),
        refused("no-time.toml", &after("action = \"close\"")),
        refused(
            "too-much.toml",
            &after("at_ms = 1\naction = \"close\"\nnode = \"compute0\""),
        ),
        refused(
            "backwards.toml",
            &after("at_ms = 2\naction = \"report\"\n[[action]]\nat_ms = 1\naction = \"report\""),
        ),
        refused(
            "twice.toml",
            &(with_flow("balance", "") + &with_flow("shuffle", "")),
        ),
        refused("shape.toml", &with_flow("replicat", "")),
        refused(
            "no-amount.toml",
            &with_flow("balance", "").replace("items = 3000", ""),
        ),
        refused("spec.toml", &with_flow("balance", "").replace("512", "513")),
        refused(
            "ring.toml",
            &with_flow("balance", "").replace("16384", "600"),
        ),
        refused(
            "weight.toml",
            &after("at_ms = 1\naction = \"weight\"\nweight = \"much\""),
        ),
        refused(
            "stranger.toml",
            &after("at_ms=1\naction=\"remove-consumer\"\nnode=\"storage0\""),
        ),
        refused(
            "rate.toml",
            &(with_flow("balance", "") + "consumer_rate_mb_s = [1, 2, 3]\n"),
        ),
        refused(
            "type.toml",
            &with_flow("balance", "").replace("3000", "\"many\""),
        ),
        refused("empty.toml", ""),
        refused("key.json", "[\n {\"at_ms\": 0,\n  \"acton\": \"close\"}\n]"),
        refused(
            "flow.json",
            "{\"action\": [{\"at_ms\": 0, \"action\": \"close\", \"flow\": \"f\"}]}",
        ),
    ];
    insta::assert_snapshot!("bad_scripts", said.join("\n"));
}

#[test]
fn wrong_usage_is_told() {
    let missing = run(&["nowhere.toml"]);
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        error.contains("nowhere.toml") && error.contains("check the path"),
        "{error}"
    );
    let script = file("flow-both.toml", &with_flow("balance", ""));
    let both = run(&[&script, "--hosted", "--simulated"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&both.stderr).contains("contradict each other"));
    assert_eq!(run(&[]).status.code(), Some(2));
}

#[test]
fn an_interruption_ends_cleanly() {
    let long = with_flow("balance", "").replace("items = 3000", "run_ms = 60000");
    let script = file("flow-long.toml", &long);
    let mut command = command(&[&script, "--format", "json"]);
    let output = interrupted(&mut command, std::time::Duration::from_millis(1500));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{error}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON, whatever happens");
    assert_eq!(value["interrupted"], true);
    assert_eq!(value["flows"][0]["state"], "ended", "{value:#}");
    assert_eq!(value["problems"], Value::Array(Vec::new()));
}
