//! The amount of a measurement: a number or a duration.

use crate::outcome::CliError;

/// The amount of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// This many.
    Count(u64),
    /// This many nanoseconds.
    Nanos(u64),
}

impl Amount {
    /// The requested number (`-n`) or seconds (`-D`), or `default`.
    ///
    /// # Errors
    /// If the user requested both.
    pub fn of(
        iterations: Option<u64>,
        duration: Option<f64>,
        default: Self,
    ) -> Result<Self, CliError> {
        match (iterations, duration) {
            (Some(_), Some(_)) => Err(CliError::usage(
                "-n and -D contradict each other: give a count or a duration, not both",
            )),
            (Some(count), None) => Ok(Self::Count(count)),
            (None, Some(seconds)) => Ok(Self::Nanos((seconds * 1e9) as u64)),
            (None, None) => Ok(default),
        }
    }

    /// The completed fraction after `count` and `nanos`.
    pub fn fraction(self, count: u64, nanos: u64) -> f64 {
        match self {
            Self::Count(all) => count as f64 / all.max(1) as f64,
            Self::Nanos(all) => nanos as f64 / all.max(1) as f64,
        }
    }
}
