//! Which rack a command runs on.

use crate::globals::{Globals, RackArgs};
use crate::outcome::CliError;
use rackweave_rack::RackConfig;

/// A rack in this process, in real time.
pub const EMBEDDED: &str = "embedded";
/// A rack in this process, in virtual time.
pub const SIMULATED: &str = "simulated";
/// A rack of processes that run.
pub const HOSTED: &str = "hosted";
/// No rack is needed.
pub const NO_RACK: &str = "none";

/// Which rack a command runs on.
pub enum Mode {
    /// One of its own, in real time.
    Embedded,
    /// One of its own, in virtual time.
    Simulated,
    /// One that runs, with this configuration.
    Hosted(Box<RackConfig>),
}

impl Mode {
    /// What the user means.
    ///
    /// # Errors
    /// If flags contradict each other, or the configuration cannot be read.
    pub fn of(simulated: bool, rack: &RackArgs, globals: &Globals) -> Result<Self, CliError> {
        match (simulated, rack.hosted) {
            (true, true) => Err(CliError::usage(
                "--simulated and --hosted contradict each other: choose one",
            )),
            (true, false) => Ok(Self::Simulated),
            (false, _) => Ok(match globals.hosted(rack)? {
                Some(config) => Self::Hosted(Box::new(config)),
                None => Self::Embedded,
            }),
        }
    }

    /// The rack's configuration.
    ///
    /// # Errors
    /// If it cannot be read or a value makes no sense.
    pub fn config(&self, rack: &RackArgs, globals: &Globals) -> Result<RackConfig, CliError> {
        match self {
            Self::Hosted(config) => Ok((**config).clone()),
            Self::Embedded | Self::Simulated => globals.rack_config(rack),
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded => EMBEDDED,
            Self::Simulated => SIMULATED,
            Self::Hosted(_) => HOSTED,
        }
    }
}
