//! The command `node`: one node of a hosted rack, until requested to end.

use super::args::NodeArgs;
use super::event::{Speaker, What};
use super::leash;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use rackweave_rack::hosted::{NoJobs, NodeOptions, NodeProcess};
use std::sync::Arc;

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
    if args.leash.end_with_stdin {
        leash::hold(&globals.interrupt);
    }
    let speaker = Speaker::new(globals, &args.name);
    process.run_serving(globals.interrupt.flag(), &|event| speaker.say(event))?;
    speaker.say(What::Ended);
    Ok(Verdict::Ended)
}
