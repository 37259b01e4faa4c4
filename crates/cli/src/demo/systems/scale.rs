//! How much of everything is done, by the scale factor.

use core::time::Duration;

/// The least share of a system's time: enough for some operations on a slow machine.
const SHARE_MIN: f64 = 0.02;

/// How much of everything is done.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    factor: f64,
}

impl Scale {
    /// For a scale factor of TPC-H.
    pub fn new(factor: f64) -> Self {
        Self { factor }
    }

    /// How long something is to run that runs for `seconds` at scale factor 1. More data is not run
    /// over for longer.
    pub fn span(self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.factor.clamp(SHARE_MIN, 1.0))
    }

    /// How many records there are to be where there are so many at scale factor 1.
    pub fn records(self, at_one: u64) -> u64 {
        ((at_one as f64 * self.factor) as u64).clamp(at_one / 100, at_one * 10)
    }
}
