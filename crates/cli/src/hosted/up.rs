//! The command `up`: a hosted rack on this machine, with one process for the switch and one per
//! node.

use super::child::Recipe;
use super::event::{Speaker, What};
use super::processes::Processes;
use super::supervisor::{End, Supervisor};
use super::{etcd, keygen};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use clap::Args;
use rackweave_control::keys::{LIFETIME, Outcome};
use rackweave_rack::config::SecurityKind;
use rackweave_rack::{RackConfig, RackError};
use std::path::{Path, PathBuf};

/// Arguments of `up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave up                 the default hosted rack; use it with `rackweave demo --hosted`
  rackweave up rack.toml       use it with `rackweave demo --config rack.toml`
  rackweave up rack.toml --without compute0,compute1
                               for programs of yours that join as these nodes

Keys that are missing are made. A process that ends is started again; one that is refused three
times in a row ends all. Ctrl-C ends all processes.")]
pub struct UpArgs {
    /// The rack's configuration, a TOML file; goes over --config
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Start no process for these nodes: programs join the rack as them
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub without: Vec<String>,
    /// End all processes, with exit status 1, when one of them ends
    #[arg(long)]
    pub no_restart: bool,
    /// Start an etcd server for tests, too, at the first URL of hosted.etcd; needs Debian's
    /// etcd-server
    #[arg(long)]
    pub etcd: bool,
}

/// Minimum width of a name, in columns.
const NAME_WIDTH_MIN: usize = 6;

/// Runs the command.
///
/// # Errors
/// An invalid configuration, keys that cannot be created, a process that is refused repeatedly.
pub fn run(args: &UpArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut globals = globals.clone();
    if let Some(file) = &args.file {
        globals.args.config = Some(file.clone());
    }
    let file = globals.args.config.as_deref();
    let config = globals.hosted_process()?;
    let names = config.node.iter().map(|node| node.name.as_str());
    let width = names.map(str::len).fold(NAME_WIDTH_MIN, usize::max);
    let speaker = Speaker::new(&globals, "up").with_names(width);
    make_keys(&config, &speaker)?;
    for name in &args.without {
        if config.node_named(name).is_none() {
            return Err(RackError::no_node(name, &config).into());
        }
    }
    let mut processes = Processes::new(&config, file, &args.without);
    if args.etcd {
        etcd::address(&config)?;
        processes.set(None, Recipe::new(etcd::NAME, &["etcd"], file));
    }
    let mut supervisor = Supervisor::new(processes, !args.no_restart, usage(file), speaker);
    match supervisor.run(globals.interrupt.flag())? {
        End::Stopped => Ok(Verdict::Ended),
        End::Died => Ok(Verdict::Failed),
    }
}

/// Creates the keys that the rack needs, unless they came from another machine.
fn make_keys(config: &RackConfig, speaker: &Speaker) -> Result<(), CliError> {
    let hosted = config.hosted();
    let directory = hosted.keys();
    let came =
        directory.join("authority.crt").exists() && !directory.join("authority.key").exists();
    if hosted.security == SecurityKind::Plain || came {
        return Ok(());
    }
    let made = keygen::make(config, &directory, LIFETIME)?;
    let is_new = |(name, outcome)| (outcome != Outcome::Kept).then_some(name);
    let names: Vec<String> = made.names.into_iter().filter_map(is_new).collect();
    if !names.is_empty() {
        speaker.say(What::KeysMade {
            directory: directory.display().to_string(),
            names,
        });
    }
    Ok(())
}

/// How to use the rack.
fn usage(file: Option<&Path>) -> String {
    let which = match file {
        Some(path) => format!("--config {}", path.display()),
        None => "--hosted".into(),
    };
    format!("use it elsewhere with `rackweave demo {which}` (or perf, info); Ctrl-C ends it")
}
