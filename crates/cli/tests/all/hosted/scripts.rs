//! The command `flow` on a running rack: as guests, as named nodes, and what is refused.

use super::rack::{Process, RackFolder, refused};
use serde_json::{Value, json};

/// Every action. A change takes a while on a busy machine, so the flow that is changed has items
/// for two seconds.
const SCRIPT: &str = r#"[
  {"at_ms": 0, "action": "create", "flow": "scan", "shape": "balance", "items": 8000,
   "producers": ["storage0", "storage1"], "consumers": ["compute0", "compute1"],
   "item_bytes": 1024, "ring_bytes": 65536, "producer_rate_mb_s": 4, "weight": 2},
  {"at_ms": 5, "action": "create", "flow": "log", "shape": "replicate", "items": 3000,
   "producers": ["storage0"], "consumers": ["compute0", "compute1"],
   "item_bytes": 256, "ring_bytes": 65536, "producer_rate_mb_s": 1, "doorbells": true},
  {"at_ms": 10, "action": "create", "flow": "other", "shape": "balance", "run_ms": 60000,
   "producers": ["compute1"], "consumers": ["storage0"], "producer_rate_mb_s": 5},
  {"at_ms": 10, "action": "weight", "flow": "scan", "weight": 7},
  {"at_ms": 20, "action": "add-producer", "flow": "log", "node": "compute0", "items": 100},
  {"at_ms": 40, "action": "remove-consumer", "flow": "log", "node": "compute1"},
  {"at_ms": 60, "action": "add-consumer", "flow": "scan", "node": "storage1"},
  {"at_ms": 80, "action": "remove-consumer", "flow": "scan", "consumer": 0},
  {"at_ms": 100, "action": "report"},
  {"at_ms": 100, "action": "close", "flow": "other"},
  {"at_ms": 100, "action": "weight", "flow": "other", "weight": 3, "expect_error": true}
]"#;

/// The script in the folder of the rack.
fn script(place: &RackFolder) -> String {
    let path = place.folder.join("script.json");
    std::fs::write(&path, SCRIPT).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs the script on the rack, and checks what does not depend on the nodes.
#[track_caller]
fn report_of(place: &RackFolder, more: &[&str]) -> Value {
    let script = script(place);
    let output = place.run(&[&["flow", &script, "--format", "json"], more].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error, "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["mode"], "hosted");
    assert_eq!(report["verified"], true);
    let flows = [0, 1, 2].map(|at| &report["flows"][at]);
    let states = flows.map(|flow| &flow["state"]);
    assert_eq!(states, ["ended", "ended", "closed"]);
    // Every item comes to one of the consumers, of which one leaves and one joins.
    assert_eq!(
        (&flows[0]["weight"], &flows[0]["items"]),
        (&json!(7), &json!(16_000))
    );
    // The replica that stays has the items of both producers.
    let replica = &flows[1]["members"][2];
    assert_eq!(
        (&replica["role"], &replica["items"]),
        (&json!("consumer"), &json!(3100))
    );
    report
}

#[test]
fn a_script_runs_on_a_running_rack_as_guests_or_as_named_nodes() {
    let place = RackFolder::plain("");
    let up = Process::start(&["up", place.config(), "--without", "compute0,compute1"]);
    up.await_line("have joined");
    let guests = report_of(&place, &[]);
    let as_guests = json!({"storage0": "guest0", "storage1": "guest1", "compute0": "guest2",
                           "compute1": "guest3"});
    assert_eq!(guests["joined_as"], as_guests);
    assert_eq!(guests["flows"][0]["members"][0]["node"], "guest0");

    let named = report_of(&place, &["--as", "compute1,guest7,guest0,compute0"]);
    let as_named = json!({"storage0": "compute1", "storage1": "guest7", "compute0": "guest0",
                          "compute1": "compute0"});
    assert_eq!(named["joined_as"], as_named);
    assert_eq!(named["flows"][0]["members"][0]["node"], "compute1");
    assert_eq!(place.info()["lanes_used"], 0, "nothing is left behind");
}

#[test]
fn a_script_that_finds_no_place_is_refused_in_one_line() {
    let place = RackFolder::plain("");
    let script = script(&place);
    let too_few = place.run(&["flow", &script, "--as", "compute0"]);
    refused(&too_few, "4 are needed");
    refused(&place.run(&["flow", &script]), "rackweave up");
}
