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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Its own rack, in real time.
    Embedded,
    /// Its own rack, in virtual time.
    Simulated,
    /// A running hosted rack.
    Hosted,
}

impl Mode {
    /// The requested mode, and the rack's configuration.
    ///
    /// # Errors
    /// If flags contradict each other, the configuration cannot be read, or a value is invalid.
    pub fn of(
        simulated: bool,
        rack: &RackArgs,
        globals: &Globals,
    ) -> Result<(Self, RackConfig), CliError> {
        match (simulated, rack.hosted) {
            (true, true) => Err(CliError::usage(
                "--simulated and --hosted contradict each other: choose one",
            )),
            (true, false) => Ok((Self::Simulated, globals.rack_config(rack)?)),
            (false, _) => Ok(match globals.hosted(rack)? {
                Some(config) => (Self::Hosted, config),
                None => (Self::Embedded, globals.rack_config(rack)?),
            }),
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => EMBEDDED,
            Self::Simulated => SIMULATED,
            Self::Hosted => HOSTED,
        }
    }
}
