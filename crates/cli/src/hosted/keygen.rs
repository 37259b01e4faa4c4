//! The command `keygen`: the keys of a hosted rack.

use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use clap::Args;
use rackweave_control::keys::{self, KeygenReport, Outcome};
use rackweave_control::{CONTROLLER_NAME, KeyError};
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::OPERATOR_NAME;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `keygen`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave keygen --config rack.toml
  rackweave keygen --config rack.toml --directory keys

Makes what is missing and keeps what is there. To where NAME runs go NAME.key, NAME.crt and
authority.crt: those of `controller` to the switch, those of `operator` to where commands are given,
those of each node to the node. authority.key stays here: who has it can make keys for this rack.")]
pub struct KeygenArgs {
    /// Where the keys lie; without it, hosted.keys, or `keys` in hosted.directory
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How long new certificates last; those that end within a third of it are renewed
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub days: u32,
    /// Take this name's key back, and make a new one: the old one is put on the list `revoked`,
    /// which the switch reads again on SIGHUP
    #[arg(long, value_name = "NAME")]
    pub revoke: Option<String>,
}

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
    output::print_as(globals, "keygen", &report, text)?;
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

fn text(report: &Report) -> String {
    let key = |Key { name, outcome }: &Key| format!("  {outcome:<7} {name}\n");
    let keys: String = report.keys.iter().map(key).collect();
    format!(
        "keys in {}:\n  {:<7} authority (authority.crt, authority.key)\n{keys}\
         Copy NAME.key, NAME.crt and authority.crt to where NAME runs, and nothing else: \
         {CONTROLLER_NAME} is the switch's, {OPERATOR_NAME} that of commands.\n\
         Keep authority.key here: who has it can make keys for this rack.",
        report.directory.display(),
        report.authority,
    )
}
