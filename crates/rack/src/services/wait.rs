//! Waiting with a time limit; the waiting thread drives the rack.

use core::time::Duration;
use rackweave_verbs::NodeAccess;

/// The time limit that means no limit.
pub const FOREVER: Duration = Duration::MAX;

/// Default time limit of calls of services: ten seconds, twice as long as the machines below wait
/// for a peer that does not answer. So whatever ends by itself reports its own error; what remains
/// are latches that are held elsewhere.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Rounds between two reads of the clock while things move.
const LOOK_EVERY: u32 = 64;

/// Calls `ready` until it returns a result, driving the rack from a node in between; `None` if
/// `limit` expires first. `ready` is called at least twice. [`FOREVER`] is no limit.
pub fn wait_within<T>(
    node: &dyn NodeAccess,
    limit: Duration,
    mut ready: impl FnMut() -> Option<T>,
) -> Option<T> {
    let mut deadline = None;
    let (mut idle_rounds, mut rounds) = (0u32, 0u32);
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        // The clock is not read if a result is ready at once.
        if rounds.is_multiple_of(LOOK_EVERY) || idle_rounds > 0 {
            let now = node.now();
            // An overflowing deadline saturates at the end of time, which no clock reaches.
            if now >= *deadline.get_or_insert(now + limit.into()) && rounds > 0 {
                return None;
            }
        }
        rounds = rounds.wrapping_add(1);
        if node.drive() {
            idle_rounds = 0;
        } else {
            node.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
    }
}
