//! The command `stat`: the counters of a command on this machine, or of a hosted rack.

mod report;
#[cfg(test)]
mod tests;

use crate::globals::{Format, Globals};
use crate::live::Snapshot;
use crate::live::args::StatArgs;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::rack_source::{AskError, LookError, RackSource};
use std::time::{Duration, Instant};

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
        let report = report::report(before, now, args.all);
        output::print_as(globals, "stat", &report, report::text)
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
