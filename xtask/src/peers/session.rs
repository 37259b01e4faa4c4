//! Runs the programs: what they need is built and started once, and each runs once a round.

use super::children::{Guard, Running};
use super::probe::{Probe, Tool};
use crate::Failure;
use crate::process::{self, cargo, in_root, root};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// No run takes so long, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a ring of `rackweave perf shuffle_bw`, for as much memory in use.
const RING_BYTES: u32 = 4 << 20;
/// Requests of `redis-benchmark`, by the number in flight: a second or so.
const REDIS_REQUESTS: [(u32, u32); 2] = [(16, 400_000), (1, 40_000)];
/// Variables that change what `rackweave` does.
const VARIABLES: [&str; 3] = ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"];

/// The programs, and the output of those that have run in this round.
pub struct Session {
    // Before the guard, whose folder has its socket.
    redis: Option<Running>,
    guard: Guard,
    rackweave: PathBuf,
    /// The program of `peers/`, or why there is none.
    program: Option<Result<PathBuf, String>>,
    /// The compiled `peers/alltoall.c`, or why there is none.
    alltoall: Option<Result<PathBuf, String>>,
    /// By their lines.
    outputs: BTreeMap<String, Result<String, String>>,
}

impl Session {
    pub fn new(rackweave: PathBuf) -> Result<Self, Failure> {
        let guard = Guard::new("peers");
        let guard =
            guard.map_err(|error| Failure::check(format!("sh and a temporary folder: {error}")))?;
        Ok(Self {
            redis: None,
            guard,
            rackweave,
            program: None,
            alltoall: None,
            outputs: BTreeMap::new(),
        })
    }

    /// What a probe needs and this machine does not have, with the remedy.
    pub fn missing(&mut self, probe: Probe) -> Option<String> {
        let absent = |tool: &&Tool| tool.programs.iter().any(|name| find(name).is_none());
        let tools: Vec<_> = probe.tools().iter().filter(absent).collect();
        if !tools.is_empty() {
            let packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
            return Some(format!("apt-get install {}", packages.join(" ")));
        }
        match probe {
            Probe::Program { .. } => self.program().err(),
            Probe::Alltoall { .. } => self.alltoall().err(),
            _ => None,
        }
    }

    /// Every program runs again.
    pub fn next_round(&mut self) {
        self.outputs.clear();
    }

    /// The number of a probe in this round.
    pub fn measure(&mut self, probe: Probe) -> Result<f64, String> {
        let line = probe.run_line();
        let output = match self.outputs.get(&line) {
            Some(output) => output.clone(),
            None => {
                eprintln!("  {line}");
                let output = self.run(probe);
                self.outputs.insert(line.clone(), output.clone());
                output
            }
        };
        let number = output.and_then(|output| probe.read(&output));
        number.map_err(|error| format!("{line}: {error}"))
    }

    fn run(&mut self, probe: Probe) -> Result<String, String> {
        match probe {
            Probe::Ours { arguments, .. } => {
                let mut command = in_root(&self.rackweave);
                command.arg("perf").args(arguments.split(' '));
                command.args(["--quiet", "--format", "json"]);
                for variable in VARIABLES {
                    command.env_remove(variable);
                }
                self.guard.output(&mut command, LIMIT)
            }
            Probe::Program { arguments, .. } => {
                let program = self.program()?;
                let mut command = in_root(program);
                self.guard.output(command.args(arguments.split(' ')), LIMIT)
            }
            Probe::Ucx { arguments, .. } => self.ucx(arguments),
            Probe::Redis { in_flight, .. } => self.redis(in_flight),
            Probe::Alltoall { block } => self.shuffle(block),
            Probe::Fio => self.fio(),
            Probe::Iperf => self.iperf(),
        }
    }

    /// Two processes: the server ends with the test.
    fn ucx(&self, arguments: &str) -> Result<String, String> {
        let port = free_port()?;
        let perftest = || {
            let mut command = Command::new("ucx_perftest");
            command.args(["-p", &port.to_string()]);
            command.env("UCX_TLS", "sm,self");
            command
        };
        let mut server = self.guard.spawn(&mut perftest())?;
        wait_until(&mut server, || listens(port))?;
        let mut client = perftest();
        client.args(["127.0.0.1", "-f", "-v"]);
        client.args(arguments.split(' '));
        self.guard.output(&mut client, LIMIT)
    }

    fn iperf(&self) -> Result<String, String> {
        let port = free_port()?.to_string();
        let mut server = Command::new("iperf3");
        server.args(["-s", "-1", "-p", &port]);
        let mut server = self.guard.spawn(&mut server)?;
        let number = port.parse().unwrap_or_default();
        wait_until(&mut server, || listens(number))?;
        let mut client = Command::new("iperf3");
        client.args(["-c", "127.0.0.1", "-p", &port]);
        client.args(["-t", "1", "-l", "1M", "-J"]);
        self.guard.output(&mut client, LIMIT)
    }

    /// The server runs until the end, at a socket in the temporary folder.
    fn redis(&mut self, in_flight: u32) -> Result<String, String> {
        let socket = self.guard.folder().join("redis");
        if self.redis.is_none() {
            let mut command = Command::new("redis-server");
            command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
            command.arg("--dir").arg(self.guard.folder());
            command.arg("--unixsocket").arg(&socket);
            let mut server = self.guard.spawn(&mut command)?;
            wait_until(&mut server, || socket.exists())?;
            self.redis = Some(server);
        }
        let fits = |(least, _): &&(u32, u32)| in_flight >= *least;
        let requests = REDIS_REQUESTS.iter().find(fits).map_or(1, |row| row.1);
        let mut client = Command::new("redis-benchmark");
        client.arg("-s").arg(&socket);
        client.args(["-t", "incr", "-c", "1", "--csv"]);
        client.args(["-P", &in_flight.to_string(), "-n", &requests.to_string()]);
        self.guard.output(&mut client, LIMIT)
    }

    fn shuffle(&mut self, block: u32) -> Result<String, String> {
        let program = self.alltoall()?;
        let mut command = Command::new("mpirun");
        // More ranks than cores must yield, or each waits for the others' time slices. Containers
        // run as root, which mpirun refuses otherwise.
        command.args(["-n", "4", "--oversubscribe", "--allow-run-as-root"]);
        command.args(["--mca", "btl", "self,vader"]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
        command.arg(program);
        command.args([block.to_string(), RING_BYTES.to_string(), "1".to_owned()]);
        self.guard.output(&mut command, LIMIT)
    }

    /// The file stays until the end, so that only the first run writes it.
    fn fio(&self) -> Result<String, String> {
        let mut command = Command::new("fio");
        command.arg("--name=pages").arg("--output-format=json");
        command.arg("--directory").arg(self.guard.folder());
        command.args(["--size=1G", "--rw=randread", "--bs=64k", "--iodepth=16"]);
        command.args(["--ioengine=io_uring", "--direct=1"]);
        command.args(["--time_based", "--runtime=1"]);
        self.guard.output(&mut command, LIMIT)
    }

    /// Builds the program of `peers/`, the first time.
    fn program(&mut self) -> Result<PathBuf, String> {
        let built = self.program.get_or_insert_with(|| {
            let folder = process::target_dir().join("peers");
            let mut build = cargo(&["build", "--release", "--quiet"]);
            build.args(["--manifest-path", "peers/Cargo.toml", "--target-dir"]);
            build.arg(&folder);
            eprintln!("building peers/");
            match build.status() {
                Ok(status) if status.success() => Ok(folder.join("release/rackweave-peers")),
                _ => Err("peers/ does not build; see above".to_owned()),
            }
        });
        built.clone()
    }

    fn alltoall(&mut self) -> Result<PathBuf, String> {
        let guard = &self.guard;
        let built = self.alltoall.get_or_insert_with(|| {
            let program = guard.folder().join("alltoall");
            let mut compile = Command::new("mpicc");
            compile.args(["-O2", "-o"]).arg(&program);
            compile.arg(root().join("peers/alltoall.c"));
            guard.output(&mut compile, LIMIT).map(|_| program)
        });
        built.clone()
    }
}

/// Where a program lies, if it is installed.
fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}

/// A TCP port that was free just now.
fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

/// Whether a process listens. Connecting would tell too, but the server would take that for its
/// client.
fn listens(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(Path::new);
    let mut texts = tables.iter().flat_map(std::fs::read_to_string);
    texts.any(|table| in_table(&table, port))
}

/// Whether a table of `/proc/net` has a listening socket with this port.
fn in_table(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&port)) && state == Some(LISTEN)
    })
}

fn wait_until(server: &mut Running, is_ready: impl Fn() -> bool) -> Result<(), String> {
    let end = Instant::now() + START_LIMIT;
    while !is_ready() {
        if !server.is_running() {
            return Err("the server ended at once".to_owned());
        }
        if Instant::now() > end {
            return Err("the server does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_found_in_the_table() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        assert!(listens(port));
        let table = "\
            \x20 sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
            \x20  0: 0100007F:3419 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n\
            \x20  1: 0100007F:341A 0100007F:3419 01 00000000:00000000 00:00000000 00000000\n";
        assert!(in_table(table, 0x3419));
        assert!(!in_table(table, 0x341a), "it is connected");
        assert!(!in_table(table, 0x19));
    }
}
