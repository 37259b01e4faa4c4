//! Waiting with a limit: whoever waits drives the rack.

use core::time::Duration;
use rackweave_verbs::NodeAccess;

/// As a time limit: none.
pub const FOREVER: Duration = Duration::MAX;

/// How long calls of services wait, unless told otherwise: ten seconds, which is twice as long as
/// the machines below wait for one who does not answer. So what comes to an end by itself has its
/// own error, and what is left are latches that somebody holds.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Rounds between two looks at the clock while things move.
const LOOK_EVERY: u32 = 64;

/// Calls `ready` until it gives something, driving the rack from a node in between; nothing if
/// `limit` is over before. `ready` is called twice at least. [`FOREVER`] is no limit.
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
        // The clock is not asked where something is ready at once.
        if rounds.is_multiple_of(LOOK_EVERY) || idle_rounds > 0 {
            let now = node.now();
            // The last moment that there is comes after all clocks have stopped.
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
