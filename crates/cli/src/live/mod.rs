//! Snapshots that a command publishes while it runs, for `top` and `stat`.
//!
//! A command with its own rack has it observed ([`Live::watch`]) and sets its current phase
//! ([`Live::phase`]). From the first rack on, it listens on a Unix socket in the abstract
//! namespace, whose name ends in user and process: nothing is in the file system, and nothing
//! remains when the process is killed. A client of the same user is sent one [`Snapshot`] on
//! connecting, then the connection is closed; nothing is read from the client.
//!
//! `server` replies, `client` finds publishing processes and asks them, `snapshot` is the content;
//! `change` is the activity between two snapshots.

pub mod change;
pub mod client;
mod server;
pub mod snapshot;

pub use change::Change;
use rackweave_rack::statistics::{RackObserver, RackStatistics};
use server::Server;
pub use snapshot::Snapshot;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// What a command publishes. Clones share it; dropping the last one ends it.
#[derive(Clone)]
pub struct Live {
    /// Dropped before its contents.
    server: Arc<Mutex<Option<Server>>>,
    story: Arc<Story>,
}

/// The contents to publish.
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

impl Live {
    /// Begins to publish a command; `command` is its command line. No client can connect before
    /// there is a rack.
    pub fn begin(command: &str) -> Self {
        let now = Now {
            phase: String::new(),
            since: Instant::now(),
            rack: None,
            racks: 0,
        };
        Self {
            server: Arc::default(),
            story: Arc::new(Story {
                command: command.to_owned(),
                began: Instant::now(),
                now: Mutex::new(now),
            }),
        }
    }

    /// Publishes this rack from now on, in place of an earlier one. Without a socket (another
    /// process may have taken its name) the command continues, and cannot be observed.
    pub fn watch(&self, rack: RackObserver) {
        let mut now = self.story.now();
        now.rack = Some(rack);
        now.racks += 1;
        drop(now);
        let mut server = self.server.lock().expect("no holder of this lock panics");
        if server.is_none() {
            *server = Server::start(&self.story).ok();
        }
    }

    /// Sets the current phase of the command.
    pub fn phase(&self, phase: &str) {
        let mut now = self.story.now();
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
pub mod tests;
