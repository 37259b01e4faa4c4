//! `stat --hosted` and `top --hosted` on a running rack under load: every system has counters that
//! move.

use super::rack::{Process, RackFolder, command};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

/// Starts a command on the rack.
fn begun(place: &RackFolder, args: &[&str]) -> Child {
    let all = [args, &["--config", place.config(), "--format", "json"]].concat();
    let mut command = command(&all);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

/// Calls `look` again and again until the command has ended, which has to succeed.
#[track_caller]
fn while_it_runs(mut child: Child, mut look: impl FnMut()) {
    while child.try_wait().unwrap().is_none() {
        look();
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

/// A report of `stat`, the last of those that it prints.
#[track_caller]
fn stat(place: &RackFolder, more: &[&str]) -> Value {
    let output = place.run(&[&["stat", "--hosted", "--format", "json"], more].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let reports = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    reports.last().expect("it prints a report").unwrap()
}

/// The first screen of `top`; `None` without `script`, which gives it a terminal.
fn screen(place: &RackFolder) -> Option<String> {
    let (program, config) = (env!("CARGO_BIN_EXE_rackweave"), place.config());
    let top = format!("stty rows 60 cols 160; '{program}' top --hosted --config '{config}'");
    let child = Command::new("script")
        .args(["-q", "-e", "-c", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: script is not installed");
        return None;
    };
    // The key is read after the first screen is drawn.
    child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// How many demos may run until every system has been seen.
const DEMOS_MAX: u32 = 5;

/// The systems whose counters are not zero.
fn moving(rack: &Value) -> impl Iterator<Item = &'static str> {
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let pages = rack["pages"]["answers"].as_object();
    let delivered = |flow: &Value| count(&flow["items_delivered"]) > 0;
    let drawn = |sequencer: &Value| count(&sequencer["next"]) > 0;
    let found = [
        ("flows", all(&rack["flows"]).iter().any(delivered)),
        ("pages", pages.is_some_and(|all| all.contains_key("memory"))),
        ("index", count(&rack["index"]["queries"]) > 0),
        ("sequencers", all(&rack["sequencers"]).iter().any(drawn)),
    ];
    found
        .into_iter()
        .filter_map(|(name, is)| is.then_some(name))
}

/// The headings on a screen of systems that the rack has at the moment.
fn shown(screen: &str) -> impl Iterator<Item = &'static str> {
    let headings = [
        ("FLOWS", "flows"),
        ("PAGES", "pages"),
        ("INDEX", "index"),
        ("SEQUENCERS", "sequencers"),
    ];
    let found = headings.map(|(heading, name)| screen.contains(heading).then_some(name));
    found.into_iter().flatten()
}

#[test]
fn every_system_has_counters_that_move_under_load() {
    let place = RackFolder::of_all_systems("");
    let up = Process::start(&["up", place.config()]);
    up.await_line("all 4 nodes have joined");
    let (mut counted, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut has_screen = true;
    let all = BTreeSet::from(["flows", "index", "pages", "sequencers"]);
    // On a busy machine a phase of the demo may be over before anybody has looked.
    for _ in 0..DEMOS_MAX {
        let demo = begun(&place, &["demo", "--scale-factor", "0.1"]);
        while_it_runs(demo, || {
            counted.extend(moving(&stat(&place, &[])["rack"]));
            let screen = screen(&place);
            has_screen = screen.is_some();
            seen.extend(screen.iter().flat_map(|screen| shown(screen)));
        });
        if counted == all && (seen == all || !has_screen) {
            break;
        }
    }
    assert_eq!(counted, all, "stat");
    if has_screen {
        assert_eq!(seen, all, "top");
    }

    // Messages are packets of the nodes between which they go, and nothing else: no other command
    // uses the rack now.
    let mut rates = BTreeSet::new();
    let messaging = begun(&place, &["perf", "messaging", "-D", "4"]);
    while_it_runs(messaging, || {
        let report = stat(&place, &["--interval", "0.3", "--count", "2"]);
        let nodes = report["change"]["nodes"].as_array().cloned();
        for node in nodes.unwrap_or_default() {
            let name = node["name"].as_str().unwrap_or_default().to_owned();
            if node["bytes_out_per_s"].as_f64() > Some(1e6) {
                rates.insert(name);
            }
        }
    });
    assert!(!rates.is_empty(), "messages go from a guest");
    assert!(
        rates.iter().all(|name| name.starts_with("guest")),
        "{rates:?}"
    );
}
