//! A program of the campaign: a process that joins the rack as a guest and uses every system, a
//! thread each, until its standard input closes. A line on standard input means that everything is
//! repaired: then each thread must get a last piece of work done, after which the program keeps
//! serving its peers.

mod flows;
mod index;
mod messages;
mod pages;
mod sequencer;

use super::journal::{Event, FaultEvent, Journal, Life, System, now};
use super::plan::DEAD_AFTER_MS;
use super::shared::{done_file, journal_of, place_of};
use rackweave_base::{Instant, NodeId, Rng};
use rackweave_rack::{Rack, RackConfig};
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Exit status of a program that could not begin: its next process may.
pub const TRY_AGAIN: i32 = 75;

/// How long the last piece of work may take, with everything repaired.
pub const LAST_LIMIT: Duration = Duration::from_secs(20);

/// How long before its end a process stops waiting for its threads. Calls may take longer. To leave
/// a rack without a controller takes as long as that takes to count as dead.
const LEAVES_WITHIN: Duration = Duration::from_millis(DEAD_AFTER_MS + 500);

/// Pause before another attempt at what has failed.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A program, and the process that it is.
pub struct ProgramOptions {
    /// The rack that it joins.
    pub config: RackConfig,
    /// The folder of the rack.
    pub folder: PathBuf,
    /// The number of the program.
    pub number: u16,
    /// The number of the process.
    pub life: Life,
    /// The seed of the campaign.
    pub seed: u64,
    /// The process is to end within this time once its standard input has closed.
    pub end_within: Duration,
}

/// Why a program could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Its journal cannot be created.
    #[error(transparent)]
    Journal(#[from] io::Error),
    /// The rack has no place for it.
    #[error("the rack has too few places for guests")]
    NoPlace,
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

/// Runs the process until its standard input closes. A process that could not begin ends with
/// `TRY_AGAIN`, and one whose calls do not end in time ends without them.
///
/// # Errors
/// If the rack's configuration or the folder cannot be used.
pub fn run(options: ProgramOptions) -> Result<(), ProgramError> {
    let ProgramOptions { config, life, .. } = options;
    let journal = Journal::create(&journal_of(&options.folder, life))?;
    let place = place_of(&config, options.number).ok_or(ProgramError::NoPlace)?;
    let rack = match Rack::join_as(&config, &[place]) {
        Ok(rack) => rack,
        Err(error) => {
            journal.note(Event::Failed(System::Rack, error.to_string()));
            give_up(&journal, life);
        }
    };
    let program = Arc::new(Program {
        node: rack.any_node().id(),
        rack,
        seed: options.seed,
        number: options.number,
        life,
        folder: options.folder,
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
    let deadline = std::time::Instant::now() + options.end_within.saturating_sub(LEAVES_WITHIN);
    while threads.iter().any(|thread| !thread.is_finished()) {
        if std::time::Instant::now() > deadline {
            // Calls of its threads have not ended yet, and need not have.
            std::process::exit(0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Ends the process, so that the campaign starts the next one.
fn give_up(journal: &Journal, life: Life) -> ! {
    journal.note(Event::Fault(FaultEvent::Ends(life)));
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
