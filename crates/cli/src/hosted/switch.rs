//! The command `switch`: the switch and the controller of a hosted rack, until told to end.

use super::event::{Speaker, What};
use super::leash;
use crate::args::SwitchArgs;
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use rackweave_rack::hosted::{SwitchOptions, SwitchProcess};

/// Runs the command.
///
/// # Errors
/// A bad configuration, missing keys, an address in use, another switch in the same folder.
pub fn run(args: &SwitchArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.hosted_process()?;
    let process = SwitchProcess::new(SwitchOptions {
        config: config.clone(),
        listen: args.listen,
    })?;
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, &config, process.memory())?),
        None => None,
    };
    process.set_tap(recording.as_ref().map(Recording::tap));
    if args.leash.end_with_stdin {
        leash::hold(&globals.interrupt);
    }
    let speaker = Speaker::new(globals, "switch");
    let address = process.address().map_err(CliError::run)?;
    speaker.say(What::Listening {
        address: address.to_string(),
    });
    process.run(globals.interrupt.flag(), &|event| speaker.say(event));
    process.set_tap(None);
    if let Some(recording) = recording {
        recording.finish()?;
    }
    speaker.say(What::Ended);
    Ok(Verdict::Ended)
}
