//! The command as its users run it: in processes of its own, with local workers.

mod cancel;
mod command;
mod exchange;
mod storage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What carries batches between processes.
const TRANSPORTS: [&str; 2] = ["flight", "rackweave"];

/// How long processes may take to end, on however slow a machine.
const END_LIMIT: Duration = Duration::from_secs(60);

/// The command with these arguments.
fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave-sql"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs a command and checks its exit status.
fn check(arguments: &str, status: i32) -> Output {
    let output = command(arguments).stdin(Stdio::null()).output().unwrap();
    let text = || format!("{arguments}: {}\n{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(status), "{}", text());
    output
}

/// What it printed.
fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed as errors.
fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// TPC-H data at scale factor 0.01, made once for all tests.
fn data() -> String {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    let directory = DATA.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tpch-sf0.01");
        let made = format!("tpch gen --sf 0.01 --parts 3 --out {}", directory.display());
        assert!(stdout(&check(&made, 0)).contains("lineitem          60175 rows    3 files"));
        assert!(stdout(&check(&made, 0)).contains("exists already"));
        directory
    });
    directory.to_str().unwrap().to_owned()
}

/// The options with which small data are divided among the workers.
fn divided(transport: &str) -> String {
    let data = data();
    // With broadcasts, which have more ways to fail. Flight has none, and no use for the option.
    format!(
        "--data {data} --transport {transport} --bytes-per-partition 1 --partitions 2 \
         --broadcasts flow"
    )
}

/// Sends a signal to a process.
fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let parent = |stat: &str| {
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let is_child = |other: &u32| {
        let stat = fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
        parent(&stat) == Some(pid)
    };
    let names = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(is_child)
        .collect()
}

/// Waits for the end of processes.
fn wait_until_gone(pids: &[u32]) {
    let deadline = Instant::now() + END_LIMIT;
    let runs = |pid: &&u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while let Some(pid) = pids.iter().find(runs) {
        assert!(Instant::now() < deadline, "worker {pid} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}
