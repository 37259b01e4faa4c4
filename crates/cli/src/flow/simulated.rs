//! A script in virtual time: every end is a program on its node.

use super::Play;
use super::items::{Sink, Source, Turn};
use super::report::ScriptReport;
use super::stage::{Newcomer, Shared};
use crate::globals::Globals;
use crate::mode::SIMULATED;
use crate::outcome::CliError;
use crate::progress::Progress;
use core::cell::Cell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::flow::Doorbell;
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// Virtual time between two looks at the user.
const SLICE: Duration = Duration::from_micros(500);

/// Virtual time without an item moved after which the script gives up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Slices of time after the last item for the controller to hear of it.
const SLICES_LAST: u32 = 100;

struct SourceActor(Shared<Source>);

/// With the wish that it forgets its rate.
struct SinkActor(Shared<Sink>, Rc<Cell<bool>>);

/// What follows from a turn at `now`; nothing if another is to follow at once.
fn step_after(turn: Turn, now: u64) -> Option<Step> {
    match turn {
        Turn::Moved => None,
        Turn::Wait(until) => Some(Step::Sleep(Duration::from_nanos((until - now).max(1)))),
        Turn::Blocked => Some(Step::WaitForPacket),
        Turn::Done | Turn::Aborted => Some(Step::Done),
    }
}

/// A bell that does not fit the send queue is not missed: those in it will say the same.
fn post(context: &mut Context<'_>, bell: &Doorbell) {
    let _ = context.post_send(bell.qpn(), bell.request());
}

impl Actor for SourceActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now().as_nanos();
        loop {
            let turn = self
                .0
                .borrow_mut()
                .turn(now, &mut |bell| post(context, bell));
            if let Some(step) = step_after(turn, now) {
                return step;
            }
        }
    }
}

impl Actor for SinkActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now().as_nanos();
        loop {
            let hurry = self.1.get();
            let mut ring = |bell: &Doorbell| post(context, bell);
            let turn = self.0.borrow_mut().turn(now, hurry, &mut ring);
            if let Some(step) = step_after(turn, now) {
                return step;
            }
        }
    }
}

/// Runs the script.
///
/// # Errors
/// If the rack cannot be, or the script cannot be meant for it.
pub fn run(play: &mut Play, globals: &Globals) -> Result<ScriptReport, CliError> {
    let mut rack = SimulatedRack::new(&play.config)?;
    play.check_specs(&rack)?;
    for (at, action) in play.script.actions.iter().enumerate() {
        rack.at(Instant::from_nanos(action.at), at as u64);
    }
    let hurry = Rc::new(Cell::new(false));
    let mut progress = Progress::new(globals, "running the script in virtual time");
    let started = std::time::Instant::now();
    let (mut seen, mut since) = (0, rack.now());
    let mut next = 0;
    loop {
        let end = rack.run(rack.now() + SLICE);
        let now = rack.now();
        if let RunEnd::Control(_) = end {
            // Ctrl-C lets nothing new begin.
            if !hurry.get() {
                let action = &play.script.actions[next];
                for newcomer in play.stage.act(action, &rack, now.as_nanos()) {
                    spawn(&mut rack, newcomer, &hurry);
                }
            }
            next += 1;
            since = now;
        }
        let is_pending = next < play.script.actions.len() && !hurry.get();
        if !is_pending && play.has_ended() {
            play.is_over = true;
            break;
        }
        if end == RunEnd::Stalled {
            break;
        }
        progress.set(|| play.fraction(now.as_nanos()));
        if globals.interrupt.is_set() && !hurry.get() {
            hurry.set(true);
            play.finish_all();
        }
        let items = play.items();
        if items > seen || is_pending {
            (seen, since) = (items, now);
        } else if now - since > PATIENCE + Duration::from_nanos(play.item_nanos_max()) {
            break;
        }
    }
    let span = (rack.now() - Instant::ZERO).as_nanos();
    // News of the last item takes its time to the controller.
    for _ in 0..SLICES_LAST {
        if !play.is_over || play.is_settled() {
            break;
        }
        rack.run(rack.now() + SLICE);
    }
    let mut report = play.report(SIMULATED, span, globals);
    report.real_seconds = Some(started.elapsed().as_secs_f64());
    report.events = Some(rack.events());
    report.trace_hash = Some(format!("{:016x}", rack.trace_hash()));
    Ok(report)
}

fn spawn(rack: &mut SimulatedRack, newcomer: Newcomer, hurry: &Rc<Cell<bool>>) {
    match newcomer {
        Newcomer::Source(node, source) => rack.spawn(node, Box::new(SourceActor(source))),
        Newcomer::Sink(node, sink) => rack.spawn(node, Box::new(SinkActor(sink, hurry.clone()))),
    };
}
