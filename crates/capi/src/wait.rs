//! Waiting: a waiting call drives the rack.

use crate::error::Fault;
use crate::status::Status;
use rackweave_verbs::Progress;
use std::time::{Duration, Instant};

/// As a time limit: none. The call waits for as long as it takes.
pub const RACKWEAVE_FOREVER: u64 = u64::MAX;

/// Rounds between two reads of the clock while there is progress.
const LOOK_EVERY: u32 = 64;

/// Calls `ready` until it returns a value, driving the rack in between, or until the time limit. It
/// is called at least twice.
pub(crate) fn wait<T>(
    progress: &dyn Progress,
    timeout_ns: u64,
    mut ready: impl FnMut() -> Result<Option<T>, Fault>,
) -> Result<T, Fault> {
    let mut deadline = None;
    let (mut idle_rounds, mut rounds) = (0u32, 0u32);
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if rounds.is_multiple_of(LOOK_EVERY) || idle_rounds > 0 {
            // The clock is not read if `ready` succeeds at once.
            let now = Instant::now();
            let limit = Duration::from_nanos(timeout_ns);
            match deadline {
                None if timeout_ns == RACKWEAVE_FOREVER => {}
                None => deadline = now.checked_add(limit),
                Some(deadline) if now >= deadline => return Err(Fault::quiet(Status::TimedOut)),
                Some(_) => {}
            }
        }
        rounds = rounds.wrapping_add(1);
        if progress.drive() {
            idle_rounds = 0;
        } else {
            progress.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
    }
}
