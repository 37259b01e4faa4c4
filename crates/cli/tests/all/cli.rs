//! The command from outside: exit statuses, one line for every error, JSON that parses.

use crate::common::interrupted;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.args(args).output().expect("the binary runs")
}

/// A file of this name with this text, in cargo's folder for tests.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the tests' folder may be written to");
    path.to_str().expect("the path is text").to_owned()
}

/// Asserts exit status 2 and one line on standard error that contains `expected`.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let output = run(args);
    let error = String::from_utf8(output.stderr).expect("standard error is text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(
        !error.contains("panicked") && !error.contains("backtrace"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    assert!(
        error.starts_with("error: ") && error.contains(expected),
        "{args:?}: {error}"
    );
    assert!(
        output.stdout.is_empty(),
        "{args:?}: nothing is printed beside an error"
    );
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--format", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    assert_eq!(error, "", "{args:?}");
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON value")
}

#[track_caller]
fn refused_config(name: &str, text: &str, expected: &str) {
    let path = file(name, text);
    refused(&["info", "--config", &path], expected);
    refused(
        &["perf", "read_lat", "-n", "1", "--config", &path],
        expected,
    );
}

#[test]
fn a_bad_configuration_is_told_in_one_line() {
    refused_config(
        "unknown.toml",
        "seed = 1\n[swich]\n",
        "unknown.toml:2:2: unknown setting `swich`",
    );
    refused_config("syntax.toml", "seed = \n", "syntax.toml:1:");
    refused_config("type.toml", "seed = \"seven\"\n", "type.toml:1:");
    refused_config("power.toml", "[link]\npackets = 1000\n", "a power of two");
    refused_config("range.toml", "[nic]\nmtu = 1500\n", "nic.mtu is 1500");
    refused_config("nodes.toml", "node = []\n", "the number of nodes is 0");
    refused_config("lanes.toml", "[switch]\nlanes = 64\n", "raise switch.lanes");
}

#[test]
fn a_program_that_does_not_fit_is_told_what_it_needs() {
    let software = "[switch]\nbudget = \"software\"\nmemory = 1000\n";
    refused_config(
        "software.toml",
        software,
        "switch.budget: the program needs",
    );
}

#[test]
fn an_unreadable_file_is_told() {
    refused(
        &["info", "--config", "/nowhere/rack.toml"],
        "/nowhere/rack.toml",
    );
    refused(
        &["--config", "/nowhere/rack.toml", "demo"],
        "/nowhere/rack.toml",
    );
}

#[test]
fn arguments_out_of_range_are_told() {
    refused(&["info", "--loss", "2"], "faults.loss is 2");
    refused(&["info", "--loss", "NaN"], "faults.loss is NaN");
    refused(&["info", "--drivers", "1000"], "driver_threads is 1000");
    refused(&["perf", "read_bw", "-m", "1500"], "nic.mtu is 1500");
    refused(&["perf", "flow_bw", "-s", "100"], "multiple of 8");
    refused(
        &["perf", "read_bw", "-t", "60000"],
        "raise nic.queue_entries",
    );
    refused(
        &["perf", "read_bw", "-q", "64", "-t", "4096"],
        "raise nic.completion_entries",
    );
    refused(&["perf", "write_bw", "-s", "1073741824"], "memory_limit");
    for args in [
        &["perf", "read_bw", "-n", "0"][..],
        &["perf", "read_bw", "-D", "-1"],
        &["perf", "read_bw", "-q", "0"],
        &["perf", "nonsense"],
        &["info", "--seed", "x"],
        &["chaos", "--seeds", "0"],
        &["nonsense"],
    ] {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(
            error.starts_with("error: ") && !error.contains("panicked"),
            "{args:?}: {error}"
        );
    }
}

#[test]
fn contradictory_flags_are_told() {
    refused(
        &["perf", "read_bw", "-n", "5", "-D", "1"],
        "-n and -D contradict each other",
    );
    refused(
        &["perf", "read_lat", "-t", "8"],
        "read_lat has no use for -t",
    );
    refused(
        &["perf", "read_lat", "-q", "2"],
        "read_lat has no use for -q",
    );
    refused(
        &["perf", "read_bw", "--nodes", "4"],
        "read_bw has no use for --nodes",
    );
    refused(
        &["perf", "read_bw", "--operation", "cas"],
        "no use for --operation",
    );
    refused(
        &["perf", "idle", "--simulated"],
        "idle has no use for --simulated",
    );
    refused(
        &["perf", "flow_bw", "--simulated", "--threads", "2"],
        "--threads goes with",
    );
    refused(
        &["perf", "read_bw", "--simulated", "--drivers", "1"],
        "contradict each other",
    );
}

#[test]
fn a_capture_that_cannot_be_written_is_told() {
    let path = "/nowhere/capture.pcapng";
    for test in ["read_lat", "flow_bw"] {
        refused(&["perf", test, "-n", "1", "--capture", path], path);
        refused(
            &["perf", test, "-n", "1", "--simulated", "--capture", path],
            path,
        );
    }
}

#[cfg(not(debug_assertions))]
#[test]
fn a_release_build_has_no_planted_bugs() {
    for name in ["list", "flows-early-head"] {
        refused(
            &["chaos", "--canary", name],
            "a release build has no planted bugs",
        );
    }
}

#[cfg(debug_assertions)]
#[test]
fn planted_bugs_are_listed_with_their_systems() {
    let output = run(&["chaos", "--canary", "list"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let has = |bug: &str| text.lines().any(|line| line.trim_end() == bug);
    assert!(has("flows flows-early-head"), "{text}");
    assert!(has("index index-half-loaded in-network"), "{text}");
    refused(
        &["chaos", "--canary", "nonsense"],
        "there is no planted bug",
    );
}

/// Assertions about the output of every message test, whatever the rack.
#[track_caller]
fn check_messages(test: &str, rack: &str) {
    let mut args = vec!["perf", test, "-n", "200", "--seed", "9"];
    if rack == "simulated" {
        args.push("--simulated");
    } else {
        args.extend(["--drivers", "0"]);
    }
    let value = json(&args);
    assert_eq!(value["schema"], "rackweave/perf/1");
    assert_eq!(
        (&value["test"], &value["rack"]),
        (&test.into(), &rack.into())
    );
    assert_eq!(
        (&value["seed"], &value["messages"]),
        (&9.into(), &200.into())
    );
    assert_eq!(
        (&value["verified"], &value["interrupted"]),
        (&true.into(), &false.into())
    );
    assert!(
        value["messages_per_s"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0),
        "{value}"
    );
    let latency = &value["latency_ns"];
    assert_eq!(latency["samples"], 200);
    let order = ["min", "p50", "p90", "p99", "p99.9", "max"];
    let times: Vec<u64> = order
        .iter()
        .map(|key| latency[key].as_u64().expect(key))
        .collect();
    assert!(times.is_sorted(), "{latency}");
    // No message crosses two links and a switch in less than 50 ns, nor takes a minute.
    assert!(times[0] > 50 && times[5] < 60_000_000_000, "{latency}");
    assert_eq!(value["link_utilisation"].is_f64(), rack == "simulated");
}

#[test]
fn every_message_test_verifies_its_data_in_real_time() {
    for test in [
        "read_bw",
        "read_lat",
        "write_bw",
        "write_lat",
        "send_bw",
        "send_lat",
        "atomic_lat",
    ] {
        check_messages(test, "embedded");
    }
}

#[test]
fn every_message_test_verifies_its_data_in_virtual_time() {
    for test in [
        "read_bw",
        "read_lat",
        "write_bw",
        "write_lat",
        "send_bw",
        "send_lat",
        "atomic_lat",
    ] {
        check_messages(test, "simulated");
    }
}

#[test]
fn a_seed_repeats_a_simulated_measurement() {
    let args = [
        "perf",
        "write_bw",
        "--simulated",
        "-n",
        "300",
        "--loss",
        "0.01",
        "--seed",
        "5",
    ];
    assert_eq!(json(&args), json(&args));
}

#[test]
fn messages_survive_bad_links_and_compare_and_swap_counts() {
    let faults = [
        "--loss",
        "0.01",
        "--duplicate",
        "0.01",
        "--reorder",
        "0.01",
        "--corrupt",
        "0.01",
    ];
    for test in ["read_bw", "write_bw", "send_bw"] {
        let args = [
            "perf",
            test,
            "-q",
            "3",
            "-n",
            "100",
            "-s",
            "10000",
            "--simulated",
        ];
        let value = json(&[&args[..], &faults].concat());
        assert_eq!(
            (&value["verified"], &value["messages"]),
            (&true.into(), &300.into())
        );
    }
    let value = json(&["perf", "atomic_lat", "--operation", "cas", "-n", "50"]);
    assert_eq!(value["verified"], true);
}

#[test]
fn a_duration_ends_a_measurement() {
    let value = json(&["perf", "read_bw", "-D", "0.001", "--simulated"]);
    let elapsed = value["elapsed_s"].as_f64().expect("a number");
    assert!((0.001..0.01).contains(&elapsed), "{elapsed}");
    let value = json(&[
        "perf",
        "flow_bw",
        "-D",
        "0.05",
        "--ring",
        "1048576",
        "--drivers",
        "0",
    ]);
    assert_eq!(value["verified"], true);
}

#[test]
fn flows_are_verified_in_both_racks() {
    for (threads, touch) in [("1", "--quiet"), ("2", "--touch")] {
        let args = [
            "perf", "flow_bw", "-s", "1024", "-n", "3000", "--ring", "262144", touch,
        ];
        let value = json(&[&args[..], &["--threads", threads]].concat());
        assert_eq!(
            (&value["verified"], &value["items"]),
            (&true.into(), &3000.into())
        );
        assert!(value["ratio_to_memcpy"].is_f64() && value["link"].is_null());
    }
    let value = json(&["perf", "flow_bw", "-n", "300", "--simulated"]);
    assert_eq!(
        (&value["verified"], &value["items"]),
        (&true.into(), &300.into())
    );
    assert_eq!(value["communication_cpu"]["producers_s"], 0.0);
    assert_eq!(value["communication_cpu"]["consumers_s"], 0.0);
    assert!(value["link"]["payload_rate"].is_f64() && value["ratio_to_memcpy"].is_null());
}

#[test]
fn shuffles_are_verified_in_both_racks() {
    for rack in ["--quiet", "--simulated"] {
        let size = ["-s", "4096", "-n", "200", "--ring", "65536", "--nodes", "3"];
        let value = json(&[&["perf", "shuffle_bw", rack][..], &size].concat());
        assert_eq!(
            (&value["verified"], &value["items"]),
            (&true.into(), &(9 * 200).into())
        );
        assert_eq!(value["one_to_one"]["items"], 200);
        assert!(value["ratio_to_linear"].is_f64());
    }
}

#[test]
fn the_machine_is_measured() {
    let value = json(&["perf", "rewrite", "-D", "0.1"]);
    assert_eq!(
        (&value["verified"], &value["rack"]),
        (&true.into(), &"none".into())
    );
    assert_eq!(value["sizes"][1]["payload_bytes"], 4096);
    let value = json(&["perf", "idle", "-D", "0.1"]);
    assert!(value["percent_of_a_core"].is_f64() && value["percent_of_a_core_waiting"].is_f64());
}

#[test]
fn the_list_names_every_test() {
    let value = json(&["perf", "list"]);
    assert_eq!(value["schema"], "rackweave/perf-list/1");
    assert_eq!(value["tests"].as_array().map(Vec::len), Some(19));
}

#[test]
fn a_capture_holds_packets_from_before_and_after() {
    for rack in ["--quiet", "--simulated"] {
        let path = file("perf.pcapng", "");
        let value = json(&["perf", "write_lat", "-n", "10", rack, "--capture", &path]);
        let bytes = std::fs::read(&path).expect("the capture is there");
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header");
        assert_eq!(value["capture"]["bytes"], bytes.len());
        // A WRITE and an acknowledgement, each into the switch and out of it.
        assert_eq!(value["capture"]["packets"], 40);
    }
}

#[test]
fn info_is_a_configuration_file() {
    let output = run(&["info", "--seed", "77", "--loss", "0.25"]);
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(output.status.code(), Some(0));
    let path = file("effective.toml", &text);
    let value = json(&["info", "--config", &path]);
    assert_eq!(value["schema"], "rackweave/info/1");
    assert_eq!(
        (&value["config"]["seed"], &value["config"]["faults"]["loss"]),
        (&77.into(), &0.25.into())
    );
    assert_eq!(
        value["config_hash"],
        json(&["info", "--seed", "77", "--loss", "0.25"])["config_hash"]
    );
    assert_ne!(value["config_hash"], json(&["info"])["config_hash"]);
    assert_eq!(value["switch"]["stages"].as_array().map(Vec::len), Some(12));
    let memory = &value["memory"];
    assert!(memory["overhead_bytes"].as_u64() <= memory["overhead_bytes_max"].as_u64());
}

/// The hash can be recomputed from either form of the output alone.
#[test]
fn the_hash_of_a_configuration_can_be_recomputed() {
    let fnv1a = |text: &str| {
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    };
    let args = ["info", "--seed", "5", "--reorder", "0.25"];
    let value = json(&args);
    let hash = value["config_hash"].as_str().expect("it is text");
    let toml = value["config_toml"].as_str().expect("it is text");
    assert_eq!(fnv1a(toml), hash);
    let text = String::from_utf8(run(&args).stdout).expect("it is text");
    let settings: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let settings = settings.join("\n");
    assert_eq!(fnv1a(&format!("{}\n", settings.trim())), hash);
}

#[test]
fn info_tells_what_was_chosen_and_why() {
    let text = "[[node]]\nname = \"a\"\nrole = \"storage\"\n[[node]]\nname = \"b\"\nrole = \
                \"compute\"\nfaults = { corrupt = 0.01 }\n[[store]]\nname = \"orders\"\nnode = \
                \"a\"\nmedium = \"file\"\npath = \"orders.pages\"\nbytes = 65536\n";
    let path = file("paths.toml", text);
    let value = json(&["info", "--config", &path]);
    let paths = value["paths"].as_array().expect("it is an array");
    let why = |rack: Value, of: &str, what: &str| {
        let mut found = paths.iter();
        let found = found.find(|path| {
            (&path["rack"], &path["of"], &path["what"]) == (&rack, &of.into(), &what.into())
        });
        let found = found.unwrap_or_else(|| panic!("{what} of {of} in {value}"));
        found["why"].as_str().expect("it is text").to_owned()
    };
    let icrc = why("embedded".into(), "a", "ICRC");
    assert_eq!(icrc, "faults.corrupt of b is above 0");
    assert_eq!(value["links"]["icrc_reason"], icrc.as_str());
    assert!(why(Value::Null, "orders", "directory").contains("switch.page_entries is 0"));
    // Inspecting a configuration creates nothing.
    let store = std::path::Path::new(&path).with_file_name("orders.pages");
    assert!(!store.exists());
    // The printed text is a file with the same configuration.
    let output = run(&["info", "--config", &path]);
    let again = file("paths-again.toml", &String::from_utf8_lossy(&output.stdout));
    let again = json(&["info", "--config", &again]);
    assert_eq!(
        (&again["config"], &again["paths"]),
        (&value["config"], &value["paths"])
    );
}

#[test]
fn flags_go_over_the_file() {
    let path = file(
        "flags.toml",
        "seed = 3\ndriver_threads = 2\n[faults]\nloss = 0.1\n",
    );
    let value = json(&["info", "--config", &path, "--seed", "4", "--loss", "0"]);
    let config = &value["config"];
    assert_eq!(
        (&config["seed"], &config["driver_threads"]),
        (&4.into(), &2.into())
    );
    assert_eq!(config["faults"]["loss"], 0.0);
}

#[cfg(unix)]
#[test]
fn an_interruption_ends_a_measurement_in_an_orderly_way() {
    let capture = file("interrupted.pcapng", "");
    for args in [
        &["perf", "idle", "-D", "3600"][..],
        &["perf", "read_bw", "-D", "3600", "-s", "64"],
        &[
            "perf",
            "write_bw",
            "-D",
            "3600",
            "--simulated",
            "-s",
            "64",
            "--capture",
            &capture,
        ],
        &[
            "perf",
            "flow_bw",
            "-D",
            "3600",
            "--threads",
            "2",
            "--ring",
            "65536",
            "-s",
            "1024",
        ],
        &["perf", "flow_bw", "-D", "3600", "--simulated"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
        command.args(args).args(["--format", "json"]);
        let output = interrupted(&mut command, std::time::Duration::from_millis(700));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{args:?}: {error}");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON, whatever happens");
        assert_eq!(
            (&value["interrupted"], &value["verified"]),
            (&true.into(), &true.into())
        );
        if let Some(bytes) = value["capture"]["bytes"].as_u64() {
            let length = std::fs::metadata(&capture)
                .expect("the capture is there")
                .len();
            assert_eq!(bytes, length, "the capture is complete");
        }
    }
}

#[test]
fn nobody_reading_is_no_failure() {
    let binary = env!("CARGO_BIN_EXE_rackweave");
    let script = format!("{binary} info 2>&1 >/dev/full; {binary} perf list | true");
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("error: standard output cannot be written"),
        "{text}"
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}
