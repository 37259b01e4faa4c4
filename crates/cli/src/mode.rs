//! The rack that a command runs on.

use crate::globals::{Globals, RackArgs};
use crate::outcome::CliError;
use rackweave_rack::RackConfig;

/// A rack in this process, in real time.
pub const EMBEDDED: &str = "embedded";
/// A rack in this process, in virtual time.
pub const SIMULATED: &str = "simulated";
/// A running rack of processes.
pub const HOSTED: &str = "hosted";
/// No rack is needed.
pub const NO_RACK: &str = "none";

/// The rack that a command runs on.
pub enum Mode {
    /// Its own rack, in real time.
    Embedded,
    /// Its own rack, in virtual time.
    Simulated,
    /// A running hosted rack, with this configuration.
    Hosted(Box<RackConfig>),
}

impl Mode {
    /// The requested mode.
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
    /// If it cannot be read or a value is invalid.
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
