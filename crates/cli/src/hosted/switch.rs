//! The command `switch`: the switch and the controller of a hosted rack, until requested to end.

use super::child::LeashArgs;
use super::event::{Speaker, What};
use crate::capture::Recording;
use crate::globals::{Globals, Interrupt};
use crate::outcome::{CliError, Verdict};
use clap::Args;
use rackweave_rack::hosted::{SwitchEvent, SwitchOptions, SwitchProcess};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Arguments of `switch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave switch --config rack.toml
  rackweave switch --config rack.toml --listen 0.0.0.0:7471 --capture switch.pcapng
  rackweave switch --config rack.toml --standby
                               takes over when the other one dies; needs [hosted.standby]

With a section [hosted.standby], each of the two waits while the other one leads.")]
pub struct SwitchArgs {
    /// Where the controller listens; without it, hosted.listen or hosted.control
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Run as the standby
    #[arg(long)]
    pub standby: bool,
    /// Where etcd is reached, instead of at hosted.etcd
    #[arg(long, value_name = "URL", hide = true)]
    pub etcd: Option<String>,
    /// Write what the switch sees, before and after, to a pcapng file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// How often to check whether keys are to be read again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Reads the keys again at every SIGHUP until `ended`.
fn read_keys_again(
    process: &SwitchProcess,
    (interrupt, ended): (&Interrupt, &AtomicBool),
    speaker: &Speaker,
) {
    while !ended.load(Ordering::Relaxed) {
        if interrupt.take_read_again() {
            speaker.say(match process.read_keys() {
                Ok(cut) => What::KeysRead { cut },
                Err(error) => What::Error {
                    text: format!("the keys stay as they were: {error}"),
                },
            });
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Runs the command.
///
/// # Errors
/// An invalid configuration, missing keys, an address in use, another switch in the same folder.
pub fn run(args: &SwitchArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut config = globals.hosted_process()?;
    if let (Some(url), Some(hosted)) = (&args.etcd, &mut config.hosted) {
        hosted.etcd = vec![url.clone()];
    }
    let options = SwitchOptions {
        config: config.clone(),
        listen: args.listen,
        is_standby: args.standby,
        elector: None,
    };
    args.leash.hold(&globals.interrupt);
    let speaker = Speaker::new(globals, if args.standby { "standby" } else { "switch" });
    let hosted = config.hosted();
    let process = if args.standby || hosted.standby.is_some() || !hosted.etcd.is_empty() {
        let stop = globals.interrupt.flag();
        let elected = SwitchProcess::elected(options, stop, |error| {
            let why = error.map(|error| error.to_string());
            speaker.say(What::StandsBy { why });
        })?;
        let Some(process) = elected else {
            speaker.say(What::Ended);
            return Ok(Verdict::Ended);
        };
        process
    } else {
        SwitchProcess::new(options)?
    };
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, &config, process.memory())?),
        None => None,
    };
    process.set_tap(recording.as_ref().map(Recording::tap));
    let address = process.address().map_err(CliError::run)?;
    speaker.say(What::Listening {
        address: address.to_string(),
    });
    let interrupt = &globals.interrupt;
    interrupt.read_again_at_hangup();
    let (stepped_down, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let keys = scope.spawn(|| read_keys_again(&process, (interrupt, &ended), &speaker));
        process.run(interrupt.flag(), &|event| {
            let steps_down = matches!(event, SwitchEvent::SteppedDown { .. });
            stepped_down.fetch_or(steps_down, Ordering::Relaxed);
            speaker.say(event);
        });
        ended.store(true, Ordering::Relaxed);
        keys.thread().unpark();
    });
    process.set_tap(None);
    if let Some(recording) = recording {
        recording.finish()?;
    }
    speaker.say(What::Ended);
    // A leader that was requested to end leads no longer in any case.
    Ok(match stepped_down.into_inner() && !interrupt.is_set() {
        true => Verdict::Failed,
        false => Verdict::Ended,
    })
}
