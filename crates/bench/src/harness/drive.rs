//! Running a simulated rack: the one loop of all experiments, in slices between which the user may
//! stop it.

use super::{ExperimentError, Result, Run};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_rack::{RunEnd, SimulatedRack};
use std::rc::Rc;

/// Virtual time between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_micros(200);

/// The error for something that should not fail.
pub fn failed(what: &str, error: impl core::fmt::Display) -> ExperimentError {
    ExperimentError::Run(format!("{what}: {error}"))
}

/// Results that should not be errors.
pub trait OrFailed<T> {
    /// The value; or an error that says what failed.
    ///
    /// # Errors
    /// If there is no value.
    fn or_failed(self, what: &str) -> Result<T>;
}

impl<T, E: core::fmt::Display> OrFailed<T> for Result<T, E> {
    fn or_failed(self, what: &str) -> Result<T> {
        self.map_err(|error| failed(what, error))
    }
}

/// The first error that a run's programs have found.
pub type Problem = Rc<RefCell<Option<String>>>;

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// At this time; it is an error if all programs end earlier.
    Time(Instant),
    /// At this time, or when all programs have ended.
    TimeOrDone(Instant),
    /// When all programs have ended, within this time.
    Done(Duration),
}

/// Runs a rack and ignores control events; `failure` returns an error that the programs have found.
/// Returns `Done` if all programs have ended, or `Deadline`.
///
/// # Errors
/// If the programs found an error, nothing happens any more, or the user wishes to stop.
pub fn drive(
    run: &mut Run<'_>,
    rack: &mut SimulatedRack,
    until: Until,
    failure: &dyn Fn() -> Option<String>,
) -> Result<RunEnd> {
    loop {
        match drive_to_control(run, rack, until, failure)? {
            RunEnd::Control(_) => {}
            end => return Ok(end),
        }
    }
}

/// As [`drive`], up to the next control event, which is returned.
///
/// # Errors
/// As for [`drive`].
pub fn drive_to_control(
    run: &mut Run<'_>,
    rack: &mut SimulatedRack,
    until: Until,
    failure: &dyn Fn() -> Option<String>,
) -> Result<RunEnd> {
    let start = rack.now();
    let (end, is_limit) = match until {
        Until::Time(end) | Until::TimeOrDone(end) => (end, false),
        Until::Done(most) => (start + most, true),
    };
    loop {
        let now = rack.now();
        let share = match is_limit {
            true => 0.0,
            false => now.since(start).as_secs_f64() / end.since(start).as_secs_f64().max(1e-9),
        };
        run.at(share)?;
        if now >= end {
            return match is_limit {
                true => Err(stuck("it takes too long", now)),
                false => Ok(RunEnd::Deadline),
            };
        }
        let ended = rack.run(end.min(now + SLICE));
        if let Some(failure) = failure() {
            return Err(ExperimentError::Run(failure));
        }
        match (ended, until) {
            (RunEnd::Deadline, _) => {}
            (RunEnd::Control(_), _) => return Ok(ended),
            (RunEnd::Stalled, _) => return Err(stuck("nothing moves any more", rack.now())),
            (RunEnd::Done, Until::Time(_)) => {
                return Err(stuck("all programs have ended early", rack.now()));
            }
            (RunEnd::Done, _) => return Ok(ended),
        }
    }
}

fn stuck(what: &str, now: Instant) -> ExperimentError {
    ExperimentError::Run(format!("{what} at {now:?}"))
}
