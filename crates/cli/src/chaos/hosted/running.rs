//! A hosted rack for one run: a folder, free ports, its processes and programs.

mod programs;

use super::cable::Cable;
use super::journal::{CAMPAIGN, Event, Fault, Journal, Life};
use super::objects::Orders;
use super::plan::{PROGRAMS, Victim};
use super::program::{TRY_AGAIN, journal_of, place_of};
use crate::hosted::child::Said;
use crate::hosted::event::What;
use crate::hosted::keygen;
use crate::hosted::processes::{END_LIMIT, Processes};
use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_control::keys::LIFETIME;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{HostedSection, Role, SecurityKind, StoreConfig};
use rustix::process::Signal;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Ports outside the system's ephemeral range: a node that connects to an absent switch must not
/// connect to itself.
const PORTS: Range<u16> = 20_000..32_000;

/// Maximum number of ports that are tried.
const PORTS_TRIED: u32 = 200;

/// Maximum number of a process's last lines in a report.
const WORDS_MAX: usize = 40;

/// The output of a process that has ended is read within this time.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(50);

/// Pages of the store.
const STORE_PAGES: u64 = 256;

/// A program's current process.
struct Program {
    /// Its number among the processes.
    at: usize,
    life: Life,
    /// Whether it is to run.
    runs: bool,
}

/// What the switch's process does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SwitchState {
    Runs,
    /// It has died, and the next one has not been started.
    Dead,
    /// It has been started, and restores what the one before has left.
    Restores,
}

/// A rack of running processes.
pub struct HostedRackRun {
    pub config: RackConfig,
    pub folder: PathBuf,
    pub journal: Arc<Journal>,
    pub orders: Arc<Orders>,
    seed: u64,
    processes: Processes,
    /// The nodes' ways to the controller.
    cables: Vec<Cable>,
    programs: Vec<Program>,
    /// Lives of programs so far.
    lives: Life,
    /// Whether programs know that everything is repaired.
    is_repaired: bool,
    switch: SwitchState,
    last_words: VecDeque<String>,
    violations: Vec<String>,
}

impl HostedRackRun {
    /// Creates a folder for a rack of this configuration and starts its processes.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub fn start(config: &RackConfig, seed: u64) -> Result<Self, CliError> {
        let failed = |what: &str, error: std::io::Error| CliError::run(format!("{what}: {error}"));
        let name = format!("rackweave-chaos-{}-{seed}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| failed(&folder.display().to_string(), error))?;
        let mut config = config.clone();
        config.hosted = Some(HostedSection {
            control: free_port()?,
            listen: None,
            udp: free_port()?,
            keys: None,
            directory: Some(folder.join("run")),
            ..config.hosted()
        });
        config.node.iter_mut().for_each(|node| node.udp = None);
        if let Some(&storage) = config.nodes_of(Role::Storage).first() {
            let node = config.node[usize::from(storage.0)].name.clone();
            let bytes = STORE_PAGES * u64::from(config.switch.page_size);
            let store = StoreConfig::in_file("pages", node, folder.join("store"), bytes);
            config.store = vec![store];
        }
        // What the processes read has places for guests.
        let config = RackConfig::parse(&config.to_toml(), "rack.toml")?;
        let hosted = config.hosted();
        if hosted.security == SecurityKind::Tls {
            keygen::make(&config, &hosted.keys(), LIFETIME)?;
        }
        let path = folder.join("rack.toml");
        std::fs::write(&path, config.to_toml())
            .map_err(|error| failed(&path.display().to_string(), error))?;
        let journal = Journal::create(&journal_of(&folder, CAMPAIGN));
        let journal = journal.map_err(|error| failed("the journal", error))?;
        let mut processes = Processes::new(&config, Some(&path), &[]);
        let cables = config.residents().map(|_| Cable::to(hosted.control));
        let cables: Result<Vec<_>, _> = cables.collect();
        let cables = cables.map_err(|error| failed("a node's way to the controller", error))?;
        for (cable, at) in cables.iter().zip(1..) {
            processes.add_argument(at, "--controller", cable.address);
        }
        let mut running = Self {
            processes,
            cables,
            programs: Vec::new(),
            lives: CAMPAIGN,
            is_repaired: false,
            switch: SwitchState::Runs,
            journal: Arc::new(journal),
            orders: Arc::default(),
            seed,
            config,
            folder,
            last_words: VecDeque::new(),
            violations: Vec::new(),
        };
        for at in running.processes.all() {
            running.processes.start(at)?;
        }
        Ok(running)
    }

    /// Whether the switch's process runs and has restored the state of an earlier one.
    pub fn is_restored(&self) -> bool {
        self.switch == SwitchState::Runs
    }

    fn place(&self, victim: Victim) -> usize {
        match victim {
            Victim::Switch => 0,
            Victim::Node(at) => at + 1,
            Victim::Program(program) => self.programs[usize::from(program)].at,
        }
    }

    /// Restarts a process that was ended.
    ///
    /// # Errors
    /// If the system cannot start a process.
    pub fn revive(&mut self, victim: Victim) -> Result<(), CliError> {
        if victim == Victim::Switch {
            self.hear(LAST_WORDS_WITHIN);
            self.switch = SwitchState::Restores;
        }
        match victim {
            Victim::Program(program) => self.start_program(program),
            _ => self.processes.start(self.place(victim)).map(drop),
        }
    }

    /// Kills a process.
    pub fn kill(&mut self, victim: Victim) {
        self.processes.kill(self.place(victim));
    }

    /// Sends a process a signal.
    pub fn signal(&mut self, victim: Victim, signal: Signal) {
        let at = self.place(victim);
        if let Some(child) = self.processes.child(at) {
            child.signal(signal);
        }
    }

    /// Cuts a node off from the controller, or mends that.
    pub fn cut(&self, victim: Victim, cut: bool) {
        let Victim::Node(at) = victim else {
            unreachable!("only nodes are cut off");
        };
        self.cables[at].cut(cut);
    }

    /// Ends a process in good order.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end(&mut self, victim: Victim) -> Result<(), CliError> {
        let at = self.place(victim);
        match victim {
            Victim::Switch => self.end_places(at..at + 1),
            Victim::Node(node) => {
                self.end_places(at..at + 1)?;
                self.left(NodeId(node as u16));
                Ok(())
            }
            Victim::Program(program) => self.end_programs(program..program + 1),
        }
    }

    /// Reads the output of the processes, and checks whether any has ended by itself.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn look(&mut self) -> Result<(), CliError> {
        self.hear(Duration::ZERO);
        for at in self.processes.all() {
            if let Some((status, _)) = self.processes.take_ended(at)? {
                self.hear(LAST_WORDS_WITHIN);
                let mut programs = self.programs.iter().zip(0..);
                let program = programs.find(|(program, _)| program.at == at);
                if let Some((_, number)) = program
                    && status.code() == Some(TRY_AGAIN)
                {
                    self.note(Victim::Program(number), true);
                    self.start_program(number)?;
                    continue;
                }
                let name = self.processes.name(at);
                let last = self.last_words.back().map_or("", String::as_str);
                let text = format!("{name} ended by itself, {status}; the last words: {last}");
                self.violations.push(text);
            }
        }
        Ok(())
    }

    fn hear(&mut self, limit: Duration) {
        for (name, said) in self.processes.hear(limit) {
            let text = match said {
                Said::Event(event) => {
                    self.heard(&event.what);
                    event.what.to_string()
                }
                Said::Error(line) => {
                    if line.contains("panicked") {
                        self.violations.push(format!("{name}: {line}"));
                    }
                    line
                }
            };
            if self.last_words.len() == WORDS_MAX {
                self.last_words.pop_front();
            }
            self.last_words.push_back(format!("{name}: {text}"));
        }
    }

    /// What was at a node is gone.
    fn left(&self, node: NodeId) {
        let mut left = self.orders.left.lock().expect("no holder panics");
        left.insert(node);
    }

    /// A node has died, or a program was declared dead.
    fn heard(&mut self, what: &What) {
        let is_restored = matches!(what, What::Restored { .. } | What::StateLeft { .. });
        // What a switch process said that has died is of no interest.
        if is_restored && self.switch == SwitchState::Restores {
            self.switch = SwitchState::Runs;
            self.journal.note(Event::Fault(Fault::Restored));
        }
        let (left, is_dead) = match what {
            // All leave a switch that ends in good order, and join the next one.
            What::NodeLeft { node, why: Some(_) } => (vec![node.as_str()], true),
            What::Restored { absent } => (absent.iter().map(String::as_str).collect(), false),
            _ => return,
        };
        for name in left {
            let Some(node) = self.config.node_named(name) else {
                continue;
            };
            if usize::from(node.0) < self.config.residents().count() {
                self.left(node);
                if is_dead {
                    self.journal.note(Event::Fault(Fault::NodeDeclared(node.0)));
                }
            }
            let is_its = |&program: &u16| place_of(&self.config, program) == Some(name);
            if let Some(program) = (0..PROGRAMS).find(is_its)
                && is_dead
            {
                self.journal.note(Event::Fault(Fault::Declared(program)));
            }
        }
    }

    /// The process ids of the nodes.
    pub fn node_pids(&self) -> Vec<Option<u32>> {
        self.processes.node_pids()
    }

    /// Ends these processes; one that must be killed is a violation.
    fn end_places(&mut self, range: Range<usize>) -> Result<(), CliError> {
        let ends = self.processes.end(range)?;
        self.hear(Duration::from_millis(20));
        for (name, end) in ends {
            match end {
                Some(status) if status.success() => {}
                Some(status) => {
                    let text = format!("{name} was requested to end and ended with {status}");
                    self.violations.push(text);
                }
                None => {
                    let limit = END_LIMIT.as_secs();
                    let text = format!("{name} was requested to end and did not within {limit} s");
                    self.violations.push(text);
                }
            }
        }
        Ok(())
    }

    /// Ends all processes that are left, nodes first, and checks whether anything remains. Returns
    /// all violations, and the last lines of output.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn finish(&mut self) -> Result<(Vec<String>, Vec<String>), CliError> {
        self.look()?;
        self.end_places(1..self.processes.all().end)?;
        self.end_places(0..1)?;
        let hosted = self.config.hosted();
        if let Err(error) = TcpListener::bind(hosted.control) {
            let text = format!("{} is not free after the end: {error}", hosted.control);
            self.violations.push(text);
        }
        let folder = self.folder.display().to_string();
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        for left in sockets.lines().filter(|line| line.contains(&folder)) {
            self.violations
                .push(format!("a socket is left after the end: {left}"));
        }
        let violations = std::mem::take(&mut self.violations);
        Ok((violations, std::mem::take(&mut self.last_words).into()))
    }
}

impl Drop for HostedRackRun {
    fn drop(&mut self) {
        // Processes first, because they may still create files.
        self.processes.all().for_each(|at| self.processes.kill(at));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// An unused loopback address, for TCP and for UDP.
fn free_port() -> Result<SocketAddr, CliError> {
    for _ in 0..PORTS_TRIED {
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + (random % PORTS.len() as u64) as u16;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return Ok(at);
        }
    }
    let Range { start, end } = PORTS;
    Err(CliError::run(format!(
        "no free port from {start} to {end} was found; end other programs that use them"
    )))
}
