//! The amount of work of each system, by the scale factor.

use core::time::Duration;

/// Minimum fraction of a system's time: enough for some operations on a slow machine.
const SHARE_MIN: f64 = 0.02;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    factor: f64,
}

impl Scale {
    /// For a scale factor of TPC-H.
    pub fn new(factor: f64) -> Self {
        Self { factor }
    }

    /// The running time of something that takes `seconds` at scale factor 1. More data does not
    /// extend the time.
    pub fn span(self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.factor.clamp(SHARE_MIN, 1.0))
    }

    /// The number of records, given the number at scale factor 1.
    pub fn records(self, at_one: u64) -> u64 {
        ((at_one as f64 * self.factor) as u64).clamp(at_one / 100, at_one * 10)
    }
}
