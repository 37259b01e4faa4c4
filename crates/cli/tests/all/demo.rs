//! `rackweave demo` on an embedded rack: every system, small.

use crate::common::interrupted;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

const ALL: [&str; 5] = ["flows", "pages", "tree", "messaging", "sequencer"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.arg("demo").args(args);
    if !args.contains(&"--scale-factor") {
        command.args(["--scale-factor", "0.01"]);
    }
    command
}

#[track_caller]
fn run(args: &[&str], code: i32) -> Output {
    let output = command(args).output().expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}{text}");
    output
}

#[track_caller]
fn json(args: &[&str], code: i32) -> Value {
    let output = run(&[args, &["--format", "json"]].concat(), code);
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON value")
}

/// A file of this test process.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let file = format!("rackweave-demo-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).expect("the folder for temporary files takes files");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("its name is text")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A file that cannot be removed is left behind; the test itself is complete.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn names(value: &Value) -> Vec<&str> {
    let systems = value["systems"].as_array().expect("systems");
    let name = |system: &'_ Value| -> usize {
        let name = system["name"].as_str().expect("a name");
        let at = ALL.iter().position(|one| *one == name);
        at.expect("it is one of the systems")
    };
    systems.iter().map(|system| ALL[name(system)]).collect()
}

/// A rate beside its limit.
#[track_caller]
fn check_measure(measure: &Value) {
    let number = |name: &str| measure[name].as_f64().filter(|number| *number > 0.0);
    let (rate, limit) = (number("rate"), number("limit"));
    let (rate, limit) = rate.zip(limit).expect("two numbers");
    let ratio = number("ratio").expect("a number");
    assert!((ratio - rate / limit).abs() <= 1e-9 * ratio, "{measure}");
    assert!(measure["limit_name"].is_string() && measure["unit"].is_string());
    assert!(!measure["did"].as_str().unwrap_or_default().is_empty());
}

#[test]
fn every_system_is_verified_and_put_beside_a_limit() {
    let value = json(&[], 0);
    assert_eq!(value["schema"], "rackweave/demo/1");
    assert_eq!(names(&value), ALL);
    assert_eq!(value["problems"], Value::Array(Vec::new()));
    assert_eq!(
        (&value["verified"], &value["interrupted"]),
        (&true.into(), &false.into())
    );
    assert_eq!(value["added"]["switch.budget"], "software");
    for system in value["systems"].as_array().expect("systems") {
        assert_eq!(system["verified"], true, "{system:#}");
        assert!(
            system["seconds"]
                .as_f64()
                .is_some_and(|seconds| seconds > 0.0)
        );
        check_measure(system);
        system["more"]
            .as_array()
            .expect("more")
            .iter()
            .for_each(check_measure);
    }
    // Fields that existed before there were several systems.
    assert!(
        value["rows_lineitem"]
            .as_u64()
            .is_some_and(|rows| rows > 1000)
    );
    assert_eq!(
        (&value["balanced"]["verified"], &value["mode"]),
        (&true.into(), &"embedded".into())
    );
    let of = |name: &str| &value["systems"][ALL.iter().position(|one| *one == name).expect(name)];
    let pages = &of("pages")["details"];
    assert!(
        pages["heap_to_buffers"]
            .as_f64()
            .is_some_and(|times| times > 1.0),
        "{pages}"
    );
    assert!(
        pages["pages"]["storage_indexed"].as_u64() > Some(0),
        "{pages}"
    );
    let tree = &of("tree")["details"];
    let runs = tree["runs"].as_array().expect("runs");
    let reads = |access: &str| {
        let run = runs.iter().find(|run| run["access"] == access);
        run.and_then(|run| run["reads_per_lookup"].as_f64())
            .expect(access)
    };
    assert!(reads("in-network") < reads("one-sided"), "{tree}");
}

#[test]
fn systems_are_chosen_and_a_table_closes_their_text() {
    let output = run(&["--systems", "sequencer,messaging", "--quiet"], 0);
    let text = String::from_utf8(output.stdout).expect("it is text");
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
    };
    assert!(at("[1/2] messaging") < at("[2/2] sequencer"));
    let table = text.rfind("limit of the machine");
    assert!(Some(at("[2/2] sequencer")) < table && table < Some(at("verified: true")));
    assert!(at("A rack in this process") == 0 && at("verified: true") > at("fetch_add"));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    assert_eq!(names(&json(&["--systems", "sequencer"], 0)), ["sequencer"]);
}

#[test]
fn other_racks_run_flows_alone_and_say_so() {
    let value = json(&["--simulated"], 0);
    assert_eq!(names(&value), Vec::<&str>::new());
    let left_out = value["left_out"].as_array().expect("what is left out");
    let says = |word: &str| {
        left_out
            .iter()
            .any(|one| one.as_str().is_some_and(|one| one.contains(word)))
    };
    assert!(
        ["pages", "tree", "messaging", "sequencer"]
            .iter()
            .all(|name| says(name))
    );
    let output = command(&["--simulated", "--systems", "tree"]).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("flows alone"), "{error}");
}

#[test]
fn a_system_that_fails_is_told_and_the_others_go_on() {
    // One page is indexed, and no memory server has the entries of the others.
    let config = File::new(
        "few.toml",
        "[switch]\nbudget = \"software\"\npage_entries = 1\n",
    );
    let systems = ["--systems", "pages,sequencer", "--config", config.path()];
    let value = json(&systems, 1);
    assert_eq!(names(&value), ["pages", "sequencer"]);
    let verdicts = [0, 1].map(|at| value["systems"][at]["verified"].as_bool());
    assert_eq!(verdicts, [Some(false), Some(true)]);
    assert_eq!(value["verified"], false);
    let problem = value["systems"][0]["problems"][0]
        .as_str()
        .expect("a problem");
    assert!(problem.contains("memory server"), "{problem}");
    let problem = value["problems"][0].as_str().expect("a problem");
    assert!(problem.starts_with("pages: "), "{problem}");
}

#[test]
fn a_store_of_the_configuration_is_used_unless_it_may_hold_something() {
    let store = File::new("store.pages", "");
    let path = store.path();
    let text = format!(
        "[[store]]\nname = \"s\"\nnode = \"storage1\"\nmedium = \"file\"\npath = \"{path}\"\n\
         bytes = {}\n",
        400 * 65_536
    );
    let config = File::new("store.toml", &text);
    let args = ["--systems", "pages", "--config", config.path()];
    let value = json(&args, 0);
    assert_eq!(value["systems"][0]["details"]["store"], "temporary file");
    assert_eq!(
        std::fs::metadata(path).expect("it is there").len(),
        0,
        "it was left alone"
    );
    std::fs::remove_file(path).expect("it was there");
    let value = json(&args, 0);
    assert_eq!(value["systems"][0]["details"]["store"], "store s");
    assert!(!store.0.exists(), "what the demo has made goes with it");
}

#[test]
fn a_capture_has_all_systems() {
    let file = File::new("all.pcapng", "");
    let value = json(
        &["--systems", "tree,sequencer", "--capture", file.path()],
        0,
    );
    let length = std::fs::metadata(file.path())
        .expect("the capture is there")
        .len();
    assert_eq!(value["capture"]["bytes"], length);
    assert!(
        value["capture"]["packets"]
            .as_u64()
            .is_some_and(|packets| packets > 100)
    );
}

#[cfg(unix)]
#[test]
fn an_interruption_is_told_with_what_was_done() {
    let mut command = command(&["--scale-factor", "1", "--format", "json"]);
    command.args(["--systems", "messaging,sequencer"]);
    let output = interrupted(&mut command, Duration::from_millis(2500));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{error}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON, whatever happens");
    assert_eq!(
        (&value["interrupted"], &value["verified"]),
        (&true.into(), &false.into())
    );
    assert!(names(&value).len() < 2, "{value:#}");
}
