//! Chaos on hosted racks: each seed starts its own rack of processes, kills, stops, slows and
//! restarts them while rounds of a shuffle run, and then requires a round without fault.
//!
//! A round may fail, with an error that says what happened. It must never deliver anything wrong,
//! nor hang; no process may end by itself, and no process or socket may remain at the end. The
//! actions of the processes follow from the seed, but the system's scheduling does not: a seed
//! reproduces its plan, not every packet.

mod hinder;
mod plan;
mod report;
mod round;
mod running;

use super::args::ChaosArgs;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use plan::{Deed, Fault, HostedPlan, Victim};
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::HostedRack;
use report::{CampaignReport, SeedReport};
use round::RoundEnd;
use running::HostedRackRun;
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Its name on the command line.
pub const NAME: &str = "hosted";

/// Seeds without `--seeds`.
const SEEDS: u64 = 5;

/// How often the processes are checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a rack may take to be complete again.
const WHOLE_LIMIT: Duration = Duration::from_secs(20);

/// Pause before the next attempt on a rack that is not running yet.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

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
    let mut report = CampaignReport::new(seeds.start, count, config_file);
    let mut progress = Progress::new(globals, "chaos hosted");
    for seed in seeds {
        let is_over = args.fail_fast && report.seeds_failed > 0;
        if is_over || globals.interrupt.is_set() {
            break;
        }
        report.add(run_seed(seed, template, globals)?);
        progress.set(|| report.seeds_run as f64 / count as f64);
    }
    drop(progress);
    report.conclude();
    output::print(globals, "chaos", &report)?;
    Ok(Verdict::of(report.verified))
}

fn run_seed(
    seed: u64,
    template: Option<&RackConfig>,
    globals: &Globals,
) -> Result<SeedReport, CliError> {
    let plan = HostedPlan::new(seed, template);
    let mut report = SeedReport::new(&plan);
    let mut running = HostedRackRun::start(&plan.config, seed)?;
    await_whole(&mut running, &mut report, globals)?;
    let config = running.config.clone();
    let over = AtomicBool::new(false);
    let acted = std::thread::scope(|scope| {
        let (over, config) = (&over, &config);
        let rounds = scope.spawn(move || rounds(config, seed, over, globals));
        let acted = act(&plan.faults, &mut running, &mut report, globals);
        over.store(true, Ordering::Relaxed);
        while !rounds.is_finished() && acted.is_ok() {
            std::thread::sleep(LOOK_EVERY);
            if let Err(error) = running.look() {
                return (Err(error), rounds.join());
            }
        }
        (acted, rounds.join())
    });
    let (acted, ends) = acted;
    acted?;
    match ends {
        Ok(ends) => ends.into_iter().for_each(|end| report.add_round(end)),
        Err(_) => report.violations.push("the workload panicked".into()),
    }
    if !globals.interrupt.is_set() {
        // A process that was absent too briefly to be declared dead is detected within this time.
        sleep(config.hosted().dead_after(), &mut running)?;
        await_whole(&mut running, &mut report, globals)?;
        match round::run(&config, seed, globals) {
            RoundEnd::Verified { items, .. } => report.count("items", items),
            RoundEnd::Failed(error) => {
                let text = format!("the rack does not work after the faults: {error}");
                report.violations.push(text);
            }
            RoundEnd::Violated(violations) => report.violations.extend(violations),
        }
    }
    let (mut violations, last_words) = running.finish()?;
    // A judge also writes its findings to standard error, so that losing the switch does not lose
    // them.
    violations.retain(|new| !report.violations.iter().any(|known| new.ends_with(known)));
    report.violations.extend(violations);
    report.last_words = last_words;
    report.interrupted = globals.interrupt.is_set();
    Ok(report)
}

/// Runs rounds, one after another, until `over` is set; at least one.
fn rounds(config: &RackConfig, seed: u64, over: &AtomicBool, globals: &Globals) -> Vec<RoundEnd> {
    let mut ends = Vec::new();
    while ends.is_empty() || !over.load(Ordering::Relaxed) {
        let end = round::run(config, seed.wrapping_add(ends.len() as u64 + 1), globals);
        let again = matches!(end, RoundEnd::Failed(_));
        ends.push(end);
        if again {
            std::thread::sleep(AGAIN_AFTER);
        }
    }
    ends
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
        match deed {
            Deed::Kill(absent) => {
                running.kill(victim);
                report.count("kills", 1);
                sleep(absent, running)?;
                running.revive(victim)?;
            }
            Deed::Stop(span) => {
                running.signal(victim, Signal::STOP);
                report.count("stops", 1);
                sleep(span, running)?;
                running.signal(victim, Signal::CONT);
            }
            Deed::Restart(absent) => {
                running.end(victim)?;
                report.count("restarts", 1);
                sleep(absent, running)?;
                running.revive(victim)?;
            }
            Deed::Stall(other) => {
                hinder::run(victim, other, None, running, report, globals)?;
                report.count("stalls", 1);
            }
            Deed::Slow(other, stopped) => {
                hinder::run(victim, other, Some(stopped), running, report, globals)?;
                report.count("slow_nodes", 1);
            }
        }
        report.count("switch_faults", u64::from(victim == Victim::Switch));
    }
    Ok(())
}

/// Sleeps, and monitors the processes meanwhile.
fn sleep(span: Duration, running: &mut HostedRackRun) -> Result<(), CliError> {
    let deadline = Instant::now() + span;
    loop {
        running.look()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// Waits until the current process of every node has joined; reports a violation if it does not.
fn await_whole(
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    globals: &Globals,
) -> Result<(), CliError> {
    let deadline = Instant::now() + WHOLE_LIMIT;
    while !globals.interrupt.is_set() {
        running.look()?;
        let status = HostedRack::connect(&running.config).and_then(|mut rack| rack.status());
        let why = match status {
            Ok(status) => {
                let expected = running.node_pids();
                // Places for guests are behind them.
                let nodes = || status.nodes.iter().take(expected.len());
                let pids: Vec<_> = nodes().map(|node| node.pid).collect();
                if pids == expected {
                    return Ok(());
                }
                let absent = nodes().filter(|node| !node.joined);
                let absent: Vec<&str> = absent.map(|node| node.name.as_str()).collect();
                format!("absent: {}", absent.join(", "))
            }
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            let limit = WHOLE_LIMIT.as_secs();
            let text = format!("the rack is not whole within {limit} s: {why}");
            report.violations.push(text);
            return Ok(());
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Ok(())
}
