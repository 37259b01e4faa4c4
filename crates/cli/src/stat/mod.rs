//! The command `stat`: the counters of a command on this machine, or of a hosted rack.

#[cfg(test)]
mod tests;

use crate::globals::{Format, Globals};
use crate::live::{Change, Snapshot};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::rack_source::{AskError, LookError, RackSource};
use crate::report::words::ANSWERS;
use crate::report::{self, object};
use clap::Args;
use rackweave_rack::statistics::RackStatistics;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Arguments of `stat`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave stat                              what the command that began last has counted
  rackweave stat --pid 4711 --format json     this one, as one JSON object
  rackweave stat --format openmetrics         as metrics, for Prometheus
  rackweave stat --interval 1 --count 10      and what happens each second, ten times
  rackweave stat --hosted --all               the rack that `rackweave up` runs, zeros included

Counters of NICs have the names that `rdma statistic` shows for rdma_rxe and mlx5.")]
pub struct StatArgs {
    /// The process; without it, the one that began last
    #[arg(long, value_name = "N")]
    pub pid: Option<u32>,
    /// Counters that are zero, too
    #[arg(long)]
    pub all: bool,
    /// Print again after so many seconds, with what has happened since; at least a quarter
    #[arg(long, value_name = "S")]
    pub interval: Option<f64>,
    /// Print so often; without it, until the command ends
    #[arg(long, value_name = "N", requires = "interval")]
    pub count: Option<u64>,
    /// Ask the hosted rack that runs: see `rackweave demo --help`
    #[arg(long)]
    pub hosted: bool,
}

/// Minimum interval between two snapshots: a command takes them no more often.
pub const INTERVAL_MIN: f64 = 0.25;

/// Runs the command.
///
/// # Errors
/// If there is no process to observe, or it does not reply.
pub fn run(args: &StatArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let interval = args.interval.map(interval).transpose()?;
    let mut source = RackSource::of(args.pid, args.hosted, globals)?;
    let mut last = source.look()?;
    let print = |before: Option<&Snapshot>, now: &Snapshot| {
        let report = report(before, now, args.all);
        output::print_as(globals, "stat", &report, text)
    };
    print(None, &last)?;
    let Some(interval) = interval else {
        return Ok(Verdict::Passed);
    };
    let mut printed = 1;
    while args.count.is_none_or(|count| printed < count) {
        if !rest(interval, globals) {
            return Ok(Verdict::Ended);
        }
        let now = match source.look() {
            Ok(now) => now,
            // It existed, and has ended.
            Err(LookError::Ask(AskError::Ended(_))) => return Ok(Verdict::Passed),
            Err(error) => return Err(error.into()),
        };
        if globals.args.format == Format::Text {
            output::line("")?;
        }
        print(Some(&last), &now)?;
        last = now;
        printed += 1;
    }
    Ok(Verdict::Passed)
}

/// The interval between two snapshots.
///
/// # Errors
/// If it is too short, or not a valid duration.
pub fn interval(seconds: f64) -> Result<Duration, CliError> {
    let fits = (INTERVAL_MIN..=86_400.0).contains(&seconds);
    let time = fits.then(|| Duration::from_secs_f64(seconds));
    time.ok_or_else(|| {
        CliError::usage(format!(
            "--interval is {seconds}: {INTERVAL_MIN} to 86400 seconds are possible"
        ))
    })
}

/// Sleeps; false if the user wants to stop.
fn rest(interval: Duration, globals: &Globals) -> bool {
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if globals.interrupt.is_set() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// The counters of a command, and the activity since the snapshot `before`; without counters that
/// are zero, unless `all`.
pub fn report(before: Option<&Snapshot>, now: &Snapshot, all: bool) -> Value {
    let mut rack = now.rack.clone();
    if let (Some(rack), false) = (&mut rack, all) {
        hide_zeros(rack);
    }
    json!({
        "pid": now.pid,
        "version": now.version,
        "command": now.command,
        "phase": now.phase,
        "phase_seconds": now.phase_seconds,
        "up_seconds": now.up_seconds,
        "rack": rack,
        "change": before.and_then(|before| Change::between(Some(before), now)),
    })
}

fn hide_zeros(rack: &mut RackStatistics) {
    let nodes = rack.nodes.iter_mut();
    let nodes = nodes.flat_map(|node| [&mut node.counters, &mut node.drops]);
    let switches = rack.switches.iter_mut();
    let switches = switches.flat_map(|switch| [&mut switch.counters, &mut switch.drops]);
    let pages = rack.pages.iter_mut().map(|pages| &mut pages.answers);
    let index = rack.index.iter_mut().map(|index| &mut index.other);
    let all = nodes.chain(switches).chain(pages).chain(index);
    all.for_each(|counters| counters.retain(|_, count| *count > 0));
}

/// The report as text.
pub fn text(report: &Value) -> String {
    let mut found = object(report);
    if found["rack"].is_null() {
        found["rack"] = "none at the moment".into();
    } else if found["rack"]["pages"].is_object() {
        found["rack"]["pages"]["answers"] = answers(&report["rack"]["pages"]["answers"]);
    }
    report::text(found)
}

/// The replies of the page directory, with their shares of all requests and what they mean.
fn answers(answers: &Value) -> Value {
    let count = |kind: &str| answers[kind].as_u64();
    let one_each = ANSWERS.iter().filter(|(.., one)| *one);
    let whole: u64 = one_each.filter_map(|(kind, ..)| count(kind)).sum();
    let row = |&(kind, meaning, one): &(&str, &str, bool)| {
        let count = count(kind)?;
        let share = count as f64 / whole.max(1) as f64;
        let share = one.then_some(share);
        Some(json!({"answer": kind, "count": count, "share": share, "meaning": meaning}))
    };
    ANSWERS.iter().filter_map(row).collect()
}
