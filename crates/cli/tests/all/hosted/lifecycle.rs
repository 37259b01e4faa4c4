//! Racks that start, lose processes, and end.

use super::rack::{
    LIMIT, Process, RackFolder, await_gone, command, is_guest, is_whole, kill, lives,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::time::Instant;

/// Starts a rack.
fn up(place: &RackFolder) -> Process {
    let up = Process::start(&["up", place.config()]);
    up.await_line("all 4 nodes have joined");
    up
}

#[test]
fn up_makes_keys_serves_and_leaves_nothing() {
    let place = RackFolder::new("", "");
    let mut up = up(&place);
    up.await_line("made keys in");
    up.await_line("rackweave demo --config");
    let children = up.children();
    assert_eq!(children.len(), 5, "{children:?}");
    let info = place.info();
    assert!(is_whole(&info), "{info:#}");
    assert_eq!(info["security"], "tls");
    assert_eq!(info["switch_pid"], up.child("switch"));
    let nodes = info["nodes"].as_array().unwrap().iter();
    for node in nodes.filter(|node| !is_guest(node)) {
        assert_eq!(
            node["pid"],
            up.child(node["name"].as_str().unwrap()),
            "{node}"
        );
        assert_eq!(node["link"], "shared-memory");
        assert_eq!(node["mtu"], 4096);
        assert_eq!(node["joins"], 1);
    }
    place.demo_verifies();
    up.signal(Signal::INT);
    assert_eq!(up.await_end().code(), Some(0));
    for (name, pid) in children {
        assert!(!lives(pid), "{name} is left");
    }
    let output = place.run(&["info"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(" no rack runs at ") && text.contains("running:"),
        "{text}"
    );
}

#[test]
fn a_foreign_host_is_shown_and_not_waited_for() {
    let device = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = device.local_addr().unwrap().to_string();
    let host = format!(
        "[[host]]\nname = \"linux0\"\nmac = \"52:54:00:00:00:01\"\nip = \"10.77.1.1\"\n\
         udp = \"{at}\"\n"
    );
    let place = RackFolder::new("security = \"plain\"", &host);
    let _up = up(&place);
    let info = place.info();
    assert!(is_whole(&info), "{info:#}");
    // Behind the ports of four nodes and eight places for guests.
    let expected = json!([{
        "name": "linux0",
        "mac": "52:54:00:00:00:01",
        "ip": "10.77.1.1",
        "port": 12,
        "link": "udp",
        "at": at,
        "mtu": 4096,
        "counters": { "packets_in": 0, "bytes_in": 0, "packets_out": 0, "bytes_out": 0 },
    }]);
    assert_eq!(info["hosts"], expected);
    let output = place.run(&["info"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("52:54:00:00:00:01"), "{text}");
    place.demo_verifies();
}

#[test]
fn killed_processes_are_replaced_and_the_rack_works_again() {
    let place = RackFolder::plain("");
    let mut up = up(&place);
    for victim in ["switch", "storage0", "compute1"] {
        let pid = up.child(victim);
        kill(pid, Signal::KILL);
        up.await_line(&format!("{victim} ended unexpectedly, signal: 9"));
        let replaced = |info: &Value| {
            let nodes = info["nodes"].as_array().cloned().unwrap_or_default();
            let mut pids = vec![&info["switch_pid"]];
            pids.extend(nodes.iter().map(|node| &node["pid"]));
            is_whole(info) && !pids.contains(&&Value::from(pid))
        };
        place.await_info(victim, replaced);
        place.demo_verifies();
    }
    let children = up.children();
    up.signal(Signal::TERM);
    assert_eq!(up.await_end().code(), Some(0));
    await_gone(&children);
}

#[test]
fn when_up_is_killed_its_children_end() {
    let place = RackFolder::plain("link = \"unix\"\n");
    let mut first = up(&place);
    let children = first.children();
    first.signal(Signal::KILL);
    first.await_end();
    await_gone(&children);
    // Leftover files do not prevent a new start.
    let again = up(&place);
    place.demo_verifies();
    drop(again);
}

#[test]
fn without_restart_one_end_is_the_end_of_all() {
    let place = RackFolder::plain("");
    let mut up = Process::start(&["up", "--no-restart", place.config()]);
    up.await_line("all 4 nodes have joined");
    let children = up.children();
    kill(up.child("compute0"), Signal::KILL);
    assert_eq!(up.await_end().code(), Some(1));
    await_gone(&children);
}

#[test]
fn a_start_that_is_refused_again_and_again_ends() {
    let place = RackFolder::plain("");
    let _held = std::net::TcpListener::bind(place.control).unwrap();
    let mut up = Process::start(&["up", place.config()]);
    assert_eq!(up.await_end().code(), Some(2));
    let deaths = up.lines();
    let deaths = deaths
        .iter()
        .filter(|line| line.contains("ended unexpectedly"));
    assert_eq!(deaths.count(), 3);
    up.await_line("error: switch: cannot listen on");
    await_gone(&up.children());
}

#[test]
fn a_switch_that_dies_under_the_demo_makes_no_wrong_result() {
    let place = RackFolder::plain("");
    let up = up(&place);
    let demo = |delay_ms| {
        let started = command(&["demo", "--scale-factor", "0.05", "--config", place.config()])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        kill(up.child("switch"), Signal::KILL);
        let output = started.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {}
            // It says which systems were hit, or that it could not join.
            Some(1) => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(said.contains("problem: "), "{said}");
            }
            Some(2) => assert_eq!(error.lines().count(), 1, "{error}"),
            other => panic!("{other:?}: {error}"),
        }
        place.await_whole();
    };
    for delay_ms in [10, 150, 400] {
        demo(delay_ms);
    }
    place.demo_verifies();
}

#[test]
fn two_racks_stand_side_by_side() {
    let (one, other) = (RackFolder::plain(""), RackFolder::plain("link = \"udp\"\n"));
    let (first, second) = (up(&one), up(&other));
    std::thread::scope(|scope| {
        scope.spawn(|| one.demo_verifies());
        scope.spawn(|| other.demo_verifies());
    });
    drop(first);
    other.demo_verifies();
    drop(second);
}

#[test]
fn single_processes_join_and_end_as_told() {
    let place = RackFolder::new("security = \"plain\"\nlink = \"udp\"\n", "");
    let mut node = place.start(&["node", "storage0"]);
    node.await_line("waiting for the switch: cannot reach");
    let capture = place.folder.join("switch.pcapng");
    let mut switch = place.start(&["switch", "--capture", capture.to_str().unwrap()]);
    switch.await_line("listening at 127.0.0.1:");
    node.await_line("joined over udp");
    switch.await_line("storage0 joined over udp");
    let info = place.info();
    assert!(!is_whole(&info), "three nodes are absent: {info:#}");
    node.signal(Signal::TERM);
    assert_eq!(node.await_end().code(), Some(0));
    switch.await_line("storage0 left");
    switch.signal(Signal::TERM);
    assert_eq!(switch.await_end().code(), Some(0));
    let bytes = std::fs::read(capture).unwrap();
    assert_eq!(
        bytes[..4],
        [0x0a, 0x0d, 0x0d, 0x0a],
        "a pcapng section header"
    );
}

#[test]
fn events_are_json_lines() {
    let place = RackFolder::plain("");
    let mut up = Process::start(&["up", "--format", "json", place.config()]);
    up.await_line("\"ready\"");
    up.signal(Signal::INT);
    assert_eq!(up.await_end().code(), Some(0));
    for line in up.lines() {
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(event["schema"], "rackweave/event/1", "{line}");
        assert!(
            event["process"].is_string() && event["event"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_campaign_of_one_seed_verifies_and_leaves_nothing() {
    let started = Instant::now();
    let output = command(&[
        "chaos", "--system", "hosted", "--seeds", "1", "--format", "json",
    ])
    .output()
    .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["verified"], true, "{report:#}");
    assert!(report["items"].as_u64() > Some(0), "{report:#}");
    let faults = [
        "program_faults",
        "switch_faults",
        "kills",
        "stops",
        "cuts",
        "stalls",
    ]
    .map(|what| report[what].as_u64().unwrap());
    assert!(faults.iter().sum::<u64>() > 0, "{report:#}");
    assert!(started.elapsed() < 3 * LIMIT, "it hangs");
}
