//! Processes under test: started in their own folder, observed, and ended with the test.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit after which an operation has failed. It does not measure speed, because machines that
/// run tests are busy.
pub const LIMIT: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A folder with a configuration in it.
pub struct RackFolder {
    pub folder: PathBuf,
    pub config: PathBuf,
    pub control: SocketAddr,
}

static PLACES: AtomicU16 = AtomicU16::new(0);

impl RackFolder {
    /// `hosted` is added to the section `[hosted]`, `rest` follows it.
    pub fn new(hosted: &str, rest: &str) -> Self {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("rackweave-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let place = Self {
            config: folder.join("rack.toml"),
            control: free_port(number),
            folder,
        };
        let udp = free_port(number + 7000);
        place.write(&format!("udp = \"{udp}\"\n{hosted}"), rest);
        place
    }

    /// A rack with programs for every system.
    pub fn of_all_systems(hosted: &str) -> Self {
        let rest = "[[store]]\nname = \"pages\"\nnode = \"storage0\"\nbytes = 134217728\n\
                    [switch]\nbudget = \"software\"\nlanes = 8192\npage_entries = 2048\n\
                    page_workers = 64\npage_slots = 1024\nsequencers = 16\nindex_servers = 8\n\
                    index_queries = 256\nindex_fat_ranges = 64\nindex_nodes = 64\n\
                    index_layers = 2\n";
        Self::new(&format!("security = \"plain\"\n{hosted}"), rest)
    }

    /// As [`RackFolder::new`] with small heartbeats and no keys.
    pub fn plain(hosted: &str) -> Self {
        Self::new(&format!("security = \"plain\"\n{hosted}"), "")
    }

    /// Overwrites the configuration.
    pub fn write(&self, hosted: &str, rest: &str) {
        let text = format!(
            "[hosted]\ncontrol = \"{}\"\ndirectory = \"run\"\nheartbeat_ms = 50\n\
             dead_after_ms = 5000\n{hosted}\n{rest}",
            self.control
        );
        std::fs::write(&self.config, text).unwrap();
    }

    pub fn config(&self) -> &str {
        self.config.to_str().unwrap()
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        command(&[args, &["--config", self.config()]].concat())
            .output()
            .unwrap()
    }

    /// Starts a command that keeps running.
    pub fn start(&self, args: &[&str]) -> Process {
        Process::start(&[args, &["--config", self.config()]].concat())
    }

    /// The rack's state as reported by `info`; null if it cannot be asked.
    pub fn info(&self) -> Value {
        let output = self.run(&["info", "--format", "json"]);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all["rack"].clone()
    }

    /// Waits until `wanted` accepts the report of `info`.
    #[track_caller]
    pub fn await_info(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let info = self.info();
            if wanted(&info) {
                return info;
            }
            assert!(Instant::now() < deadline, "{what} does not come: {info:#}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until all nodes have joined the switch.
    #[track_caller]
    pub fn await_whole(&self) -> Value {
        self.await_info("the whole rack", is_whole)
    }

    /// Asserts that the demo verifies.
    #[track_caller]
    pub fn demo_verifies(&self) {
        let output = self.run(&["demo", "--scale-factor", "0.005", "--format", "json"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verified"], true, "{report:#}");
    }
}

impl Drop for RackFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a node is a place for guests.
pub fn is_guest(node: &Value) -> bool {
    let name = node["name"].as_str();
    name.is_some_and(|name| name.starts_with("guest"))
}

/// Whether a rack has all its nodes, apart from guests.
pub fn is_whole(info: &Value) -> bool {
    let nodes = info["nodes"].as_array();
    let is_there = |node: &Value| node["joined"] == true || is_guest(node);
    info["running"] == true && nodes.is_some_and(|nodes| nodes.iter().all(is_there))
}

/// An unused address, outside the ephemeral ports of the system.
pub fn free_port(salt: u16) -> SocketAddr {
    let start = (std::process::id() as u16)
        .wrapping_mul(61)
        .wrapping_add(salt);
    for step in 0..2000u16 {
        let port = 10_000 + start.wrapping_add(step.wrapping_mul(13)) % 10_000;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return at;
        }
    }
    panic!("no port is free");
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// A command that keeps running.
pub struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub fn start(args: &[&str]) -> Self {
        let mut child = command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::default();
        listen(child.stdout.take().unwrap(), &lines);
        listen(child.stderr.take().unwrap(), &lines);
        Self { child, lines }
    }

    /// All lines that it has printed.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line that contains `text`.
    #[track_caller]
    pub fn await_line(&self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let lines = self.lines();
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{text:?} was not said: {lines:#?}"
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.child.id(), signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn await_end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            let lines = self.lines();
            assert!(Instant::now() < deadline, "it does not end: {lines:#?}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The processes that `up` has started, according to its output: the last of each name.
    pub fn children(&self) -> Vec<(String, u32)> {
        let mut children: Vec<(String, u32)> = Vec::new();
        for line in self.lines() {
            let Some((_, rest)) = line.split_once("| started ") else {
                continue;
            };
            let (name, pid) = rest.split_once(", process ").unwrap();
            children.retain(|(other, _)| other != name);
            children.push((name.into(), pid.trim().parse().unwrap()));
        }
        children
    }

    pub fn child(&self, name: &str) -> u32 {
        let children = self.children();
        let found = children.iter().find(|(other, _)| other == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {children:?}"))
            .1
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it said: {:#?}", self.lines());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(out: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) {
    let lines = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
}

/// Starts this test program again, to run only `test` in the rack of a configuration, whose path is
/// in the variable `name`. Returns it after it has printed so many lines `took NUMBER`, with the
/// last number.
pub fn program(test: &str, (name, place): (&str, &RackFolder), steps: usize) -> (Child, u64) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(name, place.config())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let taken = lines.map_while(Result::ok).filter_map(|line| {
        let rest = line.strip_prefix("took ")?;
        rest.split(' ').next()?.parse::<u64>().ok()
    });
    let last = taken.take(steps).last().expect("it takes numbers");
    (child, last)
}

pub fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Whether a process exists and has not ended.
pub fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The state follows the name in brackets. A process that has not been waited for counts as
    // dead.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    state != Some("Z")
}

/// Waits until these processes are gone.
#[track_caller]
pub fn await_gone(children: &[(String, u32)]) {
    let deadline = Instant::now() + LIMIT;
    for (name, pid) in children {
        while lives(*pid) {
            assert!(Instant::now() < deadline, "{name} ({pid}) still lives");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Asserts exit status 2 and one line on standard error with `expected`.
#[track_caller]
pub fn refused(output: &Output, expected: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.starts_with("error: ") && error.contains(expected),
        "{error}"
    );
}
