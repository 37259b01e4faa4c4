//! Campaigns of all simulated systems at once.

use serde_json::Value;
use std::process::Command;

fn chaos(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    let output = command.arg("chaos").args(args).output();
    let output = output.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn all_systems_are_attacked_and_judged_together() {
    let args = ["--system", "all", "--seeds", "2", "--seed", "5"];
    let (code, text, error) = chaos(&[&args[..], &["--format", "json"]].concat());
    assert_eq!((code, &*error), (Some(0), ""), "{text}");
    let report: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(report["verified"], true);
    assert_eq!(report["violations"], 0);
    assert_eq!(
        (&report["seeds"], &report["seeds_run"]),
        (&12.into(), &12.into())
    );
    let campaigns = report["campaigns"].as_array().expect("an array");
    let names: Vec<_> = campaigns
        .iter()
        .map(|one| (one["system"].as_str().unwrap_or(""), one["access"].as_str()))
        .collect();
    let expect = [
        ("flows", None),
        ("pages", None),
        ("index", None),
        ("index", Some("in-network")),
        ("sequencer", None),
        ("messaging", None),
    ];
    assert_eq!(names, expect);
    // Each campaign equals the same campaign run alone.
    let alone = [
        "--system",
        "index",
        "--access",
        "in-network",
        "--seeds",
        "2",
    ];
    let (_, text, _) = chaos(&[&alone[..], &["--seed", "5", "--format", "json"]].concat());
    let alone: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(alone["trace_hash"], campaigns[3]["trace_hash"]);

    let (code, text, _) = chaos(&args);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("index in-network") && text.ends_with("verified: true\n"),
        "{text}"
    );
}

#[test]
fn what_only_one_system_knows_is_refused() {
    for (args, expect) in [
        (
            &["--system", "all", "--access", "rpc"][..],
            "--access is for --system index",
        ),
        (&["--system", "nonsense"], "messaging, hosted, all"),
    ] {
        let (code, text, error) = chaos(args);
        assert_eq!((code, &*text), (Some(2), ""), "{error}");
        assert!(error.contains(expect), "{error}");
    }
}
