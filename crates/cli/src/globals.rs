//! What every command shares: the configuration, the form of the output, the wish to stop.

use crate::args::{GlobalArgs, RackArgs};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use rackweave_rack::RackConfig;

/// What every command gets.
#[derive(Clone, Debug)]
pub struct Globals {
    /// The options that every command has.
    pub args: GlobalArgs,
    /// Whether the user wants the command to stop.
    pub interrupt: Interrupt,
}

impl Globals {
    /// Listens for Ctrl-C from now on.
    ///
    /// # Errors
    /// If the system does not allow that.
    pub fn new(args: GlobalArgs) -> Result<Self, CliError> {
        Ok(Self {
            args,
            interrupt: Interrupt::install()?,
        })
    }

    /// The rack's configuration as the user wants it: flags over the file over defaults. It is
    /// checked.
    ///
    /// # Errors
    /// If the file cannot be read or a value makes no sense.
    pub fn rack_config(&self, rack: &RackArgs) -> Result<RackConfig, CliError> {
        let mut config = match &self.args.config {
            Some(path) => RackConfig::read(path)?,
            None => RackConfig::default(),
        };
        if let Some(seed) = self.args.seed {
            config.seed = seed;
        }
        rack.apply(&mut config);
        config.check()?;
        Ok(config)
    }
}
