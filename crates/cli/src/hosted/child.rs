//! A child process of a hosted rack: its output and its end.
//!
//! It gets a pipe as standard input and ends when that closes, so no child outlives this process.
//! It is in its own process group: Ctrl-C reaches only this process, which then ends its children
//! in good order.

use super::event::Event;
use crate::globals::Interrupt;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Poll interval while waiting for an end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A line of a child's output.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// An event.
    Event(Event),
    /// A line on standard error.
    Error(String),
}

/// The name of the child, and the line.
pub type Word = (String, Said);

/// How to start a child.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Its name: `switch` or a node's.
    pub name: String,
    /// The arguments that start it.
    pub args: Vec<OsString>,
}

impl Recipe {
    /// A process of this command, with this configuration.
    pub fn new(name: &str, command: &[&str], config: Option<&std::path::Path>) -> Self {
        let mut args: Vec<OsString> = command.iter().map(OsString::from).collect();
        args.extend(["--end-with-stdin", "--format", "json"].map(OsString::from));
        if let Some(path) = config {
            args.extend(["--config".into(), path.into()]);
        }
        Self {
            name: name.into(),
            args,
        }
    }
}

/// A child process.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    started: Instant,
}

impl Child {
    /// Starts a process of the running executable. Its output goes to `words`.
    ///
    /// # Errors
    /// If the system cannot start a process.
    pub fn start(recipe: &Recipe, words: &Sender<Word>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
            command.env_remove(name);
        }
        crate::canary::hand_down(&mut command);
        let mut process = command
            .args(&recipe.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stdin = process.stdin.take();
        let event = |line: &str| match serde_json::from_str(line) {
            Ok(event) => Said::Event(event),
            Err(_) => Said::Error(line.into()),
        };
        if let Some(out) = process.stdout.take() {
            listen(out, recipe.name.clone(), words.clone(), event);
        }
        if let Some(out) = process.stderr.take() {
            listen(out, recipe.name.clone(), words.clone(), |line| {
                Said::Error(line.into())
            });
        }
        Ok(Self {
            process,
            stdin,
            started: Instant::now(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Sends it a signal. A process that has ended ignores it: its id is not reused until it is
    /// waited for.
    pub fn signal(&mut self, signal: Signal) {
        if let (Ok(None), Some(pid)) = (self.ended(), Pid::from_raw(self.pid() as i32)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Writes a line to its standard input, if it can still read one.
    pub fn write_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _gone = writeln!(stdin, "{line}");
        }
    }

    /// Requests it to end.
    pub fn release(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has ended, up to `deadline`, and then until the system has removed it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            match self.ended()? {
                None if Instant::now() < deadline || self.has_exited() => {
                    std::thread::sleep(LOOK_EVERY);
                }
                ended => return Ok(ended),
            }
        }
    }

    /// Whether it has exited, and the system is taking down its memory. On a busy machine that can
    /// take seconds: it needs locks of the files that were mapped, which threads of the system with
    /// the lowest priority hold at times.
    fn has_exited(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        // The name, in parentheses, may contain anything.
        stat.is_ok_and(|stat| {
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
            state.is_some_and(|state| state.starts_with('Z'))
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // No effect on a process that has ended and been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Forwards the lines of `out` until it closes.
fn listen(
    out: impl Read + Send + 'static,
    name: String,
    words: Sender<Word>,
    read: impl Fn(&str) -> Said + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(out).split(b'\n') {
            let Ok(line) = line else {
                return;
            };
            let line = String::from_utf8_lossy(&line);
            // Reading continues even if the receiver is gone, so that a full pipe does not block
            // the child.
            let _ = words.send((name.clone(), read(&line)));
        }
    });
}

/// How long a process may take to end in good order once the pipe is closed.
const GRACE: Duration = Duration::from_secs(3);

/// For processes that others start.
#[derive(Args, Clone, Debug)]
pub struct LeashArgs {
    /// End when standard input closes
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

impl LeashArgs {
    /// Stops this process when standard input closes, and ends it forcibly if it does not stop.
    pub fn hold(&self, interrupt: &Interrupt) {
        if !self.end_with_stdin {
            return;
        }
        let interrupt = interrupt.clone();
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            let mut ignored = [0; 64];
            while matches!(input.read(&mut ignored), Ok(read) if read > 0) {}
            interrupt.set();
            std::thread::sleep(GRACE);
            std::process::exit(1);
        });
    }
}
