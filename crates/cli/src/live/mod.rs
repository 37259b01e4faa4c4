//! What a command tells of itself while it runs, for `top` and `stat`.
//!
//! A command that has a rack of its own has it watched ([`Live::watch`]) and says what it is doing
//! ([`Live::phase`]). From the first rack on, it answers on a Unix socket in the abstract
//! namespace, whose name ends in user and process: nothing lies in the file system, and nothing is
//! left when the process is killed. Whoever of the same user connects is sent one [`Snapshot`] and
//! the connection is closed; nothing is read from him.
//!
//! `server` answers, `client` finds those who answer and asks them, `snapshot` is what is said;
//! `source` is whom `top` and `stat` look at, `change` what happens between two looks, `words` how
//! numbers are told.

pub mod args;
pub mod change;
mod client;
#[cfg(test)]
pub mod samples;
mod server;
pub mod snapshot;
pub mod source;
pub mod words;

pub use change::Change;
use rackweave_rack::statistics::{RackObserver, RackStatistics};
use server::Server;
pub use snapshot::Snapshot;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// What a command tells of itself. Clones are one; the last one that goes ends it.
#[derive(Clone)]
pub struct Live(Arc<Telling>);

/// The socket goes before what it tells of.
struct Telling {
    server: Mutex<Option<Server>>,
    story: Arc<Story>,
}

/// What there is to tell.
struct Story {
    command: String,
    began: Instant,
    now: Mutex<Now>,
}

struct Now {
    phase: String,
    since: Instant,
    rack: Option<RackObserver>,
    racks: u32,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("command", &self.0.story.command)
            .finish_non_exhaustive()
    }
}

impl Live {
    /// Begins to tell of a command; `command` says what the user asked for. Nobody can ask before
    /// there is a rack.
    pub fn begin(command: &str) -> Self {
        let now = Now {
            phase: String::new(),
            since: Instant::now(),
            rack: None,
            racks: 0,
        };
        Self(Arc::new(Telling {
            server: Mutex::new(None),
            story: Arc::new(Story {
                command: command.to_owned(),
                began: Instant::now(),
                now: Mutex::new(now),
            }),
        }))
    }

    /// This rack is told of from now on, in place of one before. Without a socket (another process
    /// may have taken its name) the command goes on, and nobody can watch it.
    pub fn watch(&self, rack: RackObserver) {
        let mut now = self.0.story.now();
        now.rack = Some(rack);
        now.racks += 1;
        drop(now);
        let mut server = self.0.server.lock().expect("no holder of this lock panics");
        if server.is_none() {
            *server = Server::start(&self.0.story).ok();
        }
    }

    /// What the command is doing from now on.
    pub fn phase(&self, phase: &str) {
        let mut now = self.0.story.now();
        if now.phase != phase {
            now.phase = phase.to_owned();
            now.since = Instant::now();
        }
    }
}

impl Story {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of this lock panics")
    }

    fn look(&self) -> Option<RackStatistics> {
        let rack = self.now().rack.clone();
        rack?.look()
    }

    fn snapshot(&self) -> Snapshot {
        let rack = self.look();
        let now = self.now();
        Snapshot {
            schema: snapshot::SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            command: self.command.clone(),
            phase: now.phase.clone(),
            phase_seconds: now.since.elapsed().as_secs_f64(),
            up_seconds: self.began.elapsed().as_secs_f64(),
            racks: now.racks,
            rack,
        }
    }
}

/// The command line, without the path of the program, on one line.
pub fn command_line() -> String {
    const CHARACTERS_MAX: usize = 200;
    let arguments = std::env::args_os().skip(1);
    let words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    let plain = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(CHARACTERS_MAX);
    match line.is_empty() {
        true => "demo".to_owned(),
        false => plain.collect(),
    }
}

#[cfg(test)]
mod tests;
