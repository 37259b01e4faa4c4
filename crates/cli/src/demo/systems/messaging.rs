//! Messages from a storage to a compute node: long ones, read in place, and small ones.
//!
//! `perf messaging` has the loops; this module is the demo's use of them.

use super::report::{Measure, SystemReport};
use super::{SystemName, SystemRun, yardstick};
use crate::outcome::CliError;
use crate::perf::messaging::bulk::{Bulk, Send, Take};
use crate::perf::messaging::rig::Rig;
use crate::perf::messaging::small::{self, SMALL_BYTES};
use crate::progress::Progress;
use rackweave_endpoint::messaging::MessagingConfig;
use serde_json::json;

/// Seconds of each kind of message at scale factor 1.
const SECONDS: f64 = 5.0;

/// Bytes of a long message.
const LONG_BYTES: usize = 1 << 20;

/// Runs the system.
///
/// # Errors
/// If the nodes cannot be connected, or the connection fails.
pub fn run(run: &SystemRun<'_>) -> Result<SystemReport, CliError> {
    let nodes = run.plan.nodes()?;
    let (storage, compute) = (nodes.storage, nodes.compute[0]);
    let interrupt = &run.globals.interrupt;
    let messaging = MessagingConfig::default();
    let mut rig = Rig::new(run.rack, [storage, compute], &messaging, interrupt)?;
    let span = run.scale.span(SECONDS);
    let mut bar = Progress::new(run.globals, "messaging");
    run.globals.live.phase("messaging: messages of 1 MiB");
    let memcpy = yardstick::memcpy_gigabytes(LONG_BYTES);
    let bulk = Bulk {
        size: LONG_BYTES,
        send: Send::Region,
        take: Take::InPlace,
        alone: false,
        span,
    };
    let long = bulk.run(&mut rig)?;
    bar.set(|| 0.5);
    run.globals.live.phase("messaging: messages of 64 bytes");
    let small = small::rate(&mut rig, span)?;
    let copied = yardstick::copied(SMALL_BYTES);
    let channel = yardstick::channel::<SMALL_BYTES>(&rig.source.bytes);
    let rate = long.gigabytes_per_s();
    let rates = [
        Measure::alone("1 MiB each, read in place", rate, "GB/s").beside("memcpy", memcpy),
        Measure::alone("64 bytes each", small.per_second(), "msg/s").beside("memcpy", copied),
    ];
    let mut system = SystemReport::found(SystemName::Messaging, run, rates);
    system.verified = long.sound && small.sound;
    for (what, sound) in [("long", long.sound), ("small", small.sound)] {
        if !sound {
            let problem = format!("a {what} message did not arrive as it was sent");
            system.problems.push(problem);
        }
    }
    system.details = json!({
        "long_messages": long.messages,
        "long_bytes": long.bytes,
        "small_messages": small.messages,
        "small_messages_in_a_package": small.per_package(),
        "std_channel_messages_per_s": channel,
    });
    Ok(system)
}
