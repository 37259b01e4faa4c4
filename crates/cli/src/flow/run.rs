//! Runs a script on its rack: in real time this thread takes the turns of all ends, in virtual time
//! each end is an actor of the simulator.

use super::Play;
use super::report::{self, RackFound};
use super::stage::RunningEnd;
use crate::globals::{Globals, Mode, RackArgs};
use crate::outcome::CliError;
use crate::programs::{Advance, OwnRack, RealRack, Session};
use crate::progress::Progress;
use rackweave_base::Duration;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Instant;

/// Virtual time between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_micros(500);

/// Time without progress after which the script gives up, in real and in virtual time.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_VIRTUAL: Duration = Duration::from_secs(2);

/// Time that the controller has to learn of the last item: in real time, and in slices of virtual
/// time.
const NEWS: std::time::Duration = std::time::Duration::from_secs(5);
const NEWS_SLICES: u32 = 100;

/// Runs the script on this rack, and returns the results.
///
/// # Errors
/// If the script is invalid for the rack.
pub fn run(
    play: &mut Play,
    mut rack: OwnRack,
    mode: Mode,
    globals: &Globals,
) -> Result<Map<String, Value>, CliError> {
    let is_simulated = mode == Mode::Simulated;
    play.check_specs(&rack)?;
    let what = match is_simulated {
        true => "running the script in virtual time",
        false => "running the script",
    };
    let mut progress = Progress::new(globals, what);
    let started = Instant::now();
    let mut session = Session::new(&mut rack, SLICE);
    let span = act_out(play, &mut session, globals, &mut progress)?;
    let over = Instant::now();
    for slice in 0.. {
        let is_late = match is_simulated {
            true => slice >= NEWS_SLICES,
            false => over.elapsed() > NEWS,
        };
        if is_late || !play.is_over || play.is_settled() {
            break;
        }
        session.pass();
    }
    drop(session);
    drop(progress);
    let is_interrupted = globals.interrupt.is_set();
    let of_rack = match &rack {
        OwnRack::Real(rack) => RackFound {
            driver_threads: rack.as_embedded().map(|rack| rack.driver_threads()),
            ..RackFound::default()
        },
        OwnRack::Simulated(rack) => RackFound {
            real_seconds: Some(started.elapsed().as_secs_f64()),
            events: Some(rack.events()),
            trace_hash: Some(format!("{:016x}", rack.trace_hash())),
            ..RackFound::default()
        },
    };
    Ok(report::found(
        play,
        mode.name(),
        span,
        of_rack,
        is_interrupted,
    ))
}

/// Executes every action at its time and runs the ends that it starts. Returns when it ended, in
/// nanoseconds since the start.
fn act_out(
    play: &mut Play,
    session: &mut Session<'_, RunningEnd>,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<u64, CliError> {
    for action in &play.script.actions {
        session.alarm(action.at);
    }
    let idle_max = match session.is_simulated() {
        true => PATIENCE_VIRTUAL,
        false => PATIENCE,
    };
    let idle_max = idle_max.as_nanos() + play.item_nanos_max();
    let (mut next, mut is_interrupted) = (0, false);
    let (mut seen, mut since) = (0, 0);
    loop {
        let advance = session.advance()?;
        let now = session.now();
        match advance {
            Advance::Alarm => {
                let action = &play.script.actions[next];
                for (node, end) in play.stage.act(action, session.rack(), now) {
                    session.add(node, end);
                }
                (next, since) = (next + 1, now);
            }
            Advance::Over => {
                play.is_over = true;
                return Ok(now);
            }
            Advance::Stalled => return Ok(now),
            Advance::Went { is_due: false } => {}
            Advance::Went { is_due: true } => {
                progress.set(|| play.fraction(now));
                let (done, is_pending) = (session.done(), next < play.script.actions.len());
                if done > seen || (is_pending && !is_interrupted) {
                    (seen, since) = (done, now);
                } else if now - since > idle_max {
                    return Ok(now);
                }
            }
        }
        // After Ctrl-C nothing new begins.
        if globals.interrupt.is_set() && !is_interrupted {
            is_interrupted = true;
            session.finish();
        }
    }
}

/// Joins as guests, or as the nodes that the user names, in the order in which the script first
/// names its own.
///
/// # Errors
/// As for [`RealRack::join`].
pub fn join(play: &mut Play, args: &RackArgs, globals: &Globals) -> Result<RealRack, CliError> {
    let mut named: Vec<String> = Vec::new();
    for node in play.script.nodes_mut() {
        if !named.contains(node) {
            named.push(node.clone());
        }
    }
    let rack = RealRack::join(&play.config, named.len(), (args, globals))?;
    let guests = rack.nodes().iter();
    let guests = guests.map(|node| play.config.node[usize::from(node.0)].name.clone());
    let joined = match args.join_as.is_empty() {
        true => guests.collect(),
        false => args.join_as.clone(),
    };
    let joined_as: BTreeMap<String, String> = named.into_iter().zip(joined).collect();
    for node in play.script.nodes_mut() {
        *node = joined_as[node].clone();
    }
    play.joined_as = Some(joined_as);
    Ok(rack)
}
