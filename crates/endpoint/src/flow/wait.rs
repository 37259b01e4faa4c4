//! Waiting: the waiting thread drives the rack.

use rackweave_verbs::Progress;

/// Calls `ready` until it returns a value, and drives the rack in between.
pub fn wait_until<T>(progress: &dyn Progress, mut ready: impl FnMut() -> Option<T>) -> T {
    let mut idle_rounds = 0;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        if progress.drive() {
            idle_rounds = 0;
        } else {
            progress.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
    }
}
