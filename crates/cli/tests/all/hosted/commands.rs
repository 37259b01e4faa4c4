//! The demo and the measurements on racks of processes, and causes of their early end.

use super::rack::{LIMIT, Process, RackFolder, command, kill, refused};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Starts a rack.
fn up(place: &RackFolder) -> Process {
    let up = Process::start(&["up", place.config()]);
    up.await_line("all 4 nodes have joined");
    up
}

/// The output of a command that succeeds.
#[track_caller]
fn result(place: &RackFolder, args: &[&str]) -> Value {
    let output = place.run(&[args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A demo that takes a while, `millis` after its start.
fn begun(place: &RackFolder, millis: u64) -> Child {
    let factor = ["demo", "--scale-factor", "0.5"];
    let demo = command(
        &[
            &factor[..],
            &["--config", place.config(), "--format", "json"],
        ]
        .concat(),
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(millis));
    demo
}

fn demo_over(link: &str) {
    let place = RackFolder::of_all_systems(&format!("link = {link:?}\n"));
    let _up = up(&place);
    let report = result(&place, &["demo", "--scale-factor", "0.01"]);
    assert_eq!(report["mode"], "hosted");
    assert_eq!(report["verified"], true);
    assert_eq!(report["rows_orders"], 15_000);
    assert_eq!(report["left_out"], json!([]));
    let systems = report["systems"].as_array().unwrap();
    let names: Vec<_> = systems.iter().map(|system| &system["name"]).collect();
    assert_eq!(names, ["flows", "pages", "tree", "messaging", "sequencer"]);
    for system in systems {
        assert_eq!(system["verified"], true, "{system:#}");
    }
    for node in report["nodes"].as_array().unwrap() {
        assert_eq!(node["link"], link);
        assert!(node["rows"].as_u64() > Some(0), "{node}");
    }
    // The same rows give the same answers wherever they are computed.
    let embedded = command(&[
        "demo",
        "--systems",
        "flows",
        "--scale-factor",
        "0.01",
        "--format",
        "json",
    ])
    .output();
    let embedded: Value = serde_json::from_slice(&embedded.unwrap().stdout).unwrap();
    assert_eq!(report["result_checksum"], embedded["result_checksum"]);
    assert_eq!(report["bytes"], embedded["bytes"]);
}

#[test]
fn the_demo_over_shared_memory_is_verified() {
    demo_over("shared-memory");
}

#[test]
fn the_demo_over_unix_datagrams_is_verified() {
    demo_over("unix");
}

#[test]
fn the_demo_over_vxlan_is_verified() {
    demo_over("udp");
}

#[test]
fn the_demo_does_not_mind_the_death_of_other_nodes() {
    let place = RackFolder::plain("");
    let up = up(&place);
    for (node, millis) in [("compute1", 200), ("storage0", 600)] {
        let demo = begun(&place, millis);
        kill(up.child(node), Signal::KILL);
        let output = demo.wait_with_output().unwrap();
        // The demo is nodes of its own.
        assert_eq!(output.status.code(), Some(0), "{node}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verified"], true);
        place.await_whole();
    }
    place.demo_verifies();
}

#[test]
fn an_interrupted_demo_says_so_and_leaves_nothing_behind() {
    let place = RackFolder::plain("");
    let _up = up(&place);
    let silent = |what| place.await_info(what, |info| info["lanes_used"] == 0);
    let demo = begun(&place, 300);
    kill(demo.id(), Signal::INT);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"], false);
    assert_eq!(report["interrupted"], true);
    silent("the end of an interrupted demo's flows");
    // As above, but the demo is killed.
    let mut demo = begun(&place, 300);
    demo.kill().unwrap();
    demo.wait().unwrap();
    silent("the end of a killed demo's flows");
    place.demo_verifies();
}

#[test]
fn every_measurement_runs_and_is_verified() {
    let place = RackFolder::of_all_systems("");
    let _up = up(&place);
    for (test, more) in [
        ("read_bw", &["-q", "2", "-t", "16"][..]),
        ("write_bw", &["-s", "5000"]),
        ("send_bw", &["-s", "70000", "-t", "8"]),
        ("read_lat", &[]),
        ("write_lat", &["-m", "1024"]),
        ("send_lat", &[]),
        ("atomic_lat", &["--operation", "cas"]),
        ("atomic_lat", &[]),
        ("flow_bw", &["--ring", "1048576", "--touch"]),
        ("shuffle_bw", &["--ring", "1048576"]),
    ] {
        let report = result(&place, &[&["perf", test, "-n", "50"], more].concat());
        assert_eq!(report["verified"], true, "{test}");
        assert_eq!(report["rack"], "hosted", "{test}");
        assert_eq!(report["links"]["compute1"], "shared-memory", "{test}");
        if test == "flow_bw" {
            assert!(report["ratio_to_embedded"].as_f64() > Some(0.0), "{report}");
            assert_eq!(report["embedded"]["items"], report["items"]);
        }
    }
    for (test, more) in [
        ("balance_bw", &["-n", "200", "--ring", "1048576"][..]),
        ("replicate_bw", &["-n", "200", "--ring", "1048576"]),
        ("rpc", &["-D", "0.3"]),
        ("sequencer", &["-D", "0.9"]),
        ("messaging", &["-D", "0.5"]),
        ("pages", &["-D", "0.4"]),
        ("pages", &["-D", "0.4", "-t", "4"]),
        ("index_shift", &[]),
    ] {
        let report = result(&place, &[&["perf", test], more].concat());
        assert_eq!(report["verified"], true, "{test}");
        assert_eq!(report["rack"], "hosted", "{test}");
        if *test == *"pages" {
            // The store of this rack is in memory.
            for rate in ["pages_per_s", "file_pages_per_s", "to_file"] {
                assert!(report["storage"][rate].as_f64() > Some(0.0), "{report}");
            }
            assert!(report["hit"]["samples"].as_u64() > Some(0), "{report}");
            assert!(
                report["leased_hit"]["by_lease"].as_u64() > Some(0),
                "{report}"
            );
        }
    }
    let idle = result(&place, &["perf", "idle", "-D", "0.2"]);
    assert_eq!(idle["verified"], true);
    assert!(idle["percent_of_a_core_waiting"].as_f64() >= Some(0.0));
}

#[test]
fn an_interrupted_flow_reports_what_it_moved() {
    let place = RackFolder::plain("");
    let _up = up(&place);
    let args = ["perf", "flow_bw", "-D", "60", "--ring", "1048576"];
    let flow = command(&[&args[..], &["--config", place.config(), "--format", "json"]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    place.await_info("a flow", |info| info["lanes_used"].as_u64() > Some(0));
    std::thread::sleep(Duration::from_millis(100));
    kill(flow.id(), Signal::INT);
    let output = flow.wait_with_output().unwrap();
    assert!(
        begun.elapsed() < LIMIT,
        "it does not wait for its time to pass"
    );
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert!(report["items"].as_u64() > Some(0), "{report}");
}

#[test]
fn what_a_rack_that_runs_cannot_do_is_refused_in_one_line() {
    // A refusal needs no process.
    let place = RackFolder::plain("");
    for (args, says) in [
        (
            &["demo", "--capture", "x"][..],
            "rackweave switch --capture",
        ),
        (
            &["demo", "--loss", "0.1"],
            "--loss cannot change a hosted rack",
        ),
        (
            &["perf", "flow_bw", "--capture", "x"],
            "rackweave switch --capture",
        ),
        (&["perf", "flow_bw", "-m", "1024"], "nic.mtu"),
        (&["perf", "rewrite", "--hosted"], "in this process"),
        (&["perf", "pages", "--double-write"], "its stores already"),
        (&["demo", "--simulated", "--hosted"], "contradict"),
        (&["demo", "--as", "compute0"], "4 are needed"),
    ] {
        let output = place.run(args);
        refused(&output, says);
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
