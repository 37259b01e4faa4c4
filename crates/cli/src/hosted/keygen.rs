//! The command `keygen`: the keys of a hosted rack.

use super::args::KeygenArgs;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use rackweave_control::keys::{self, KeygenReport, Outcome};
use rackweave_control::{CONTROLLER_NAME, KeyError};
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::OPERATOR_NAME;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The created keys.
#[derive(Serialize)]
struct Report {
    directory: PathBuf,
    authority: &'static str,
    keys: Vec<Key>,
}

/// The key of one owner.
#[derive(Serialize)]
struct Key {
    name: String,
    outcome: &'static str,
}

/// Runs the command.
///
/// # Errors
/// If the configuration is invalid, or a file cannot be written or exists and is invalid.
pub fn run(args: &KeygenArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.hosted_process()?;
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        None => config.hosted().keys(),
    };
    if let Some(name) = &args.revoke {
        keys::revoke(&directory, name)?;
    }
    let lifetime = Duration::from_secs(args.days.into()) * 24 * 3600;
    let made = make(&config, &directory, lifetime)?;
    let word = |outcome: Outcome| match outcome {
        Outcome::Made => "made",
        Outcome::Kept => "kept",
        Outcome::Renewed => "renewed",
    };
    let keys = made.names.into_iter().map(|(name, outcome)| Key {
        name,
        outcome: word(outcome),
    });
    let report = Report {
        directory,
        authority: word(made.authority),
        keys: keys.collect(),
    };
    output::print(globals, "keygen", &report)?;
    Ok(Verdict::Passed)
}

/// Creates the missing keys of a rack: of the controller, of commands, and of every node.
///
/// # Errors
/// As for [`keys::keygen`].
pub fn make(
    config: &RackConfig,
    directory: &Path,
    lifetime: Duration,
) -> Result<KeygenReport, KeyError> {
    let mut names = vec![CONTROLLER_NAME, OPERATOR_NAME];
    names.extend(config.node.iter().map(|node| node.name.as_str()));
    keys::keygen_for(directory, &names, lifetime)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "keys in {}:", self.directory.display())?;
        writeln!(
            f,
            "  {:<7} authority (authority.crt, authority.key)",
            self.authority
        )?;
        for Key { name, outcome } in &self.keys {
            writeln!(f, "  {outcome:<7} {name}")?;
        }
        writeln!(
            f,
            "Copy NAME.key, NAME.crt and authority.crt to where NAME runs, and nothing else: \
             {CONTROLLER_NAME} is the switch's, {OPERATOR_NAME} that of commands."
        )?;
        write!(
            f,
            "Keep authority.key here: who has it can make keys for this rack."
        )
    }
}
