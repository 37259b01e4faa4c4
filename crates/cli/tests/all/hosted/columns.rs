//! The command `columns`: servers and clients are processes that join a rack, as nodes that are left
//! to them or as guests.

use super::rack::{Process, RackFolder, refused};
use rustix::process::Signal;
use serde_json::Value;

/// The default nodes, and places for guests.
const RACK: &str = "[[guest]]\ncount = 3\n";

const SCALE: &str = "0.01";

/// A rack whose nodes but the last are left to this test.
fn up(place: &RackFolder) -> Process {
    let without = "storage0,storage1,compute0";
    let up = Process::start(&["up", place.config(), "--without", without]);
    up.await_line("compute1 joined over");
    up
}

/// A server that is this node, or a guest if it has no name.
fn serve(place: &RackFolder, node: &str, part: &str) -> Process {
    let mut args = vec!["columns", "serve", "--part", part, "--scale-factor", SCALE];
    args.extend((!node.is_empty()).then_some(node));
    let server = place.start(&args);
    server.await_line("serving 15 columns");
    server
}

#[track_caller]
fn query(place: &RackFolder, name: &str) -> Value {
    let output = place.run(&["columns", "query", name, "--format", "json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"], true, "{report:#}");
    assert_eq!(report["schema"], "rackweave/columns/1");
    report
}

#[track_caller]
fn query_fails(place: &RackFolder, expected: &str) {
    let output = place.run(&["columns", "query", "q6", "compute0"]);
    refused(&output, expected);
    assert!(output.stdout.is_empty());
}

fn queries_over(link: &str) {
    let hosted = format!("security = \"plain\"\nlink = {link:?}\n");
    let place = RackFolder::new(&hosted, RACK);
    let _up = up(&place);
    query_fails(&place, "start `rackweave columns serve`");
    let mut first = serve(&place, "storage0", "1/2");
    query_fails(&place, "nobody serves part 2 of 2");
    let _second = serve(&place, "", "2/2");
    let q6 = query(&place, "q6");
    let q1 = query(&place, "q1");
    for (report, columns) in [(&q6, 4), (&q1, 7)] {
        assert_eq!(report["columns"].as_array().unwrap().len(), columns);
        let servers = report["servers"].as_array().unwrap();
        assert_eq!(servers.len(), 2, "{report:#}");
        for key in ["rows", "bytes"] {
            let parts = servers.iter().map(|server| server[key].as_u64().unwrap());
            assert_eq!(parts.sum::<u64>(), report[key].as_u64().unwrap());
        }
        assert!(report["bytes"].as_u64() > Some(0));
        assert!(report["gigabytes_per_second"].as_f64() > Some(0.0));
        // Only scale factor 1 has a published answer.
        assert_eq!(report["matches_published"], Value::Null);
    }
    assert_eq!(q6["rows"], q1["rows"]);
    assert!(q6["revenue"].is_string() && q1["revenue"].is_null());
    assert_eq!(q1["q1"].as_array().unwrap().len(), 4);
    // A server that is asked to end says what it has sent: the columns of both queries.
    first.signal(Signal::INT);
    assert_eq!(first.await_end().code(), Some(0));
    first.await_line("served 11 columns");
    query_fails(&place, "nobody serves part 1 of 2");
}

#[test]
fn queries_over_shared_memory_are_verified() {
    queries_over("shared-memory");
}

#[test]
fn queries_over_vxlan_are_verified() {
    queries_over("udp");
}

#[test]
fn a_server_that_is_killed_can_be_started_again() {
    let place = RackFolder::new("security = \"plain\"\n", RACK);
    let _up = up(&place);
    let mut server = serve(&place, "storage0", "1/1");
    query(&place, "q6");
    server.signal(Signal::KILL);
    server.await_end();
    // Until its death is noticed, its service does not answer; then it has no name.
    query_fails(&place, "start `rackweave columns serve`");
    let _again = serve(&place, "storage0", "1/1");
    query(&place, "q6");
}

#[test]
fn servers_of_different_tables_are_refused() {
    let place = RackFolder::new("security = \"plain\"\n", RACK);
    let _up = up(&place);
    let _first = serve(&place, "storage0", "1/2");
    let _second = serve(&place, "storage1", "2/3");
    query_fails(&place, "the servers have parts of different tables");
    refused(
        &place.run(&["columns", "serve", "compute0", "--format", "openmetrics"]),
        "use --format json",
    );
}
