//! Running a rack until a tally's window is over.

use super::tally::Shared;
use super::{ExperimentError, Run};
use rackweave_base::Duration;
use rackweave_rack::{RunEnd, SimulatedRack};

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_micros(50);

/// Something that should not have gone wrong.
pub fn failed(what: &str, error: impl core::fmt::Display) -> ExperimentError {
    ExperimentError::Run(format!("{what}: {error}"))
}

/// Runs until the tally's window is over; `share` is what is done of the experiment.
///
/// # Errors
/// If something went wrong, nothing moves, or the user wishes to stop.
pub fn drive(
    run: &mut Run<'_>,
    share: f64,
    rack: &mut SimulatedRack,
    tally: &Shared,
) -> Result<(), ExperimentError> {
    let until = tally.borrow().until();
    loop {
        if let Some(failure) = tally.borrow().failure() {
            return Err(ExperimentError::Run(failure.into()));
        }
        if !(run.progress)(share) {
            return Err(ExperimentError::Interrupted);
        }
        let now = rack.now();
        if now >= until {
            return Ok(());
        }
        match rack.run(until.min(now + SLICE)) {
            RunEnd::Deadline | RunEnd::Control(_) => {}
            RunEnd::Done | RunEnd::Stalled if tally.borrow().failure().is_none() => {
                return Err(ExperimentError::Run("nothing moves any more".into()));
            }
            RunEnd::Done | RunEnd::Stalled => {}
        }
    }
}
