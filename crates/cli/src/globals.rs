//! What every command shares: the configuration, the form of the output, the wish to stop.

use crate::args::{GlobalArgs, RackArgs};
use crate::interrupt::Interrupt;
use crate::live::{self, Live};
use crate::outcome::CliError;
use rackweave_rack::RackConfig;

/// What every command gets.
#[derive(Clone, Debug)]
pub struct Globals {
    /// The options that every command has.
    pub args: GlobalArgs,
    /// Whether the user wants the command to stop.
    pub interrupt: Interrupt,
    /// What the command tells of itself.
    pub live: Live,
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
            live: Live::begin(&live::command_line()),
        })
    }

    /// The rack's configuration as the user wants it: flags over the file over defaults. It is
    /// checked.
    ///
    /// # Errors
    /// If the file cannot be read or a value makes no sense.
    pub fn rack_config(&self, rack: &RackArgs) -> Result<RackConfig, CliError> {
        let mut config = self.configured()?;
        if let Some(seed) = self.args.seed {
            config.seed = seed;
        }
        rack.apply(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The configuration of the hosted rack that the user means, if he means one: by `--hosted`, or
    /// by a file with a `[hosted]` section. It is checked.
    ///
    /// Its section is always there. `--seed` does not change it: a hosted rack draws its numbers
    /// from the system, and its configuration must be that of its processes.
    ///
    /// # Errors
    /// If the file cannot be read or a value makes no sense, or a flag is given that cannot change
    /// a rack that runs.
    pub fn hosted(&self, rack: &RackArgs) -> Result<Option<RackConfig>, CliError> {
        let config = self.configured()?;
        if !rack.hosted && config.hosted.is_none() {
            return Ok(None);
        }
        if let Some(flag) = rack.only_for_own_rack() {
            return Err(CliError::usage(format!(
                "{flag} cannot change a hosted rack that runs; put it into the configuration with \
                 which its processes start"
            )));
        }
        as_hosted(config).map(Some)
    }

    /// The configuration of a process of a hosted rack: the file's, or the default hosted rack. It
    /// is checked.
    ///
    /// # Errors
    /// If the file cannot be read or a value makes no sense.
    pub fn hosted_process(&self) -> Result<RackConfig, CliError> {
        as_hosted(self.configured()?)
    }

    fn configured(&self) -> Result<RackConfig, CliError> {
        Ok(match &self.args.config {
            Some(path) => RackConfig::read(path)?,
            None => RackConfig::default(),
        })
    }
}

/// `config` with its `[hosted]` section, checked.
fn as_hosted(mut config: RackConfig) -> Result<RackConfig, CliError> {
    config.hosted = Some(config.hosted());
    config.check()?;
    Ok(config)
}
