//! Worker processes on this machine, and the CPU time of processes.
//!
//! A local worker reads its standard input, which is a pipe from the command that started it, and
//! ends when the pipe closes. The kernel closes the pipe when the command dies, however it dies.
//! Local workers have a process group of their own, so that Ctrl-C reaches only the command.

use crate::error::CommandError;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use url::Url;

/// How long a process may take until it prints its first line.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The same for a process that loads tables first.
const LOAD_LIMIT: Duration = Duration::from_mins(30);

/// How long a worker may take to end after its pipe is closed; then it is killed.
const END_LIMIT: Duration = Duration::from_secs(3);

/// A process that ends when this is dropped.
#[derive(Debug)]
pub struct LocalProcess {
    name: String,
    /// The arguments that start one in its place, if that is possible.
    again: Option<Vec<OsString>>,
    loads: bool,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl LocalProcess {
    /// Starts this program again as `worker --until-stdin-closes ARGUMENTS`, and waits until it
    /// prints its URL.
    ///
    /// # Errors
    /// The process does not start, or prints no URL in time.
    pub async fn start_worker(
        name: String,
        arguments: Vec<String>,
    ) -> Result<(Self, Url), CommandError> {
        let worker = ["worker", "--until-stdin-closes"].map(OsString::from);
        let arguments = arguments.into_iter().map(OsString::from);
        let (process, line) =
            Self::start_again(name, worker.into_iter().chain(arguments).collect()).await?;
        let url = line.trim().parse().map_err(|_| {
            CommandError::set_up(format!("{} printed {line:?}, not its URL", process.name))
        })?;
        Ok((process, url))
    }

    /// Starts this program again with `arguments`, and waits for the first line that it prints.
    ///
    /// # Errors
    /// The process does not start, or prints nothing in time.
    pub async fn start_again(
        name: String,
        arguments: Vec<OsString>,
    ) -> Result<(Self, String), CommandError> {
        Self::start_again_within(name, arguments, START_LIMIT).await
    }

    /// The same for a process that loads tables before it prints its first line.
    ///
    /// # Errors
    /// As for [`Self::start_again`].
    pub async fn start_loading(
        name: String,
        arguments: Vec<OsString>,
    ) -> Result<(Self, String), CommandError> {
        let (mut process, line) = Self::start_again_within(name, arguments, LOAD_LIMIT).await?;
        process.loads = true;
        Ok((process, line))
    }

    async fn start_again_within(
        name: String,
        arguments: Vec<OsString>,
        limit: Duration,
    ) -> Result<(Self, String), CommandError> {
        let start = move || {
            let program = std::env::current_exe()
                .map_err(|error| CommandError::set_up(format!("cannot find itself: {error}")))?;
            let mut command = Command::new(program);
            command.args(arguments);
            Self::start(name, command, limit)
        };
        tokio::task::spawn_blocking(start)
            .await
            .expect("starting a process does not panic")
    }

    /// Has [`Self::restart`] start this program with `arguments`.
    #[must_use]
    pub fn with_restart(mut self, arguments: Vec<OsString>) -> Self {
        self.again = Some(arguments);
        self
    }

    /// Starts a process in its place if it has ended and can be restarted. Returns how it ended.
    ///
    /// # Errors
    /// The process does not start.
    pub async fn restart(&mut self) -> Result<Option<String>, CommandError> {
        let Some(arguments) = self.again.clone() else {
            return Ok(None);
        };
        let Some(ended) = self.ended() else {
            return Ok(None);
        };
        let (name, start) = (self.name.clone(), arguments.clone());
        let (process, _) = if self.loads {
            Self::start_loading(name, start).await?
        } else {
            Self::start_again(name, start).await?
        };
        *self = process.with_restart(arguments);
        Ok(Some(ended))
    }

    /// Starts a command which ends when its standard input closes, and waits for the first line
    /// that it prints, for up to `limit`.
    ///
    /// # Errors
    /// The process does not start, or prints nothing in time.
    pub fn start(
        name: String,
        mut command: Command,
        limit: Duration,
    ) -> Result<(Self, String), CommandError> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| CommandError::set_up(format!("cannot start {name}: {error}")))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is piped");
        let mut process = Self {
            name,
            again: None,
            loads: false,
            child,
            stdin,
        };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(line);
            // A process that prints more must not stop at a full pipe.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        match receiver.recv_timeout(limit) {
            Ok(line) if !line.is_empty() => Ok((process, line)),
            Ok(_) => {
                std::thread::sleep(Duration::from_millis(20));
                let why = process
                    .ended()
                    .unwrap_or_else(|| "it closed its output".to_owned());
                Err(CommandError::set_up(format!(
                    "{} did not start: {why}",
                    process.name
                )))
            }
            Err(_) => Err(CommandError::set_up(format!(
                "{} was not ready within {} s",
                process.name,
                limit.as_secs()
            ))),
        }
    }

    /// Whether it takes long to start, as it loads tables.
    pub fn loads(&self) -> bool {
        self.loads
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!(
            "{} (process {}) ended with {status}",
            self.name,
            self.child.id()
        ))
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends this process when standard input closes.
pub fn end_when_stdin_closes() {
    when_stdin_closes(|| std::process::exit(0));
}

/// Calls `act` when standard input closes. It is a thread, so that a busy runtime does not delay
/// it.
pub fn when_stdin_closes(act: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while std::io::stdin().read(&mut bytes).is_ok_and(|read| read > 0) {}
        act();
    });
}

/// CPU time of this process and of `others`, user and system, in seconds. A process that has ended
/// counts as 0. The kernel counts in ticks of 10 ms.
pub fn cpu_seconds(others: &[u32]) -> f64 {
    let pids = others.iter().copied().chain([std::process::id()]);
    let ticks: u64 = pids.filter_map(cpu_ticks).sum();
    #[expect(
        clippy::cast_precision_loss,
        reason = "ticks of years are less than 2^52"
    )]
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    seconds
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `utime` and `stime`, fields 14 and 15 of proc(5)'s `/proc/pid/stat`.
fn parse_stat(stat: &str) -> Option<u64> {
    // Field 2, the program's name in parentheses, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::{LocalProcess, START_LIMIT, cpu_seconds, parse_stat};
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn times_are_after_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 120 30 9 9 20 0 1 0 100 1000 10";
        assert_eq!(parse_stat(stat), Some(150));
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn work_uses_cpu_time() {
        let before = cpu_seconds(&[]);
        let start = Instant::now();
        while start.elapsed().as_millis() < 100 {}
        assert!(cpu_seconds(&[]) > before);
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_ends_when_it_is_dropped() {
        let (process, line) =
            LocalProcess::start("cat".to_owned(), shell("echo ready; exec cat"), START_LIMIT)
                .unwrap();
        assert_eq!(line, "ready\n");
        let proc = format!("/proc/{}", process.pid());
        assert!(std::fs::exists(&proc).unwrap());
        drop(process);
        assert!(!std::fs::exists(&proc).unwrap());
    }

    #[test]
    fn a_process_that_does_not_start_says_why() {
        let error = LocalProcess::start("sh".to_owned(), shell("exit 3"), START_LIMIT).unwrap_err();
        assert!(
            error.to_string().contains("sh did not start: sh"),
            "{error}"
        );
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }
}
