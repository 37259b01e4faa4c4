//! Shared by all commands: options, the configuration, the output format, the interrupt flag.

use crate::live::{self, Live};
use crate::outcome::CliError;
use clap::{Args, ValueEnum};
use rackweave_rack::RackConfig;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct GlobalArgs {
    /// The rack's configuration, a TOML file; without it, two storage and two compute nodes
    #[arg(long, global = true, value_name = "FILE", env = "RACKWEAVE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Everything random comes from it
    #[arg(long, global = true, value_name = "N", env = "RACKWEAVE_SEED")]
    pub seed: Option<u64>,
    /// The form of the result on standard output
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "RACKWEAVE_FORMAT"
    )]
    pub format: Format,
    /// No progress bars
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// The form of the result.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One object, described in docs/JSON.md
    Json,
    /// Metrics of the same object, for Prometheus and others
    #[value(name = "openmetrics")]
    OpenMetrics,
}

/// Settings of the rack that have a flag. They go over the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct RackArgs {
    /// Use the hosted rack that runs: without --config the one that `rackweave up` starts by
    /// default. A configuration with a `[hosted]` section says this by itself
    #[arg(long)]
    pub hosted: bool,
    /// Join the hosted rack as these nodes, of which no process runs, instead of as guests
    #[arg(long = "as", value_name = "NODE", value_delimiter = ',')]
    pub join_as: Vec<String>,
    /// Threads that drive an embedded rack beside those who wait
    #[arg(long, value_name = "N")]
    pub drivers: Option<u32>,
    /// Lose packets with this probability
    #[arg(long, value_name = "P")]
    pub loss: Option<f64>,
    /// Deliver packets twice with this probability
    #[arg(long, value_name = "P")]
    pub duplicate: Option<f64>,
    /// Have packets overtaken by later ones with this probability
    #[arg(long, value_name = "P")]
    pub reorder: Option<f64>,
    /// Flip a bit of packets with this probability
    #[arg(long, value_name = "P")]
    pub corrupt: Option<f64>,
}

/// Flags that only apply to a rack of this process.
const OF_OWN_RACK: [&str; 5] = [
    "--drivers",
    "--loss",
    "--duplicate",
    "--reorder",
    "--corrupt",
];

impl RackArgs {
    /// Applies the given flags to `config`.
    pub fn apply(&self, config: &mut RackConfig) {
        let faults = &mut config.faults;
        for (given, setting) in [
            (self.loss, &mut faults.loss),
            (self.duplicate, &mut faults.duplicate),
            (self.reorder, &mut faults.reorder),
            (self.corrupt, &mut faults.corrupt),
        ] {
            *setting = given.unwrap_or(*setting);
        }
        config.driver_threads = self.drivers.unwrap_or(config.driver_threads);
    }

    /// Refuses another number of names than that of the nodes that are needed.
    ///
    /// # Errors
    /// If there are names, and not so many.
    pub fn check_named(&self, count: usize) -> Result<(), CliError> {
        match self.join_as.len() {
            0 => Ok(()),
            given if given == count => Ok(()),
            given => Err(CliError::usage(format!(
                "--as names {given} nodes, and {count} are needed"
            ))),
        }
    }
}

/// Parses seconds: more than zero and at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("seconds above 0 and up to 86400 are needed".into()),
    }
}

/// What every command receives.
#[derive(Clone)]
pub struct Globals {
    pub args: GlobalArgs,
    /// The flags of the command that are on the command line.
    pub given: Vec<String>,
    /// Whether the user wants the command to stop.
    pub interrupt: Interrupt,
    /// What `top` and `stat` see of the command.
    pub live: Live,
}

impl Globals {
    /// Listens for Ctrl-C from now on.
    ///
    /// # Errors
    /// If the system does not allow that.
    pub fn new(args: GlobalArgs, given: Vec<String>) -> Result<Self, CliError> {
        Ok(Self {
            args,
            given,
            interrupt: Interrupt::install()?,
            live: Live::begin(&live::command_line()),
        })
    }

    /// The first of these flags that is on the command line.
    pub fn first_given<'a>(&self, flags: &[&'a str]) -> Option<&'a str> {
        let mut flags = flags.iter().copied();
        flags.find(|flag| self.given.iter().any(|given| given == flag))
    }

    /// The rack's effective configuration: flags override the file, which overrides defaults. It is
    /// checked.
    ///
    /// # Errors
    /// If the file cannot be read or a value is invalid.
    pub fn rack_config(&self, rack: &RackArgs) -> Result<RackConfig, CliError> {
        let mut config = self.configured()?;
        if let Some(seed) = self.args.seed {
            config.seed = seed;
        }
        rack.apply(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The configuration of the requested hosted rack, if one is requested: by `--hosted`, or by a
    /// file with a `[hosted]` section. It is checked.
    ///
    /// The section always exists. `--seed` does not change it: a hosted rack takes its random
    /// numbers from the system, and its configuration must be that of its processes.
    ///
    /// # Errors
    /// If the file cannot be read or a value is invalid, or a flag is given that cannot change a
    /// running rack.
    pub fn hosted(&self, rack: &RackArgs) -> Result<Option<RackConfig>, CliError> {
        let config = self.configured()?;
        if !rack.hosted && config.hosted.is_none() {
            return Ok(None);
        }
        if let Some(flag) = self.first_given(&OF_OWN_RACK) {
            return Err(CliError::usage(format!(
                "{flag} cannot change a hosted rack that runs; put it into the configuration with \
                 which its processes start"
            )));
        }
        self.hosted_process().map(Some)
    }

    /// The configuration of a process of a hosted rack: the file's, or the default hosted rack. It
    /// is checked.
    ///
    /// # Errors
    /// If the file cannot be read or a value is invalid.
    pub fn hosted_process(&self) -> Result<RackConfig, CliError> {
        match self.args.config {
            // A file with that section may have no places on purpose.
            Some(_) => match self.configured()? {
                config if config.hosted.is_some() => Ok(config),
                config => Ok(config.into_hosted()?),
            },
            None => Ok(RackConfig::hosted_default()),
        }
    }

    fn configured(&self) -> Result<RackConfig, CliError> {
        Ok(match &self.args.config {
            Some(path) => RackConfig::read(path)?,
            None => RackConfig::default(),
        })
    }
}

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

/// Whether the user wants the command to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    /// SIGHUP requests reading files again instead of stopping.
    reads_again: AtomicBool,
    read_again: AtomicBool,
}

impl Interrupt {
    /// Listens for signals from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn install() -> Result<Self, CliError> {
        let failed = |error| CliError::run(format!("cannot listen for Ctrl-C: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let interrupt = Self::default();
        let flags = interrupt.0.clone();
        let listen = move || {
            for signal in signals.forever() {
                if signal == SIGHUP && flags.reads_again.load(Ordering::Relaxed) {
                    flags.read_again.store(true, Ordering::Relaxed);
                } else if flags.stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(listen).map_err(failed)?;
        Ok(interrupt)
    }

    /// From now on SIGHUP requests that files are read again.
    pub fn read_again_at_hangup(&self) {
        self.0.reads_again.store(true, Ordering::Relaxed);
    }

    /// Whether files should be read again. Resets the request.
    pub fn take_read_again(&self) -> bool {
        self.0.read_again.swap(false, Ordering::Relaxed)
    }

    /// Whether the user wants the command to stop.
    pub fn is_set(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that is independent of commands.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.stop
    }

    /// Asks the command to stop, as the user would.
    pub fn set(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
