//! A hosted rack of a run's own: a folder, free ports, its processes.

use super::plan::Victim;
use crate::hosted::child::{Child, Recipe, Said, Word, end_all};
use crate::hosted::jobs::flow::VIOLATION_MARK;
use crate::hosted::keygen;
use crate::hosted::supervisor::END_LIMIT;
use crate::outcome::CliError;
use rackweave_control::keys::LIFETIME;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{HostedSection, SecurityKind};
use rustix::process::Signal;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Ports that the system does not give to outgoing connections: a node that asks for a switch that
/// is away must not find its own question there.
const PORTS: Range<u16> = 20_000..32_000;

/// Ports that are tried.
const PORTS_TRIED: u32 = 200;

/// The last words of the processes that a report shows.
const WORDS_MAX: usize = 40;

/// A rack whose processes run.
pub struct Stage {
    pub config: RackConfig,
    folder: PathBuf,
    /// The switch first.
    recipes: Vec<Recipe>,
    children: Vec<Option<Child>>,
    words: Receiver<Word>,
    sender: Sender<Word>,
    last_words: VecDeque<String>,
    violations: Vec<String>,
}

impl Stage {
    /// Makes a folder for a rack of this configuration and starts its processes.
    ///
    /// # Errors
    /// If the system has no room for it.
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
        let hosted = config.hosted();
        if hosted.security == SecurityKind::Tls {
            keygen::make(&config, &hosted.keys(), LIFETIME)?;
        }
        let path = folder.join("rack.toml");
        std::fs::write(&path, config.to_toml())
            .map_err(|error| failed(&path.display().to_string(), error))?;
        let mut recipes = vec![Recipe::switch(Some(&path))];
        let nodes = config.node.iter();
        recipes.extend(nodes.map(|node| Recipe::node(&node.name, Some(&path))));
        let (sender, words) = mpsc::channel();
        let mut stage = Self {
            config,
            folder,
            children: recipes.iter().map(|_| None).collect(),
            recipes,
            words,
            sender,
            last_words: VecDeque::new(),
            violations: Vec::new(),
        };
        for at in 0..stage.recipes.len() {
            stage.start_child(at)?;
        }
        Ok(stage)
    }

    fn place(victim: Victim) -> usize {
        match victim {
            Victim::Switch => 0,
            Victim::Node(at) => at + 1,
        }
    }

    fn start_child(&mut self, at: usize) -> Result<(), CliError> {
        let recipe = &self.recipes[at];
        let child = Child::start(recipe, &self.sender).map_err(|error| {
            CliError::run(format!("{} cannot be started: {error}", recipe.name))
        })?;
        self.children[at] = Some(child);
        Ok(())
    }

    /// Starts one that was ended.
    ///
    /// # Errors
    /// If the system starts no process.
    pub fn revive(&mut self, victim: Victim) -> Result<(), CliError> {
        self.start_child(Self::place(victim))
    }

    /// Kills one.
    pub fn kill(&mut self, victim: Victim) {
        // Dropping it kills it and waits for its end.
        self.children[Self::place(victim)] = None;
    }

    /// Sends one a signal.
    pub fn signal(&mut self, victim: Victim, signal: Signal) {
        if let Some(child) = &mut self.children[Self::place(victim)] {
            child.signal(signal);
        }
    }

    /// Ends one in good order.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&mut self, victim: Victim) -> Result<(), CliError> {
        let at = Self::place(victim);
        self.end_places(at..at + 1)
    }

    /// Hears what the processes say, and sees whether any has ended by itself.
    ///
    /// # Errors
    /// What the system says.
    pub fn look(&mut self) -> Result<(), CliError> {
        self.hear(Duration::ZERO);
        for at in 0..self.children.len() {
            let child = self.children[at].as_mut();
            let ended = child.map(Child::ended).transpose().map_err(CliError::run)?;
            if let Some(status) = ended.flatten() {
                self.hear(Duration::from_millis(50));
                self.children[at] = None;
                let name = &self.recipes[at].name;
                let last = self.last_words.back().map_or("", String::as_str);
                let text = format!("{name} ended by itself, {status}; the last words: {last}");
                self.violations.push(text);
            }
        }
        Ok(())
    }

    fn hear(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((name, said)) = self.words.recv_timeout(left) else {
                return;
            };
            let text = match said {
                Said::Event(event) => event.what.to_string(),
                Said::Error(line) => {
                    if let Some(violation) = line.strip_prefix(VIOLATION_MARK) {
                        self.violations.push(format!("{name}: {violation}"));
                    } else if line.contains("panicked") {
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

    /// The numbers of the nodes' processes.
    pub fn node_pids(&self) -> Vec<Option<u32>> {
        let nodes = self.children[1..].iter();
        nodes.map(|child| child.as_ref().map(Child::pid)).collect()
    }

    /// Ends the processes at these places; one that must be killed is a violation.
    fn end_places(&mut self, range: Range<usize>) -> Result<(), CliError> {
        let names = range.clone().map(|at| self.recipes[at].name.clone());
        let places = self.children[range.clone()].iter_mut().zip(names);
        let (mut children, names): (Vec<_>, Vec<_>) = places
            .filter_map(|(child, name)| Some((child.as_mut()?, name)))
            .unzip();
        let ends = end_all(&mut children, END_LIMIT).map_err(CliError::run)?;
        self.hear(Duration::from_millis(20));
        for (name, end) in names.into_iter().zip(ends) {
            match end {
                Some(status) if status.success() => {}
                Some(status) => {
                    let text = format!("{name} was told to end and ended with {status}");
                    self.violations.push(text);
                }
                None => {
                    let limit = END_LIMIT.as_secs();
                    let text = format!("{name} was told to end and did not within {limit} s");
                    self.violations.push(text);
                }
            }
        }
        self.children[range]
            .iter_mut()
            .for_each(|child| *child = None);
        Ok(())
    }

    /// Ends all processes, nodes first, and looks whether anything is left. Returns everything that
    /// must not be, and the last words.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self) -> Result<(Vec<String>, Vec<String>), CliError> {
        self.look()?;
        self.end_places(1..self.children.len())?;
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

impl Drop for Stage {
    fn drop(&mut self) {
        // Processes first: they may still make files.
        self.children.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// An address on loopback that nobody uses, for TCP and for UDP.
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
