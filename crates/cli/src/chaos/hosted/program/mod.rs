//! A program of the campaign: a process that joins the rack as a guest and uses every system, a
//! thread each, until its standard input closes. A line on standard input means that everything is
//! repaired: then each thread must get a last piece of work done, after which the program keeps
//! serving its peers.

pub mod flows;
pub mod index;
mod messages;
mod pages;
mod sequencer;

use super::journal::{Event, Fault, Journal, Life, System, now};
use super::plan::{DEAD_AFTER_MS, PROGRAMS};
use crate::globals::Globals;
use crate::hosted::child::LeashArgs;
use crate::hosted::processes;
use crate::outcome::{CliError, Verdict};
use clap::Args;
use rackweave_base::{Instant, NodeId, Rng};
use rackweave_rack::{Rack, RackConfig};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// The first argument of such a process, for the campaign alone.
pub const COMMAND: &str = "chaos-program";

/// Exit status of a program that could not begin: its next process may.
pub const TRY_AGAIN: i32 = 75;

/// How long the last piece of work may take, with everything repaired.
pub const LAST_LIMIT: Duration = Duration::from_secs(20);

/// How long threads may take to end after standard input has closed. Calls may take longer. To
/// leave a rack without a controller takes as long as that takes to count as dead; and the process
/// is to end within [`processes::END_LIMIT`].
const END_LIMIT: Duration =
    Duration::from_millis(processes::END_LIMIT.as_millis() as u64 - DEAD_AFTER_MS - 500);

/// Pause before another attempt at what has failed.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Arguments of a program.
#[derive(Args, Clone, Debug)]
pub struct ProgramArgs {
    /// The folder of the rack
    #[arg(long)]
    pub folder: PathBuf,
    /// The number of the program
    #[arg(long)]
    pub number: u16,
    /// The number of the process
    #[arg(long)]
    pub life: Life,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// The journal of a process.
pub fn journal_of(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("life-{life}.journal"))
}

/// The file by which a process reports that it has done its last piece of work.
pub fn done_file(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("life-{life}.done"))
}

/// The place of a program; the first one is the campaign's.
pub fn place_of(config: &RackConfig, program: u16) -> Option<&str> {
    let guests = config.nodes_of(rackweave_rack::config::Role::Guest);
    let place = guests.get(usize::from(program) + 1)?;
    Some(&config.node[usize::from(place.0)].name)
}

/// What the campaign wants of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Random work.
    Work,
    /// The last piece of work.
    Last,
    /// To end.
    Ends,
}

/// What the threads of a program share.
pub struct Program {
    rack: Rack,
    node: NodeId,
    seed: u64,
    number: u16,
    life: Life,
    folder: PathBuf,
    journal: Journal,
    phase: AtomicU8,
    /// Threads that have work left.
    working: AtomicUsize,
}

impl Program {
    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Work,
            1 => Phase::Last,
            _ => Phase::Ends,
        }
    }

    fn rng(&self, name: &str) -> Rng {
        Rng::new(self.seed ^ u64::from(self.life) << 48).fork(name)
    }

    fn note(&self, event: Event) {
        self.journal.note(event);
    }

    fn wrong(&self, text: String) {
        self.note(Event::Wrong(text));
    }

    fn failed(&self, system: System, error: &impl ToString) {
        self.note(Event::Failed(system, error.to_string()));
    }

    /// Sleeps for up to `most`.
    fn pause(rng: &mut Rng, most: Duration) {
        std::thread::sleep(Duration::from_nanos(rng.below(most.as_nanos() as u64)));
    }

    /// Attempts something until it succeeds. `None` if the program is to end before, or if it does
    /// not succeed although everything is repaired.
    fn attempt<T, E: ToString>(
        &self,
        system: System,
        mut act: impl FnMut() -> Result<T, E>,
    ) -> Option<T> {
        let mut repaired_at: Option<Instant> = None;
        loop {
            match (self.phase(), act()) {
                (_, Ok(done)) => return Some(done),
                (Phase::Ends, Err(_)) => return None,
                (Phase::Work, Err(error)) => self.failed(system, &error),
                (Phase::Last, Err(error)) => {
                    let since = *repaired_at.get_or_insert_with(now);
                    if now().since(since) > LAST_LIMIT.into() {
                        let what = error.to_string();
                        self.wrong(format!(
                            "after the repair, {system:?} does not work: {what}"
                        ));
                        return None;
                    }
                    self.failed(system, &error);
                }
            }
            std::thread::sleep(AGAIN_AFTER);
        }
    }
}

/// Runs the process.
///
/// # Errors
/// If the rack's configuration or the folder cannot be used.
pub fn run(args: &ProgramArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.hosted_process()?;
    let journal = Journal::create(&journal_of(&args.folder, args.life)).map_err(CliError::run)?;
    let place = place_of(&config, args.number);
    let place = place.ok_or_else(|| CliError::run("the rack has too few places for guests"))?;
    let rack = match Rack::join_as(&config, &[place]) {
        Ok(rack) => rack,
        Err(error) => {
            journal.note(Event::Failed(System::Rack, error.to_string()));
            give_up(&journal, args.life);
        }
    };
    let program = Arc::new(Program {
        node: rack.any_node().id(),
        rack,
        seed: globals.args.seed.unwrap_or(0),
        number: args.number,
        life: args.life,
        folder: args.folder.clone(),
        journal,
        phase: AtomicU8::new(0),
        working: AtomicUsize::new(0),
    });
    let works: [fn(&Program); 6] = [
        pages::run,
        index::run,
        sequencer::run,
        messages::dial,
        messages::listen,
        flows::run,
    ];
    let threads: Vec<_> = works.map(|work| start(&program, work)).into();
    for _line in std::io::stdin().lock().lines() {
        program.phase.store(Phase::Last as u8, Ordering::Relaxed);
    }
    program.phase.store(Phase::Ends as u8, Ordering::Relaxed);
    let deadline = std::time::Instant::now() + END_LIMIT;
    while threads.iter().any(|thread| !thread.is_finished()) {
        if std::time::Instant::now() > deadline {
            // Calls of its threads have not ended yet, and need not have.
            std::process::exit(0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Verdict::Ended)
}

/// Ends the process, so that the campaign starts the next one.
fn give_up(journal: &Journal, life: Life) -> ! {
    journal.note(Event::Fault(Fault::Ends(life)));
    std::process::exit(TRY_AGAIN);
}

/// Starts a thread of the program. The last one that has done its work reports so.
fn start(program: &Arc<Program>, work: fn(&Program)) -> std::thread::JoinHandle<()> {
    program.working.fetch_add(1, Ordering::Relaxed);
    let program = program.clone();
    std::thread::spawn(move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&program)));
        if ended.is_err() {
            // The message is on standard error already.
            std::process::abort();
        }
    })
}

impl Program {
    /// Records that a thread has done its last piece of work.
    fn done(&self) {
        if self.working.fetch_sub(1, Ordering::Relaxed) == 1 {
            let file = done_file(&self.folder, self.life);
            std::fs::write(file, b"").expect("the folder can be written");
        }
    }
}

/// The numbers of all programs.
fn peers() -> impl Iterator<Item = u16> {
    0..PROGRAMS
}
