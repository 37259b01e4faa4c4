//! What `top` and `stat` observe: a command on this machine, or a hosted rack.

use crate::globals::Globals;
use crate::globals::RackArgs;
pub use crate::live::client::AskError;
use crate::live::client::{ask, choose};
use crate::live::snapshot::{SCHEMA, Snapshot};
use crate::outcome::CliError;
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::HostedRack;

/// What to observe.
pub enum RackSource {
    /// A process of this user.
    Process {
        /// The requested one; otherwise the one that started last.
        wished: Option<u32>,
        /// The one that was found first.
        found: Option<u32>,
    },
    /// A rack of processes.
    Hosted(Box<RackConfig>, Option<Box<HostedRack>>),
}

impl RackSource {
    /// The requested source.
    ///
    /// # Errors
    /// If `--pid` and `--hosted` contradict each other, or the configuration cannot be read.
    pub fn of(pid: Option<u32>, hosted: bool, globals: &Globals) -> Result<Self, CliError> {
        if hosted && pid.is_some() {
            return Err(CliError::usage(
                "--pid and --hosted contradict each other: a hosted rack is found by its \
                 configuration",
            ));
        }
        let process = Self::Process {
            wished: pid,
            found: None,
        };
        if pid.is_some() {
            return Ok(process);
        }
        let rack = RackArgs {
            hosted,
            ..RackArgs::default()
        };
        Ok(match globals.hosted(&rack)? {
            Some(config) => Self::Hosted(Box::new(config), None),
            None => process,
        })
    }

    /// Takes a snapshot. Once a process was found, later calls use the same process.
    ///
    /// # Errors
    /// If the process does not exist, has ended, or does not reply.
    pub fn look(&mut self) -> Result<Snapshot, LookError> {
        match self {
            Self::Process { wished, found } => {
                let pid = match *found {
                    Some(pid) => pid,
                    None => choose(*wished)?,
                };
                let snapshot = ask(pid)?;
                *found = Some(pid);
                Ok(snapshot)
            }
            Self::Hosted(config, rack) => {
                let mut open = match rack.take() {
                    Some(open) => open,
                    None => Box::new(HostedRack::connect(config).map_err(LookError::rack)?),
                };
                let snapshot = hosted(config, &mut open)?;
                *rack = Some(open);
                Ok(snapshot)
            }
        }
    }

    /// Forgets the process that was found, so that the next call may find another.
    pub fn forget(&mut self) {
        if let Self::Process { found, .. } = self {
            *found = None;
        }
    }
}

fn hosted(config: &RackConfig, rack: &mut HostedRack) -> Result<Snapshot, LookError> {
    let status = rack.status().map_err(LookError::rack)?;
    let statistics = rack.statistics().map_err(LookError::rack)?;
    Ok(Snapshot {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: status.pid,
        command: format!("hosted rack at {}", config.hosted().control),
        phase: String::new(),
        phase_seconds: 0.0,
        up_seconds: status.up_seconds,
        racks: 1,
        rack: Some(statistics),
    })
}

/// Why there is no snapshot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookError {
    /// Error of a command.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Error of a hosted rack.
    #[error("{0}")]
    Rack(String),
}

impl LookError {
    /// Whether the observed process has ended, or does not exist.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Ask(AskError::Ended(_) | AskError::Nobody | AskError::NotThis { .. }) => true,
            Self::Ask(AskError::Silent { .. } | AskError::Unreadable { .. }) => false,
            Self::Rack(_) => true,
        }
    }

    fn rack(error: impl std::fmt::Display) -> Self {
        Self::Rack(error.to_string())
    }
}
