//! How much is done: so many, or for so long.

use crate::outcome::CliError;
use crate::perf::args::PerfArgs;
use serde::{Deserialize, Serialize};

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many.
    Count(u64),
    /// For so many nanoseconds.
    Nanos(u64),
}

impl Amount {
    /// What the user asked for, or `default`.
    ///
    /// # Errors
    /// If the user asked for both.
    pub fn of(args: &PerfArgs, default: Self) -> Result<Self, CliError> {
        match (args.iterations, args.duration) {
            (Some(_), Some(_)) => Err(CliError::usage(
                "-n and -D contradict each other: give a count or a duration, not both",
            )),
            (Some(count), None) => Ok(Self::Count(count)),
            (None, Some(seconds)) => Ok(Self::Nanos((seconds * 1e9) as u64)),
            (None, None) => Ok(default),
        }
    }

    /// Which part is done after `count` and `nanos`.
    pub fn fraction(self, count: u64, nanos: u64) -> f64 {
        match self {
            Self::Count(all) => count as f64 / all.max(1) as f64,
            Self::Nanos(all) => nanos as f64 / all.max(1) as f64,
        }
    }
}
