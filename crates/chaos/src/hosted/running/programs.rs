//! The programs of a rack: their processes, one after another, and what they have recorded.

use super::super::drive::DriveError;
use super::super::journal::{CAMPAIGN, FaultEvent, Life};
use super::super::plan::{PROGRAMS, Victim, program_name};
use super::super::processes::ProgramStart;
use super::super::shared::{done_file, journal_of, place_of};
use super::start::config_of;
use super::{HostedRackRun, Program};
use rackweave_rack::hosted::HostedRack;
use rustix::process::Signal;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process that is stopped stands still within this time.
const HALT_LIMIT: Duration = Duration::from_millis(500);

/// How often that is checked.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Whether all threads of a process are stopped.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let is_stopped = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name, in parentheses, may contain anything.
        let state = stat
            .rsplit_once(") ")
            .map(|(_, rest)| rest.starts_with('T'));
        state.unwrap_or(true)
    };
    threads.filter_map(Result::ok).all(is_stopped)
}

impl HostedRackRun {
    /// Starts all programs.
    ///
    /// # Errors
    /// If the system cannot start a process.
    pub fn start_programs(&mut self) -> Result<(), DriveError> {
        (0..PROGRAMS).try_for_each(|program| self.start_program(program))
    }

    pub(super) fn start_program(&mut self, number: u16) -> Result<(), DriveError> {
        self.lives += 1;
        let (life, at) = (self.lives, usize::from(number));
        let path = config_of(&self.folder, number);
        let start = ProgramStart {
            name: &program_name(number),
            config: &path,
            folder: &self.folder,
            number,
            life,
            seed: self.seed,
        };
        let known = self.programs.get(at).map(|program| program.at);
        let process = self.processes.set_program(known, start);
        let program = Program {
            at: process,
            life,
            runs: true,
        };
        match known {
            Some(_) => self.programs[at] = program,
            None => self.programs.push(program),
        }
        self.processes.start(process)?;
        if self.is_repaired {
            self.report_repaired(number);
        }
        Ok(())
    }

    fn report_repaired(&mut self, number: u16) {
        let at = self.programs[usize::from(number)].at;
        self.processes.write_line(at, "repaired");
    }

    /// Lets all programs know that everything is repaired.
    pub fn repaired(&mut self) {
        self.journal.fault(FaultEvent::Repaired);
        self.is_repaired = true;
        (0..PROGRAMS).for_each(|program| self.report_repaired(program));
    }

    /// The programs that have not done their last piece of work.
    pub fn unfinished(&self) -> Vec<String> {
        let all = self.programs.iter().zip(0..);
        let unfinished = all.filter(|(it, _)| !done_file(&self.folder, it.life).exists());
        unfinished.map(|(_, number)| program_name(number)).collect()
    }

    /// Stops a program, and records its death when it stands still: what it does until then counts,
    /// and nobody takes it for dead before.
    pub fn halt(&mut self, victim: Victim) {
        self.signal(victim, Signal::STOP);
        let at = self.place(victim);
        let pid = self.processes.pid(at);
        let deadline = Instant::now() + HALT_LIMIT;
        while pid.is_some_and(|pid| !stands_still(pid)) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.note(victim, true);
    }

    /// A program that was halted goes on.
    pub fn goes_on(&mut self, victim: Victim) {
        if let Victim::Program(number) = victim {
            self.programs[usize::from(number)].runs = true;
        }
    }

    /// Records what is about to be done to a process.
    pub fn note(&mut self, victim: Victim, is_death: bool) {
        let fault = match victim {
            Victim::Switch | Victim::Standby if !self.aims_at_leader() => return,
            Victim::Switch | Victim::Standby if is_death => return self.switch_dies(),
            Victim::Switch | Victim::Standby => FaultEvent::SwitchStops,
            Victim::Etcd => FaultEvent::SwitchStops,
            Victim::Node(at) => FaultEvent::Node(at as u16),
            Victim::Program(number) => {
                let program = &mut self.programs[usize::from(number)];
                if is_death {
                    program.runs = false;
                    FaultEvent::Death(program.life)
                } else {
                    FaultEvent::Pause(program.life)
                }
            }
        };
        self.journal.fault(fault);
    }

    /// Whether the rack still counts the current process of a program as a member.
    pub fn is_member(&self, program: u16) -> bool {
        let at = self.programs[usize::from(program)].at;
        let pid = self.processes.pid(at);
        let place = place_of(&self.config, program);
        let status = HostedRack::connect(&self.config).and_then(|mut rack| rack.status());
        // Without an answer nobody is declared dead.
        status.map_or(true, |status| {
            let mut nodes = status.nodes.iter();
            nodes.any(|node| Some(node.name.as_str()) == place && node.pid == pid)
        })
    }

    /// Ends programs, so that they leave.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end_programs(&mut self, range: Range<u16>) -> Result<(), DriveError> {
        let programs = range.start.into()..usize::from(range.end).min(self.programs.len());
        let lives = self.programs[programs.clone()]
            .iter()
            .filter(|program| program.runs);
        let lives: Vec<_> = lives.map(|program| program.life).collect();
        for life in lives {
            self.journal.fault(FaultEvent::Ends(life));
        }
        let places = self.programs[programs].iter().map(|program| program.at);
        self.end_places(&places.collect::<Vec<_>>())?;
        range.for_each(|program| self.note(Victim::Program(program), true));
        Ok(())
    }

    /// The journals of all processes.
    pub fn journals(&self) -> impl Iterator<Item = (Life, PathBuf)> {
        let folder: &Path = &self.folder;
        (CAMPAIGN..=self.lives).map(|life| (life, journal_of(folder, life)))
    }

    /// Copies the journals to a folder of this seed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn keep_journals(&self, folder: &Path) -> std::io::Result<()> {
        let folder = folder.join(format!("seed-{}", self.seed));
        std::fs::create_dir_all(&folder)?;
        for (_, journal) in self.journals().filter(|(_, journal)| journal.exists()) {
            let name = journal.file_name().unwrap_or_default();
            std::fs::copy(&journal, folder.join(name))?;
        }
        Ok(())
    }
}
