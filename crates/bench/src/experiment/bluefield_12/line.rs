//! A cache line that moves between cores.

use crate::harness::prelude::*;

/// The schedule of a line's owners.
///
/// Threads report their accesses in batches, so not in the order of time; an access gets the first
/// interval in which the line is free for long enough.
#[derive(Debug, Default)]
pub struct Line {
    /// Start and end of each access, and its thread; in order, without overlaps.
    taken: Vec<(Instant, Instant, u16)>,
}

impl Line {
    /// No access before `now` will be requested any more.
    pub fn pass(&mut self, now: Instant) {
        // The last access before then is kept: its thread holds the line.
        let past = self.taken.partition_point(|&(_, until, _)| until <= now);
        self.taken.drain(..past.saturating_sub(1));
    }

    /// Performs an operation of `thread` on the line, not before `at`; returns when it is done. If
    /// another thread had the line last, the line is transferred first.
    pub fn take(
        &mut self,
        at: Instant,
        thread: u16,
        operation: Duration,
        transfer: Duration,
    ) -> Instant {
        let mut place = self.taken.partition_point(|&(_, until, _)| until <= at);
        let mut from = at;
        loop {
            let before = place.checked_sub(1).map(|before| self.taken[before].2);
            let hold = match before {
                Some(other) if other != thread => operation + transfer,
                _ => operation,
            };
            match self.taken.get(place) {
                Some(&(next, until, _)) if next < from + hold => {
                    from = until.max(from);
                    place += 1;
                }
                _ => {
                    self.taken.insert(place, (from, from + hold, thread));
                    return from + hold;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
