//! A hosted rack for one run: a folder, free ports, its processes and programs.

mod programs;
mod start;

use super::cable::Cable;
use super::drive::DriveError;
use super::journal::{FaultEvent, Journal, Life};
use super::objects::Orders;
use super::plan::{PROGRAMS, Victim};
use super::processes::{ProcessEvent, Processes};
use super::program::TRY_AGAIN;
use super::shared::place_of;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rustix::process::Signal;
use start::failed;
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of a process's last lines in a report.
const WORDS_MAX: usize = 40;

/// The output of a process that has ended is read within this time.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(50);

/// The folder with the data of etcd, in that of the rack's processes.
const ETCD_DATA: &str = "etcd";

/// A program's current process.
struct Program {
    /// Its number among the processes.
    at: usize,
    life: Life,
    /// Whether it is to run.
    runs: bool,
}

/// What the leading process of the switch does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SwitchState {
    Runs,
    /// It has died, and no other one leads.
    Dead,
    /// It has begun to lead, and restores what the one before has left.
    Restores,
}

/// A rack of running processes.
pub struct HostedRackRun {
    pub config: RackConfig,
    pub folder: PathBuf,
    pub journal: Arc<Journal>,
    pub orders: Arc<Orders>,
    seed: u64,
    processes: Box<dyn Processes>,
    /// The nodes' ways to the controllers, and the programs'.
    cables: Vec<Vec<Cable>>,
    of_programs: Vec<Vec<Cable>>,
    /// The ways of the switch's processes to etcd.
    to_etcd: Vec<Cable>,
    /// The numbers of the switch's processes, and of etcd's.
    switches: Vec<usize>,
    etcd: Option<usize>,
    /// The one that has begun to lead last.
    leader: Option<usize>,
    /// The one that a fault aims at.
    aimed: usize,
    /// Those that have ended because they lead no longer.
    stepped_down: BTreeSet<usize>,
    /// How many times a process has begun to lead after another one.
    pub takeovers: u64,
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
    /// Whether the switch's process runs and has restored the state of an earlier one.
    pub fn is_restored(&self) -> bool {
        self.switch == SwitchState::Runs
    }

    /// Discards what the campaign has recorded.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin_journal(&mut self) -> Result<(), DriveError> {
        self.journal = start::new_journal(&self.folder)?;
        Ok(())
    }

    /// Begins a fault: from now on its victim is the process that leads now, or the other one.
    pub fn aim(&mut self, victim: Victim) {
        let leader = self.leader.unwrap_or(0);
        let mut others = self.switches.iter().filter(|&&at| at != leader);
        self.aimed = match victim {
            Victim::Standby => *others.next().unwrap_or(&leader),
            _ => leader,
        };
    }

    /// Whether a fault aims at the process that leads.
    fn aims_at_leader(&self) -> bool {
        self.leader == Some(self.aimed)
    }

    fn place(&self, victim: Victim) -> usize {
        match victim {
            Victim::Switch | Victim::Standby => self.aimed,
            Victim::Etcd => self.etcd.expect("the plan has it"),
            Victim::Node(at) => at + 1,
            Victim::Program(program) => self.programs[usize::from(program)].at,
        }
    }

    /// Restarts a process that was ended.
    ///
    /// # Errors
    /// If the system cannot start a process.
    pub fn revive(&mut self, victim: Victim) -> Result<(), DriveError> {
        // What a process has said that has died is not taken for what the next one says.
        self.hear(LAST_WORDS_WITHIN);
        match victim {
            Victim::Program(program) => self.start_program(program),
            _ => Ok(self.processes.start(self.place(victim))?),
        }
    }

    /// Kills a process.
    pub fn kill(&mut self, victim: Victim) {
        self.processes.kill(self.place(victim));
    }

    /// Sends a process a signal.
    pub fn signal(&mut self, victim: Victim, signal: Signal) {
        self.processes.signal(self.place(victim), signal);
    }

    /// Restarts etcd without its data, or with the data that it had before that.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn exchange_data(&mut self, is_empty: bool) -> Result<(), DriveError> {
        self.kill(Victim::Etcd);
        let data = self.config.hosted().directory().join(ETCD_DATA);
        let aside = data.with_extension("aside");
        let exchanged = match is_empty {
            true => std::fs::rename(&data, &aside),
            false => {
                let removed = match std::fs::remove_dir_all(&data) {
                    // It was killed before it had made any.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    removed => removed,
                };
                removed.and_then(|()| std::fs::rename(&aside, &data))
            }
        };
        exchanged.map_err(|error| failed("the data of etcd", error))?;
        self.revive(Victim::Etcd)
    }

    /// Cuts a node or a program off from the controllers, or a switch's process from etcd, or mends
    /// that.
    pub fn cut(&self, victim: Victim, cut: bool) {
        match victim {
            Victim::Node(at) => self.cables[at].iter().for_each(|cable| cable.cut(cut)),
            Victim::Program(at) => {
                let cables = &self.of_programs[usize::from(at)];
                cables.iter().for_each(|cable| cable.cut(cut));
            }
            _ => {
                let mut ways = self.switches.iter().zip(&self.to_etcd);
                let way = ways.find(|(at, _)| **at == self.aimed);
                way.into_iter().for_each(|(_, cable)| cable.cut(cut));
            }
        }
    }

    /// Ends a process in good order.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end(&mut self, victim: Victim) -> Result<(), DriveError> {
        let at = self.place(victim);
        match victim {
            Victim::Switch | Victim::Standby | Victim::Etcd => self.end_places(&[at]),
            Victim::Node(node) => {
                self.end_places(&[at])?;
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
    pub fn look(&mut self) -> Result<(), DriveError> {
        self.hear(Duration::ZERO);
        for at in self.processes.all() {
            if let Some(status) = self.processes.take_ended(at)? {
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
                if self.stepped_down.remove(&at) {
                    self.processes.start(at)?;
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
        for output in self.processes.hear(limit) {
            let (name, text) = (output.process, output.text);
            match &output.event {
                Some(event) => self.heard(&name, event),
                None if text.contains("panicked") => {
                    self.violations.push(format!("{name}: {text}"));
                }
                None => {}
            }
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

    /// A process of the switch leads or does not, a node has died, or a program was declared dead.
    fn heard(&mut self, name: &str, event: &ProcessEvent) {
        let mut switches = self.switches.iter().copied();
        let switch = switches.find(|&at| self.processes.name(at) == name);
        let is_leader = switch.is_some() && switch == self.leader;
        match event {
            ProcessEvent::Listening => {
                if self.leader.is_some() {
                    self.switch_dies();
                    self.switch = SwitchState::Restores;
                    self.takeovers += 1;
                }
                // If no node had joined, nothing was stored, and nothing is restored. If one had,
                // the wait for all nodes covers it as long as there are no programs.
                if self.programs.is_empty() && self.switch == SwitchState::Restores {
                    self.switch = SwitchState::Runs;
                    self.journal.fault(FaultEvent::Restored);
                }
                self.leader = switch;
            }
            ProcessEvent::SteppedDown => {
                self.stepped_down.extend(switch);
                if is_leader {
                    self.switch_dies();
                }
            }
            // What a process said that has died is of no interest.
            ProcessEvent::Restored { .. } | ProcessEvent::StateLeft
                if is_leader && self.switch == SwitchState::Restores =>
            {
                self.switch = SwitchState::Runs;
                self.journal.fault(FaultEvent::Restored);
            }
            _ => {}
        }
        let (left, is_dead) = match event {
            // All leave a switch that ends in good order, and join the next one.
            ProcessEvent::NodeLost { node } => (vec![node.as_str()], true),
            ProcessEvent::Restored { absent } => {
                (absent.iter().map(String::as_str).collect(), false)
            }
            _ => return,
        };
        for name in left {
            let Some(node) = self.config.node_named(name) else {
                continue;
            };
            if usize::from(node.0) < self.config.residents().count() {
                self.left(node);
                if is_dead {
                    self.journal.fault(FaultEvent::NodeDeclared(node.0));
                }
            }
            let is_its = |&program: &u16| place_of(&self.config, program) == Some(name);
            if let Some(program) = (0..PROGRAMS).find(is_its)
                && is_dead
            {
                self.journal.fault(FaultEvent::Declared(program));
            }
        }
    }

    /// Records that the process that leads dies, unless that is known.
    fn switch_dies(&mut self) {
        if self.switch != SwitchState::Dead {
            self.switch = SwitchState::Dead;
            self.journal.fault(FaultEvent::SwitchDies);
        }
    }

    /// The process ids of the nodes.
    pub fn node_pids(&self) -> Vec<Option<u32>> {
        let nodes = self.processes.nodes();
        nodes.map(|at| self.processes.pid(at)).collect()
    }

    /// Ends these processes; one that must be killed is a violation.
    fn end_places(&mut self, places: &[usize]) -> Result<(), DriveError> {
        let etcd = self.etcd.map(|at| self.processes.name(at).to_owned());
        let ends = self.processes.end(places)?;
        self.hear(Duration::from_millis(20));
        for (name, end) in ends {
            match end {
                Some(status) if status.success() => {}
                // It ends by the signal that requests it.
                Some(_) if Some(&name) == etcd.as_ref() => {}
                Some(status) => {
                    let text = format!("{name} was requested to end and ended with {status}");
                    self.violations.push(text);
                }
                None => {
                    let limit = self.processes.end_limit().as_secs();
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
    pub fn finish(&mut self) -> Result<(Vec<String>, Vec<String>), DriveError> {
        self.look()?;
        let (switches, etcd) = (self.switches.clone(), self.etcd);
        let others = self.processes.all().filter(|at| !switches.contains(at));
        let others: Vec<usize> = others.filter(|&at| Some(at) != etcd).collect();
        self.end_places(&others)?;
        self.end_places(&switches)?;
        self.end_places(etcd.as_slice())?;
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
