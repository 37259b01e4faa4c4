//! The process of a program of the campaign.

use crate::globals::Globals;
use crate::hosted::child::LeashArgs;
use crate::hosted::processes;
use crate::outcome::{CliError, Verdict};
use clap::Args;
use rackweave_chaos::hosted::{Life, ProgramOptions, run_program};
use std::path::PathBuf;

/// The first argument of such a process, for the campaign alone.
pub const COMMAND: &str = "chaos-program";

/// Arguments of a program.
#[derive(Args, Clone, Debug)]
pub struct ProgramArgs {
    /// The folder of the rack
    #[arg(long)]
    pub folder: PathBuf,
    /// The number of the program
    #[arg(long)]
    pub number: u16,
    /// The number of the process
    #[arg(long)]
    pub life: Life,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Runs the process.
///
/// # Errors
/// If the rack's configuration or the folder cannot be used.
pub fn run(args: &ProgramArgs, globals: &Globals) -> Result<Verdict, CliError> {
    run_program(ProgramOptions {
        config: globals.hosted_process()?,
        folder: args.folder.clone(),
        number: args.number,
        life: args.life,
        seed: globals.args.seed.unwrap_or(0),
        end_within: processes::END_LIMIT,
    })?;
    Ok(Verdict::Ended)
}
