//! Child processes and a temporary folder, of which nothing is left.
//!
//! A child that is dropped is terminated. For the case that this process itself is killed, by
//! Ctrl-C or otherwise, there is a guard: a shell that knows the ids of the children. When the pipe
//! to it closes, it terminates those that still run and removes the folder.

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Reads `+ID` for a child that starts and `-ID` for one that has ended, until the pipe closes.
/// Signals from the terminal go to its process group, which is not the guard's.
const GUARD: &str = r#"
trap '' INT TERM HUP
children=' '
while read -r line; do
    id=${line#?}
    case $line in
    +*) children="$children$id " ;;
    -*) children="${children%%" $id "*} ${children#*" $id "}" ;;
    esac
done
alive() { for id in $children; do kill -0 "$id" && return 0; done; return 1; }
for id in $children; do kill -TERM "$id"; done
tries=20
while alive && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
for id in $children; do kill -KILL "$id"; done
rm -rf -- "$1"
"#;

/// How long a child may take to end when it is terminated.
const GRACE: Duration = Duration::from_secs(2);
/// How often the end of a child is looked for.
const POLL: Duration = Duration::from_millis(5);

/// The guard and its folder.
pub struct Guard {
    shell: Child,
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    folder: PathBuf,
}

/// A process that is terminated when this is dropped.
pub struct Running {
    child: Child,
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    output: Vec<JoinHandle<String>>,
}

impl Guard {
    /// Makes the folder, readable by this user only, and starts the guard. `name` distinguishes
    /// guards of one process.
    pub fn new(name: &str) -> io::Result<Self> {
        let name = format!("rackweave-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let shell = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut shell = match shell {
            Ok(shell) => shell,
            Err(error) => {
                let _ = std::fs::remove_dir(&folder);
                return Err(error);
            }
        };
        let pipe = Arc::new(Mutex::new(shell.stdin.take()));
        Ok(Self {
            shell,
            pipe,
            folder,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program, without input; its temporary files go to the folder.
    pub fn spawn(&self, command: &mut Command) -> Result<Running, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .env("TMPDIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        note(&self.pipe, '+', child.id());
        let output = vec![collect(child.stdout.take()), collect(child.stderr.take())];
        Ok(Running {
            child,
            pipe: Arc::clone(&self.pipe),
            output,
        })
    }

    /// Runs a program, and returns its standard output if it succeeds within `limit`.
    pub fn output(&self, command: &mut Command, limit: Duration) -> Result<String, String> {
        self.spawn(command)?.output(limit)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The pipe closes, and the guard removes the folder.
        drop(self.pipe.lock().map(|mut pipe| pipe.take()));
        let _ = self.shell.wait();
    }
}

impl Running {
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, and returns its standard output if it succeeds within `limit`.
    pub fn output(mut self, limit: Duration) -> Result<String, String> {
        let end = Instant::now() + limit;
        while self.is_running() {
            if Instant::now() > end {
                return Err(format!("no result within {} seconds", limit.as_secs()));
            }
            std::thread::sleep(POLL);
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let mut texts = self.output.drain(..).map(|thread| thread.join());
        let mut text = || texts.next().and_then(Result::ok).unwrap_or_default();
        let (output, errors) = (text(), text());
        match status.success() {
            true => Ok(output),
            false => Err(format!("{status}: {}", last_line(&errors, &output))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            let id = self.child.id().to_string();
            // Not SIGKILL at once: mpirun ends its ranks, and removes what they share.
            let _ = Command::new("sh")
                .args(["-c", "kill -TERM \"$1\"", "terminate", &id])
                .status();
            let end = Instant::now() + GRACE;
            while self.is_running() && Instant::now() < end {
                std::thread::sleep(POLL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        note(&self.pipe, '-', self.child.id());
    }
}

/// Reports the start or the end of a child to the guard.
fn note(pipe: &Mutex<Option<ChildStdin>>, what: char, id: u32) {
    if let Ok(mut pipe) = pipe.lock()
        && let Some(pipe) = pipe.as_mut()
    {
        let _ = pipe.write_all(format!("{what}{id}\n").as_bytes());
    }
}

/// Reads all of it, so that the child never waits.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn last_line(errors: &str, output: &str) -> String {
    let lines = output.lines().chain(errors.lines());
    let last = lines.rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("no message").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_output_or_the_last_line_of_the_errors_comes_back() {
        let guard = Guard::new("output").expect("a temporary folder");
        let limit = Duration::from_secs(10);
        let output = guard.output(&mut shell("echo \"$TMPDIR\""), limit);
        assert_eq!(output, Ok(format!("{}\n", guard.folder().display())));
        let failure = guard.output(&mut shell("echo first >&2; echo last >&2; exit 3"), limit);
        assert_eq!(failure, Err("exit status: 3: last".to_owned()));
        let late = guard.output(&mut shell("exec sleep 60"), Duration::ZERO);
        assert_eq!(late, Err("no result within 0 seconds".to_owned()));
        let folder = guard.folder().to_owned();
        drop(guard);
        assert!(!folder.exists(), "{} is left", folder.display());
    }

    #[test]
    fn the_guard_ends_children_that_are_left() {
        let guard = Guard::new("left").expect("a temporary folder");
        let ended = guard.spawn(&mut shell("exit 0")).expect("sh");
        let mut left = guard.spawn(&mut shell("exec sleep 60")).expect("sh");
        assert_eq!(ended.output(Duration::from_secs(10)), Ok(String::new()));
        // As if this process were killed: the pipe closes while the child runs. It is reaped here,
        // so that the guard finds it ended.
        let waits = std::thread::spawn(move || left.child.wait());
        drop(guard);
        let status = waits.join().expect("no panic").expect("a status");
        assert!(!status.success());
    }
}
