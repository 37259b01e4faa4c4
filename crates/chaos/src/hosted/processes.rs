//! What the campaign needs of the processes of a rack: to start, signal and end them.

use super::journal::Life;
use rackweave_rack::RackConfig;
use rustix::process::Signal;
use std::ops::Range;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a process could not be started or ended, or keys could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProcessError(pub String);

/// Starts racks.
pub trait Launcher {
    /// Makes the keys of a rack.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn make_keys(&self, config: &RackConfig) -> Result<(), ProcessError>;

    /// The processes of the rack of `config`, which they read from `file`: the switch's, those of
    /// the nodes, the standby's if there is one. None of them has been started.
    fn processes(&self, config: &RackConfig, file: &Path) -> Box<dyn Processes>;
}

/// What is passed to the process of a program, so that it calls [`run_program`](super::run_program)
/// with it.
#[derive(Clone, Copy, Debug)]
pub struct ProgramStart<'a> {
    /// The name of the process.
    pub name: &'a str,
    /// The file with its configuration.
    pub config: &'a Path,
    /// The folder of the rack.
    pub folder: &'a Path,
    /// The number of the program.
    pub number: u16,
    /// The number of the process.
    pub life: Life,
    /// The seed of the campaign.
    pub seed: u64,
}

/// The processes of a rack, by number. Those that are left are killed when this is dropped.
pub trait Processes {
    /// The numbers of all processes.
    fn all(&self) -> Range<usize>;

    /// The numbers of the nodes.
    fn nodes(&self) -> Range<usize>;

    /// The name of a process: `switch`, a node's, `standby`, `etcd` or a program's.
    fn name(&self, at: usize) -> &str;

    /// The process id of one that runs, as far as is known.
    fn pid(&self, at: usize) -> Option<u32>;

    /// Adds an argument to those that start a process.
    fn add_argument(&mut self, at: usize, name: &str, value: String);

    /// Adds an etcd server, which reads its configuration from this file. Returns its number.
    fn add_etcd(&mut self, config: &Path) -> usize;

    /// Adds the process of a program, or replaces an earlier one. Returns its number.
    fn set_program(&mut self, at: Option<usize>, start: ProgramStart<'_>) -> usize;

    /// Starts a process.
    ///
    /// # Errors
    /// If the system cannot start it.
    fn start(&mut self, at: usize) -> Result<(), ProcessError>;

    /// Kills a process and waits for its end.
    fn kill(&mut self, at: usize);

    /// Sends a signal to a process that runs.
    fn signal(&mut self, at: usize, signal: Signal);

    /// Writes a line to the standard input of a process that runs.
    fn write_line(&mut self, at: usize, line: &str);

    /// The exit status of a process that has ended by itself; returned once.
    ///
    /// # Errors
    /// Errors of the system.
    fn take_ended(&mut self, at: usize) -> Result<Option<ExitStatus>, ProcessError>;

    /// The output of all processes within `limit`.
    fn hear(&mut self, limit: Duration) -> Vec<Output>;

    /// Requests processes to end, and kills those that do not within [`Processes::end_limit`].
    /// Returns the name and exit status of each that ran; no status if it was killed.
    ///
    /// # Errors
    /// Errors of the system.
    fn end(&mut self, places: &[usize]) -> Result<Vec<(String, Option<ExitStatus>)>, ProcessError>;

    /// How long processes may take to end.
    fn end_limit(&self) -> Duration;
}

/// A line of a process's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The name of the process.
    pub process: String,
    /// The line, as a user reads it.
    pub text: String,
    /// What it means, if it is an event; none if it is a line on standard error.
    pub event: Option<ProcessEvent>,
}

/// What a process of the switch reports, as far as a campaign needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessEvent {
    /// It leads, and accepts connections.
    Listening,
    /// It ends, because another one leads or soon will.
    SteppedDown,
    /// It has restored the state of an earlier process, without these nodes.
    Restored {
        /// Names of nodes that have not come back.
        absent: Vec<String>,
    },
    /// It does not use the state of an earlier process.
    StateLeft,
    /// It has declared a node dead.
    NodeLost {
        /// Its name.
        node: String,
    },
    /// Another event.
    Other,
}
