//! A script in real time: this thread is every end, and drives the rack while nothing moves.

use super::Play;
use super::items::{Sink, Source, Turn};
use super::report::ScriptReport;
use super::stage::{Newcomer, Shared};
use crate::globals::Globals;
use crate::mode::EMBEDDED;
use crate::outcome::CliError;
use crate::patience::Patience;
use crate::perf::loops::{NowAndThen, nanos};
use crate::progress::Progress;
use rackweave_endpoint::flow::Doorbell;
use rackweave_rack::{EmbeddedRack, Node};
use std::time::{Duration, Instant};

/// How long nothing may move before the script gives up, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;

/// How long the controller has after the last item to hear of it.
const NEWS: Duration = Duration::from_secs(5);

/// The ends that this thread is.
#[derive(Default)]
struct Ends {
    sources: Vec<(Node, Shared<Source>)>,
    sinks: Vec<(Node, Shared<Sink>)>,
}

impl Ends {
    fn take_in(&mut self, rack: &EmbeddedRack, newcomer: Newcomer) {
        match newcomer {
            Newcomer::Source(node, source) => self.sources.push((rack.node_at(node), source)),
            Newcomer::Sink(node, sink) => self.sinks.push((rack.node_at(node), sink)),
        }
    }

    /// A turn of each; whether anything moved.
    fn turn(&mut self, now: u64, hurry: bool) -> bool {
        let mut moved = false;
        // A bell that does not fit the send queue is not missed: those in it will say the same.
        let ring = |node: &Node, bell: &Doorbell| {
            let _ = node.with(|nic| bell.ring(nic));
        };
        let mut keep = |turn: Turn| {
            moved |= turn == Turn::Moved;
            !matches!(turn, Turn::Done | Turn::Aborted)
        };
        self.sources.retain(|(node, source)| {
            let turn = source.borrow_mut().turn(now, &mut |bell| ring(node, bell));
            keep(turn)
        });
        self.sinks.retain(|(node, sink)| {
            let turn = sink
                .borrow_mut()
                .turn(now, hurry, &mut |bell| ring(node, bell));
            keep(turn)
        });
        moved
    }
}

/// Runs the script.
///
/// # Errors
/// If the rack cannot be, or the script cannot be meant for it.
pub fn run(play: &mut Play, globals: &Globals) -> Result<ScriptReport, CliError> {
    let rack = EmbeddedRack::new(&play.config)?;
    globals.live.watch(rack.observer());
    play.check_specs(&rack)?;
    let driver = rack.progress();
    let mut patience = Patience::new(&*driver);
    let mut progress = Progress::new(globals, "running the script");
    let mut watching = NowAndThen::default();
    let (mut ends, mut next, mut moved_at) = (Ends::default(), 0, 0);
    let mut hurry = false;
    let start = Instant::now();
    let span = loop {
        let now = nanos(start);
        // Ctrl-C lets nothing new begin.
        while let Some(action) = play.script.actions.get(next).filter(|_| !hurry) {
            if action.at > now {
                break;
            }
            for newcomer in play.stage.act(action, &rack, now) {
                ends.take_in(&rack, newcomer);
            }
            (next, moved_at) = (next + 1, now);
        }
        let moved = ends.turn(now, hurry);
        let is_pending = next < play.script.actions.len() && !hurry;
        if !is_pending && ends.sources.is_empty() && ends.sinks.is_empty() {
            play.is_over = true;
            break now;
        }
        if moved || is_pending {
            moved_at = now;
        } else if now - moved_at > PATIENCE + play.item_nanos_max() {
            break now;
        }
        patience.wait(moved);
        if watching.is_due() {
            progress.set(|| play.fraction(now));
        }
        if globals.interrupt.is_set() && !hurry {
            hurry = true;
            play.finish_all();
        }
    };
    let over = Instant::now();
    while play.is_over && !play.is_settled() && over.elapsed() < NEWS {
        patience.wait(false);
    }
    drop(progress);
    let mut report = play.report(EMBEDDED, span, globals);
    report.driver_threads = Some(rack.driver_threads());
    Ok(report)
}
