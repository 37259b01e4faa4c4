//! When an open-loop worker starts its operations: a Poisson process.
//!
//! Source: the latency experiment of the seamless paper (time between two operations exponential,
//! late operations sent as soon as possible, waiting counted). A worker that measures from the
//! *intended* start counts the waiting of operations that queue behind a slow one; one that
//! measures from the actual start would leave it out (coordinated omission).

use rackweave_base::{Duration, Instant, Rng};

/// Intended starts with exponential gaps. Several schedules in parallel form one at the sum of
/// their rates.
#[derive(Clone, Debug)]
pub struct PoissonSchedule {
    rng: Rng,
    gap_ns_mean: f64,
    due: Instant,
    /// The fraction of the last gap beyond whole nanoseconds; without it high rates would drift.
    rest_ns: f64,
}

/// An invalid rate.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error(
    "a rate of {0} operations per second; use {min} to {max}",
    min = PoissonSchedule::RATE_MIN, max = PoissonSchedule::RATE_MAX
)]
pub struct RateError(pub f64);

impl PoissonSchedule {
    /// The lowest rate, in operations per second.
    pub const RATE_MIN: f64 = 1e-3;
    /// The highest rate: an operation each nanosecond.
    pub const RATE_MAX: f64 = 1e9;

    /// Operations at `per_second`, the first one a gap after `start`. Workers of one run have the
    /// run's `seed` and a number each.
    ///
    /// # Errors
    /// If the rate is out of range, or NaN.
    pub fn new(seed: u64, worker: u32, per_second: f64, start: Instant) -> Result<Self, RateError> {
        if !(Self::RATE_MIN..=Self::RATE_MAX).contains(&per_second) {
            return Err(RateError(per_second));
        }
        let mut schedule = Self {
            rng: Rng::new(seed).fork(&format!("ycsb schedule {worker}")),
            gap_ns_mean: 1e9 / per_second,
            due: start,
            rest_ns: 0.0,
        };
        schedule.advance();
        Ok(schedule)
    }

    /// When the next operation is to start.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// The intended start of the next operation, if that is not after `now`; then advances to the
    /// one after it. A worker that is late calls it repeatedly until none is left.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due;
        (due <= now).then(|| {
            self.advance();
            due
        })
    }

    fn advance(&mut self) {
        // In (0, 1], whose logarithm is finite.
        let fraction = 1.0 - self.rng.fraction();
        let gap_ns = self.rest_ns - fraction.ln() * self.gap_ns_mean;
        self.rest_ns = gap_ns.fract();
        self.due += Duration::from_nanos(gap_ns as u64);
    }
}
