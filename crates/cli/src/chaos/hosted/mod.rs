//! Chaos on hosted racks: each seed starts its own rack of processes and programs that join it. The
//! programs use pages, an index, sequencers, messages and flows at once, while processes of all
//! kinds are killed, stopped, slowed, restarted and cut off; then everything has to work.
//!
//! No call may hang, no process may end by itself, and no process or socket may remain at the end;
//! [`rackweave_chaos::hosted`] has the plans of seeds, what programs do, and the judges.
//!
//! [`running`] has the processes of a seed, [`program`] is that of a program.

mod hinder;
pub mod program;
mod running;
mod waits;

use super::{ChaosArgs, report};
use crate::globals::Globals;
use crate::hosted::etcd;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use rackweave_chaos::hosted::{
    CampaignReport, Deed, Fault, HostedPlan, Journals, LAST_LIMIT, Objects, PROGRAMS, SeedReport,
    Victim,
};
use rackweave_rack::RackConfig;
use running::HostedRackRun;
use rustix::process::Signal;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use waits::{AGAIN_AFTER, WHOLE_LIMIT, await_that, await_whole, sleep};

/// Seeds without `--seeds`.
const SEEDS: u64 = 5;

/// How long a program that was declared dead goes on without knowing.
const ZOMBIE_FOR: Duration = Duration::from_millis(300);

/// The next leader begins within this time after one has lost its term, unless etcd stands still.
const LED_WITHIN: Duration = Duration::from_secs(5);

/// Runs the campaign, one seed after another: each has more processes than most machines have
/// cores.
///
/// # Errors
/// If the arguments are invalid, or the system has no resources for a rack.
pub fn run(
    args: &ChaosArgs,
    template: Option<&RackConfig>,
    globals: &Globals,
) -> Result<Verdict, CliError> {
    if args.jobs.is_some() {
        return Err(CliError::usage(
            "--jobs is for simulated systems; seeds of hosted racks run one after the other",
        ));
    }
    let seeds = super::seeds(args, SEEDS, globals)?;
    let config_file = globals
        .args
        .config
        .as_deref()
        .filter(|_| template.is_some());
    let count = seeds.end - seeds.start;
    let mut found = CampaignReport::new(seeds.start, count, config_file, args.faults);
    let has_etcd = etcd::is_installed();
    let mut progress = Progress::new(globals, "chaos hosted");
    for seed in seeds {
        let is_over = args.fail_fast && found.seeds_failed > 0;
        if is_over || globals.interrupt.is_set() {
            break;
        }
        let mut plan = HostedPlan::new(seed, template, has_etcd);
        if let Some(most) = args.faults {
            plan.faults.truncate(most as usize);
        }
        found.add(run_seed(&plan, args.journals.as_deref(), globals)?);
        progress.set(|| found.seeds_run as f64 / count as f64);
    }
    drop(progress);
    found.conclude();
    output::print_as(globals, "chaos", &found, report::of_processes)?;
    Ok(Verdict::of(found.verified))
}

fn run_seed(
    plan: &HostedPlan,
    journals: Option<&Path>,
    globals: &Globals,
) -> Result<SeedReport, CliError> {
    let seed = plan.seed;
    let mut report = SeedReport::new(plan);
    let mut running = HostedRackRun::start(plan)?;
    let driven = drive(plan, &mut running, &mut report, globals);
    if let Err(error) = driven
        && !globals.interrupt.is_set()
    {
        let text = format!("the run could not go on: {error}");
        report.violations.push(text);
    }
    report.count("takeovers", running.takeovers);
    let (violations, last_words) = running.finish()?;
    report.violations.extend(violations);
    report.last_words = last_words;
    report.interrupted = globals.interrupt.is_set();
    if !report.interrupted {
        let read = Journals::read(running.journals()).map_err(CliError::run)?;
        read.judge(seed, &mut report);
    }
    if let Some(folder) = journals.filter(|_| !report.violations.is_empty()) {
        running.keep_journals(folder).map_err(CliError::run)?;
    }
    Ok(report)
}

/// Makes what the programs share, lets them run, and carries out the faults of the plan.
fn drive(
    plan: &HostedPlan,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    globals: &Globals,
) -> Result<(), CliError> {
    let seed = plan.seed;
    let made = make(seed, running, report, globals)?;
    let orders = running.orders.clone();
    let looks_after = {
        let orders = orders.clone();
        std::thread::spawn(move || made.look_after(&orders, seed))
    };
    running.start_programs()?;
    let acted = act(&plan.faults, running, report, globals)
        .and_then(|()| repair(running, report, globals))
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
    globals: &Globals,
) -> Result<Objects, CliError> {
    loop {
        await_whole(running, report, globals)?;
        let before = running.takeovers;
        let made = Objects::make(&running.config, &running.folder, seed, &running.journal);
        let may_repeat = report.violations.is_empty() && !globals.interrupt.is_set();
        if made.is_ok() || !may_repeat || !is_led_anew(before, running)? {
            return Ok(made?);
        }
        running.begin_journal()?;
    }
}

/// Whether another process leads than before so many takeovers, or does soon.
fn is_led_anew(before: u64, running: &mut HostedRackRun) -> Result<bool, CliError> {
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
    globals: &Globals,
) -> Result<(), CliError> {
    if globals.interrupt.is_set() {
        return Ok(());
    }
    // A process that was absent too briefly to be declared dead is detected within this time.
    sleep(running.config.hosted().dead_after(), running)?;
    await_whole(running, report, globals)?;
    let orders = running.orders.clone();
    orders.repaired.store(true, Ordering::Relaxed);
    let whole = |_: &HostedRackRun| match orders.is_whole.load(Ordering::Relaxed) {
        true => None,
        false => Some("the index, a sequencer or lost pages are not there again".into()),
    };
    await_that(WHOLE_LIMIT, whole, running, report, globals)?;
    running.repaired();
    let worked = |running: &HostedRackRun| {
        let unfinished = running.unfinished();
        let flows = orders.flows_ended.load(Ordering::Relaxed);
        let left = || format!("work left: {}, flows: {}", unfinished.join(", "), !flows);
        (!flows || !unfinished.is_empty()).then(left)
    };
    await_that(2 * LAST_LIMIT, worked, running, report, globals)
}

/// Carries out a fault of the plan.
fn act(
    faults: &[Fault],
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    globals: &Globals,
) -> Result<(), CliError> {
    for fault in faults {
        if globals.interrupt.is_set() {
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
                hinder::run(victim, other, None, running, report, globals)?;
                report.count("stalls", 1);
            }
            Deed::Slow(other, stopped) => {
                hinder::run(victim, other, Some(stopped), running, report, globals)?;
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
) -> Result<bool, CliError> {
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
) -> Result<(), CliError> {
    if freeze(victim, zombie_for, running, report)? {
        running.goes_on(victim);
        running.cut(victim, false);
        return Ok(());
    }
    running.kill(victim);
    running.revive(victim)
}
