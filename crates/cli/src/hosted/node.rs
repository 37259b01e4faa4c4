//! The command `node`: one node of a hosted rack, until requested to end.

use super::child::LeashArgs;
use super::event::{Speaker, What};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use clap::Args;
use rackweave_rack::hosted::{NoJobs, NodeOptions, NodeProcess};
use std::net::SocketAddr;
use std::sync::Arc;

/// Arguments of `node`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave node storage0 --config rack.toml
  rackweave node storage0 --config rack.toml --controller 10.0.0.1:7471")]
pub struct NodeArgs {
    /// Its name in the configuration
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the controller is; without it, hosted.control. A second one is where the standby's is
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub controller: Vec<SocketAddr>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Runs the command.
///
/// # Errors
/// An unknown name, an invalid configuration, a missing key, or the controller permanently refuses
/// the node.
pub fn run(args: &NodeArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let process = NodeProcess::new(NodeOptions {
        config: globals.hosted_process()?,
        name: args.name.clone(),
        controllers: args.controller.clone(),
        jobs: Arc::new(NoJobs),
        serves_stores: true,
        waits_for_name: true,
    })?;
    args.leash.hold(&globals.interrupt);
    let speaker = Speaker::new(globals, &args.name);
    process.run_serving(globals.interrupt.flag(), &|event| speaker.say(event))?;
    speaker.say(What::Ended);
    Ok(Verdict::Ended)
}
