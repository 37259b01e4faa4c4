//! Carries out the plan of a seed: starts the rack and its programs, acts on the processes, waits
//! until everything works again, and has the journals judged.
//!
//! No call may hang, no process may end by itself, and no process or socket may remain at the end.

use super::hinder;
use super::judge::Journals;
use super::objects::{Objects, ObjectsError};
use super::plan::{Deed, Fault, HostedPlan, PROGRAMS, Victim};
use super::processes::{Launcher, ProcessError};
use super::program::LAST_LIMIT;
use super::report::SeedReport;
use super::running::HostedRackRun;
use super::waits::{AGAIN_AFTER, WHOLE_LIMIT, await_that, await_whole, sleep};
use rackweave_rack::ConfigError;
use rustix::process::Signal;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a program that was declared dead goes on without knowing.
const ZOMBIE_FOR: Duration = Duration::from_millis(300);

/// The next leader begins within this time after one has lost its term, unless etcd stands still.
const LED_WITHIN: Duration = Duration::from_secs(5);

/// Why a seed could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A process could not be started or ended.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// What the programs share could not be made.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The configuration of the plan is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file or a socket of the rack cannot be used.
    #[error("{what}: {error}")]
    System {
        /// Which one.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// Journals cannot be read or copied.
    #[error(transparent)]
    Journals(#[from] io::Error),
    /// The rack has too few places for guests.
    #[error("the rack needs {needed} places for guests: [[guest]] count")]
    FewPlaces {
        /// How many it needs.
        needed: u16,
    },
    /// All ports that were tried are in use.
    #[error("no free port from {first} to {end} was found; end other programs that use them")]
    NoPort {
        /// The first port of the range.
        first: u16,
        /// Its end.
        end: u16,
    },
}

/// Runs a seed. Journals of one that fails are copied to `journals`.
///
/// # Errors
/// If the system has no resources for the rack, or journals cannot be read.
pub fn run_seed(
    plan: &HostedPlan,
    launcher: &dyn Launcher,
    journals: Option<&Path>,
    interrupt: &AtomicBool,
) -> Result<SeedReport, DriveError> {
    let seed = plan.seed;
    let mut report = SeedReport::new(plan);
    let mut running = HostedRackRun::start(plan, launcher)?;
    let driven = drive(plan, &mut running, &mut report, interrupt);
    if let Err(error) = driven
        && !interrupt.load(Ordering::Relaxed)
    {
        let text = format!("the run could not go on: {error}");
        report.violations.push(text);
    }
    report.count("takeovers", running.takeovers);
    let (violations, last_words) = running.finish()?;
    report.violations.extend(violations);
    report.last_words = last_words;
    report.interrupted = interrupt.load(Ordering::Relaxed);
    if !report.interrupted {
        let read = Journals::read(running.journals())?;
        read.judge(seed, &mut report);
    }
    if let Some(folder) = journals.filter(|_| !report.violations.is_empty()) {
        running.keep_journals(folder)?;
    }
    Ok(report)
}

/// Makes what the programs share, lets them run, and carries out the faults of the plan.
fn drive(
    plan: &HostedPlan,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    let seed = plan.seed;
    let made = make(seed, running, report, interrupt)?;
    let orders = running.orders.clone();
    let looks_after = {
        let orders = orders.clone();
        std::thread::spawn(move || made.look_after(&orders, seed))
    };
    running.start_programs()?;
    let acted = act(&plan.faults, running, report, interrupt)
        .and_then(|()| repair(running, report, interrupt))
        .and_then(|()| running.end_programs(0..PROGRAMS));
    orders.ends.store(true, Ordering::Relaxed);
    if looks_after.join().is_err() {
        let text = "the thread that looks after what programs share panicked";
        report.violations.push(text.into());
    }
    acted
}

/// Makes what the programs share, again if the leader has lost its term meanwhile: a request to it
/// that is under way fails, and etcd may stand still before any fault.
fn make(
    seed: u64,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<Objects, DriveError> {
    loop {
        await_whole(running, report, interrupt)?;
        let before = running.takeovers;
        let made = Objects::make(&running.config, &running.folder, seed, &running.journal);
        let may_repeat = report.violations.is_empty() && !interrupt.load(Ordering::Relaxed);
        if made.is_ok() || !may_repeat || !is_led_anew(before, running)? {
            return Ok(made?);
        }
        running.begin_journal()?;
    }
}

/// Whether another process leads than before so many takeovers, or does soon.
fn is_led_anew(before: u64, running: &mut HostedRackRun) -> Result<bool, DriveError> {
    let deadline = Instant::now() + LED_WITHIN;
    while running.takeovers == before && Instant::now() < deadline {
        sleep(AGAIN_AFTER, running)?;
    }
    Ok(running.takeovers > before)
}

/// Waits until everything is repaired, and then until every program has done a last piece of work
/// with every system.
fn repair(
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    if interrupt.load(Ordering::Relaxed) {
        return Ok(());
    }
    // A process that was absent too briefly to be declared dead is detected within this time.
    sleep(running.config.hosted().dead_after(), running)?;
    await_whole(running, report, interrupt)?;
    let orders = running.orders.clone();
    orders.repaired.store(true, Ordering::Relaxed);
    let whole = |_: &HostedRackRun| match orders.is_whole.load(Ordering::Relaxed) {
        true => None,
        false => Some("the index, a sequencer or lost pages are not there again".into()),
    };
    await_that(WHOLE_LIMIT, whole, running, report, interrupt)?;
    running.repaired();
    let worked = |running: &HostedRackRun| {
        let unfinished = running.unfinished();
        let flows = orders.flows_ended.load(Ordering::Relaxed);
        let left = || format!("work left: {}, flows: {}", unfinished.join(", "), !flows);
        (!flows || !unfinished.is_empty()).then(left)
    };
    await_that(2 * LAST_LIMIT, worked, running, report, interrupt)
}

/// Carries out a fault of the plan.
fn act(
    faults: &[Fault],
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    for fault in faults {
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        sleep(fault.after, running)?;
        let Fault { victim, deed, .. } = *fault;
        running.aim(victim);
        match deed {
            Deed::Kill(absent) => {
                match victim {
                    Victim::Program(_) => running.halt(victim),
                    _ => running.note(victim, true),
                }
                running.kill(victim);
                report.count("kills", 1);
                sleep(absent, running)?;
                running.revive(victim)?;
            }
            Deed::Stop(span) => {
                running.note(victim, false);
                running.signal(victim, Signal::STOP);
                report.count("stops", 1);
                sleep(span, running)?;
                running.signal(victim, Signal::CONT);
            }
            Deed::Cut(span) => {
                running.note(victim, false);
                running.cut(victim, true);
                report.count("cuts", 1);
                sleep(span, running)?;
                running.cut(victim, false);
            }
            Deed::Forget(span) => {
                running.note(victim, false);
                running.exchange_data(true)?;
                report.count("etcd_emptied", 1);
                sleep(span, running)?;
                running.exchange_data(false)?;
            }
            Deed::Restart(absent) => {
                if !matches!(victim, Victim::Program(_)) {
                    running.note(victim, true);
                }
                running.end(victim)?;
                report.count("restarts", 1);
                sleep(absent, running)?;
                running.revive(victim)?;
            }
            Deed::Freeze(absent) => {
                freeze(victim, ZOMBIE_FOR, running, report)?;
                running.kill(victim);
                running.cut(victim, false);
                sleep(absent, running)?;
                running.revive(victim)?;
            }
            Deed::Wake(span) => wake(victim, span, running, report)?,
            Deed::Stall(other) => {
                hinder::run(victim, other, None, running, report, interrupt)?;
                report.count("stalls", 1);
            }
            Deed::Slow(other, stopped) => {
                hinder::run(victim, other, Some(stopped), running, report, interrupt)?;
                report.count("slow_nodes", 1);
            }
        }
        count(victim, report);
    }
    Ok(())
}

/// Counts a fault of this victim.
fn count(victim: Victim, report: &mut SeedReport) {
    for (name, of) in [
        ("switch_faults", Victim::Switch),
        ("standby_faults", Victim::Standby),
        ("etcd_faults", Victim::Etcd),
    ] {
        report.count(name, u64::from(victim == of));
    }
    let is_program = matches!(victim, Victim::Program(_));
    report.count("program_faults", u64::from(is_program));
}

/// Stops a program until it is declared dead, and lets it go on for a while, cut off: it neither
/// learns of its death nor joins anew. False if it was not declared dead: it had not joined yet.
fn freeze(
    victim: Victim,
    zombie_for: Duration,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
) -> Result<bool, DriveError> {
    let Victim::Program(program) = victim else {
        unreachable!("only programs are frozen");
    };
    let was_member = running.is_member(program);
    running.halt(victim);
    let deadline = Instant::now() + WHOLE_LIMIT;
    // A switch process that has just begun to lead waits for it.
    let is_awaited =
        |running: &mut HostedRackRun| running.is_member(program) || !running.is_restored();
    while was_member && is_awaited(running) && Instant::now() < deadline {
        sleep(AGAIN_AFTER, running)?;
    }
    if was_member && is_awaited(running) {
        let limit = WHOLE_LIMIT.as_secs();
        let text =
            format!("program{program} stood still, and was not declared dead within {limit} s");
        report.violations.push(text);
    }
    if was_member {
        running.cut(victim, true);
        running.signal(victim, Signal::CONT);
        sleep(zombie_for, running)?;
        report.count("declared_dead", 1);
    }
    Ok(was_member)
}

/// Stops a program until it is declared dead, and lets it go on: after a while it learns of its
/// death, and joins anew. One that had not joined yet is killed and restarted.
fn wake(
    victim: Victim,
    zombie_for: Duration,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
) -> Result<(), DriveError> {
    if freeze(victim, zombie_for, running, report)? {
        running.goes_on(victim);
        running.cut(victim, false);
        return Ok(());
    }
    running.kill(victim);
    running.revive(victim)
}
