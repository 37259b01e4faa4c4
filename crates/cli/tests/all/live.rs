//! `rackweave stat` and `top` from outside, observing a command that is killed.

use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a command to have a rack, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.args(args);
    command
}

/// A command that runs until it is killed.
struct Running(Child);

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut command = command(args);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the binary runs"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn stat(&self, args: &[&str]) -> Output {
        let pid = self.pid();
        let all = [&["stat", "--pid", &pid], args].concat();
        command(&all).output().expect("the binary runs")
    }

    /// The snapshot of the command, as soon as `enough` accepts it.
    fn reported(&mut self, enough: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let output = self.stat(&["--format", "json", "--all"]);
            if output.status.success() {
                let reported = serde_json::from_slice(&output.stdout);
                let reported = reported.expect("standard output is one JSON value");
                if enough(&reported) {
                    return reported;
                }
            }
            let ended = self.0.try_wait().expect("it is a child");
            assert_eq!(ended, None, "it was to run until it is killed");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                started.elapsed() < PATIENCE,
                "nothing is published: {error}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL: the command cannot clean up.
        let _over = self.0.kill();
        let _code = self.0.wait();
    }
}

fn names_in_use() -> String {
    std::fs::read_to_string("/proc/net/unix").expect("Linux has it")
}

const PAGES: &[&str] = &[
    "ycsb",
    "--workload",
    "a",
    "--records",
    "4000",
    "--operations",
    "1000000000",
    "--page-size",
    "8k",
    "--buffer",
    "256k",
    "--memory",
];

#[test]
fn counters_of_a_running_command_move_and_nothing_is_left_of_it() {
    let mut ycsb = Running::start(PAGES);
    let answers = |reported: &Value| reported["rack"]["pages"]["answers"]["storage"].as_u64();
    let first = ycsb.reported(|reported| {
        reported["phase"] == "running operations"
            && answers(reported).is_some_and(|count| count > 0)
    });
    assert_eq!(first["schema"], "rackweave/stat/1");
    assert_eq!(first["command"], PAGES.join(" "));
    assert_eq!(first["pid"].as_u64(), Some(ycsb.0.id().into()));
    let sent = |reported: &Value| {
        let nodes = reported["rack"]["nodes"]
            .as_array()
            .expect("there are nodes");
        let sent = nodes.iter().map(|node| &node["counters"]["sent_pkts"]);
        sent.map(|count| count.as_u64().unwrap_or(0)).sum::<u64>()
    };
    let later = ycsb
        .reported(|reported| answers(reported) > answers(&first) && sent(reported) > sent(&first));
    assert!(later["up_seconds"].as_f64() > first["up_seconds"].as_f64());

    // Two reports, with the activity in between.
    let output = ycsb.stat(&["--interval", "0.3", "--count", "2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("change:\n"),
        "{text}"
    );
    let is_zero = |line: &str| line.contains("drop_egress_full") && line.ends_with(" 0");
    assert!(!text.lines().any(is_zero), "{text}");

    // Two commands are distinguished.
    let mut other = Running::start(PAGES);
    let reported = other.reported(|reported| reported["rack"].is_object());
    assert_eq!(reported["pid"].as_u64(), Some(other.0.id().into()));
    drop(other);

    let pid = ycsb.pid();
    assert!(names_in_use().contains(&format!("/{pid}\n")));
    drop(ycsb);
    assert!(
        !names_in_use().contains(&format!("/{pid}\n")),
        "something is left"
    );
    let gone = command(&["stat", "--pid", &pid]).output();
    let gone = gone.expect("the binary runs");
    let error = String::from_utf8_lossy(&gone.stderr);
    assert_eq!(gone.status.code(), Some(2), "{error}");
    assert!(
        error.contains(&format!("process {pid} tells nothing of a rack")),
        "{error}"
    );
}

#[track_caller]
fn refused(args: &[&str], expect: &str) {
    let output = command(args).output().expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{args:?}: {error}"
    );
    assert!(error.contains(expect), "{args:?}: {error}");
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    refused(&["top"], "`rackweave stat` prints the same");
    refused(&["stat", "--pid", "1"], "process 1 tells nothing of a rack");
    refused(&["stat", "--pid", "1", "--hosted"], "contradict each other");
    refused(
        &["stat", "--pid", "1", "--interval", "0.1"],
        "0.25 to 86400 seconds",
    );
    refused(&["top", "--interval", "nan"], "0.25 to 86400 seconds");
}
