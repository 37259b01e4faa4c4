//! What the programs of a run have seen, counted within a window of time.

use rackweave_base::{Duration, Instant};
use std::cell::RefCell;
use std::rc::Rc;

/// Shared by all programs of a run.
pub type Shared = Rc<RefCell<Tally>>;

/// Operations that ended within a window, and how long they took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    window: (Instant, Instant),
    /// Operations that ended within it.
    pub ended: u64,
    /// Latencies of those that began and ended within it, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// How long a part of the run is that is counted by itself, and what ended in each, the warm-up
    /// included.
    parts: Option<(Instant, Duration, Vec<u64>)>,
    failure: Option<String>,
}

impl Tally {
    /// Counts from `warm_up` after `start` on, for `counted`.
    pub fn new(start: Instant, warm_up: Duration, counted: Duration) -> Shared {
        let from = start + warm_up;
        Rc::new(RefCell::new(Self {
            window: (from, from + counted),
            ended: 0,
            latencies_ns: Vec::new(),
            parts: None,
            failure: None,
        }))
    }

    /// Counts every `length` from `start` on by itself, too.
    pub fn in_parts(&mut self, start: Instant, length: Duration) {
        self.parts = Some((start, length, Vec::new()));
    }

    /// Operations per second by the middle of each part, in seconds from the start. The last part
    /// is left out, which may not be whole.
    pub fn course(&self) -> Vec<(f64, f64)> {
        let Some((_, length, parts)) = &self.parts else {
            return Vec::new();
        };
        let length = length.as_secs_f64();
        let whole = parts.len().saturating_sub(1);
        let rate =
            |(at, &ended): (usize, &u64)| ((at as f64 + 0.5) * length, ended as f64 / length);
        parts[..whole].iter().enumerate().map(rate).collect()
    }

    /// When it ends.
    pub fn until(&self) -> Instant {
        self.window.1
    }

    /// An operation that began at `since` has ended.
    pub fn end(&mut self, since: Instant, now: Instant) {
        let (from, until) = self.window;
        if let Some((start, length, parts)) = &mut self.parts {
            let at = (now.since(*start).as_nanos() / length.as_nanos().max(1)) as usize;
            if parts.len() <= at {
                parts.resize(at + 1, 0);
            }
            parts[at] += 1;
        }
        if from <= now && now < until {
            self.ended += 1;
            if from <= since {
                self.latencies_ns.push(now.since(since).as_nanos());
            }
        }
    }

    /// Something went wrong: the run counts for nothing.
    pub fn fail(&mut self, failure: impl Into<String>) {
        self.failure.get_or_insert(failure.into());
    }

    /// What went wrong first.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        let (from, until) = self.window;
        self.ended as f64 / until.since(from).as_secs_f64()
    }

    /// The mean latency in microseconds; no number if nothing ended.
    pub fn mean_us(&self) -> f64 {
        let all: u64 = self.latencies_ns.iter().sum();
        all as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    /// The latency that this part of all does not exceed, in microseconds; none if nothing ended.
    pub fn quantile_us(&self, part: f64) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let at = (part * last as f64).round() as usize;
        sorted.get(at).map_or(f64::NAN, |&nanos| nanos as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_within_the_window_counts() {
        let at = Instant::from_nanos;
        let (warm_up, counted) = (Duration::from_nanos(100), Duration::from_nanos(1000));
        let tally = Tally::new(at(50), warm_up, counted);
        let mut tally = tally.borrow_mut();
        for (since, now) in [(0, 149), (100, 150), (150, 350), (200, 1149), (1000, 1150)] {
            tally.end(at(since), at(now));
        }
        assert_eq!(tally.ended, 3);
        assert_eq!(tally.per_second(), 3e6);
        assert_eq!(tally.latencies_ns, [200, 949]);
        assert_eq!(tally.mean_us(), 0.5745);
        assert_eq!(tally.quantile_us(0.0), 0.2);
        assert_eq!(tally.quantile_us(1.0), 0.949);
        tally.in_parts(at(0), Duration::from_nanos(100));
        for now in [10, 90, 250, 399, 420] {
            tally.end(at(0), at(now));
        }
        let rates: Vec<f64> = tally.course().iter().map(|point| point.1).collect();
        assert_eq!(rates, [2e7, 0.0, 1e7, 1e7]);
        tally.fail("first");
        tally.fail("second");
        assert_eq!(tally.failure(), Some("first"));
    }
}
