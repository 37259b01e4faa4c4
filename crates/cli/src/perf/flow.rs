//! Flows of every shape, in real and in virtual time.

use super::amount::Amount;
use super::ends::{Manner, Popped, Pushed, Sink, Source};
use super::loops::{self, NowAndThen, nanos};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::patience::{Patience, Wish};
use crate::perf::report::CaptureReport;
use crate::progress::Progress;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_controller::{FlowError, FlowShape, FlowState};
use rackweave_rack::testing::Taps;
use rackweave_rack::{EmbeddedRack, Flow, Rack, RackConfig};
use rackweave_sim::CpuReport;
use rackweave_sim::world::LinkReport;
use rackweave_verbs::Progress as Drive;
use std::path::Path;
use std::time::Instant;

/// What flows.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// How items find their consumers.
    pub shape: FlowShape,
    /// The producers' nodes.
    pub producers: Vec<NodeId>,
    /// The consumers' nodes.
    pub consumers: Vec<NodeId>,
    /// Bytes of an item.
    pub item_size: u32,
    /// Bytes of a ring.
    pub ring_bytes: u32,
    /// How items are written and read.
    pub manner: Manner,
    /// Items of each producer, in a shuffle for each consumer; or how long.
    pub amount: Amount,
    /// Threads of the ends in an embedded rack, 1 or 2.
    pub threads: u8,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct FlowMeasured {
    /// Items that arrived, at every replica of a replicated flow.
    pub items: u64,
    /// Nanoseconds from the first push to the last item taken; from the first item taken in a
    /// hosted rack, where each consumer has a clock of its own.
    pub nanos: u64,
    /// Nanoseconds from the first item taken to the last, of the consumer that took longest.
    pub nanos_taking: u64,
    /// Whether every item arrived once and in order.
    pub verified: bool,
    /// What the links of all nodes did; empty in an embedded rack.
    pub links: Vec<LinkReport>,
    /// What the cores of all nodes did; empty in an embedded rack.
    pub cpus: Vec<CpuReport>,
    /// Events of the simulator.
    pub events: u64,
}

/// The ends of a running flow.
pub struct Ends {
    /// How items find from sources to sinks.
    pub shape: FlowShape,
    /// Of each producer: one per consumer in a shuffle, else one.
    pub sources: Vec<Vec<Source>>,
    /// Of each consumer.
    pub sinks: Vec<Sink>,
}

impl Ends {
    /// The ends of `flow`.
    ///
    /// # Errors
    /// If a ring does not fit its block.
    pub fn new(flow: &Flow, plan: &FlowPlan) -> Result<Self, CliError> {
        let source = |index| -> Result<Vec<Source>, CliError> {
            let rings = flow.take_producers(index)?.into_iter();
            Ok(rings
                .map(|ring| Source::new(ring, index, plan.manner, plan.amount))
                .collect())
        };
        let sources = (0..plan.producers.len())
            .map(source)
            .collect::<Result<_, _>>()?;
        let sink = |index| -> Result<Sink, CliError> {
            let (consumer, producers) = (flow.take_consumer(index)?, plan.producers.len());
            Ok(match plan.shape {
                FlowShape::Balance => Sink::sharing(consumer, producers, plan.manner),
                FlowShape::Shuffle | FlowShape::Replicate => {
                    Sink::new(consumer, producers, plan.manner)
                }
            })
        };
        let sinks = (0..plan.consumers.len())
            .map(sink)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            shape: plan.shape,
            sources,
            sinks,
        })
    }

    /// What they saw.
    pub fn measured(&self) -> FlowMeasured {
        let pushed: u64 = self.sources.iter().flatten().map(Source::pushed).sum();
        let items: u64 = self.sinks.iter().map(Sink::popped).sum();
        let is_sound = self.sinks.iter().all(Sink::is_sound);
        let is_complete = match self.shape {
            FlowShape::Shuffle => pushed == items,
            FlowShape::Replicate => self.sinks.iter().all(|sink| sink.popped() == pushed),
            FlowShape::Balance => {
                let sources = self.sources.iter().flatten().map(Source::digest);
                let sinks = self.sinks.iter().map(Sink::digest);
                let together = |sum: u64, part: u64| sum.wrapping_add(part);
                pushed == items && sources.fold(0, together) == sinks.fold(0, together)
            }
        };
        FlowMeasured {
            items,
            nanos: self.sinks.iter().map(Sink::last).max().unwrap_or(0),
            nanos_taking: self.sinks.iter().map(Sink::span).max().unwrap_or(0),
            verified: is_sound && is_complete && items > 0,
            ..FlowMeasured::default()
        }
    }
}

impl FlowPlan {
    /// Which part is done, for the progress bar.
    pub fn fraction(&self, items: u64, nanos: u64) -> f64 {
        let copies = match self.shape {
            FlowShape::Shuffle | FlowShape::Replicate => self.consumers.len(),
            FlowShape::Balance => 1,
        };
        let rings = (self.producers.len() * copies) as u64;
        self.amount.fraction(items / rings.max(1), nanos)
    }

    /// The flow that it asks for.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub fn create(&self, rack: &Rack) -> Result<Flow, FlowError> {
        let flow = rack
            .flow(&self.producers, &self.consumers)
            .shape(self.shape);
        let flow = flow.item_bytes(self.item_size).ring_bytes(self.ring_bytes);
        flow.build()
    }
}

/// Runs the flow on an embedded rack.
///
/// # Errors
/// If the rack cannot be built or the flow breaks off.
pub fn run(
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    capture: Option<&Path>,
    progress: &mut Progress,
) -> Result<(FlowMeasured, Option<CaptureReport>), CliError> {
    let rack = EmbeddedRack::new(config)?;
    globals.live.watch(rack.observer());
    let (from, to) = (plan.producers.len(), plan.consumers.len());
    globals
        .live
        .phase(&format!("{} of {from} to {to}", plan.shape.name()));
    let flow = plan.create(&rack)?;
    let recording = capture
        .map(|path| Recording::start(path, config, rack.memory()))
        .transpose()?;
    rack.set_tap(recording.as_ref().map(Recording::tap));
    let mut ends = Ends::new(&flow, plan)?;
    let driver = rack.progress();
    let ran = if plan.threads == 2 {
        in_two_threads(&mut ends, plan, &*driver, globals, progress)
    } else {
        in_one_thread(&mut ends, plan, &*driver, globals, progress)
    };
    rack.set_tap(None);
    let capture = CaptureReport::finish(capture, recording)?;
    ran.map_err(|error| explain(error, &flow))?;
    Ok((ends.measured(), capture))
}

/// Adds the controller's word on why a flow ended.
pub fn explain(error: CliError, flow: &Flow) -> CliError {
    match flow.state() {
        FlowState::Aborted(reason) => CliError::run(format!("{error}: {reason}")),
        _ => error,
    }
}

/// This thread is every producer and every consumer.
fn in_one_thread(
    ends: &mut Ends,
    plan: &FlowPlan,
    driver: &dyn Drive,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<(), CliError> {
    let start = Instant::now();
    let mut patience = Patience::new(driver);
    let mut watching = NowAndThen::default();
    loop {
        let now = nanos(start);
        let mut moved = false;
        for source in ends.sources.iter_mut().flatten() {
            moved |= matches!(source.turn(now)?, Pushed::Items(_));
        }
        let mut ended = true;
        for sink in &mut ends.sinks {
            let popped = sink.turn(now)?;
            moved |= matches!(popped, Popped::Items(_));
            ended &= popped == Popped::Ended;
        }
        if ended {
            return Ok(());
        }
        patience.wait(moved);
        if watching.is_due() {
            let items = ends.sinks.iter().map(Sink::popped).sum();
            progress.set(|| plan.fraction(items, now));
        }
        if globals.interrupt.is_set() {
            ends.sources.iter_mut().flatten().for_each(Source::finish);
        }
    }
}

/// One thread has the producers, this one the consumers; each drives the rack while it waits.
fn in_two_threads(
    ends: &mut Ends,
    plan: &FlowPlan,
    driver: &dyn Drive,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<(), CliError> {
    let start = Instant::now();
    let broken = AtomicBool::new(false);
    let Ends { sources, sinks, .. } = ends;
    std::thread::scope(|scope| {
        let broken = &broken;
        let wish = move || match (broken.load(Ordering::Relaxed), globals.interrupt.is_set()) {
            (true, _) => Wish::Stop,
            (false, true) => Wish::Finish,
            (false, false) => Wish::GoOn,
        };
        let pushing = scope.spawn(move || {
            let pushed = loops::push_all(sources, driver, start, wish, |_| {});
            broken.fetch_or(pushed.is_err(), Ordering::Relaxed);
            pushed
        });
        // What is on its way when the user wants to stop is still taken.
        let wish = || match wish() {
            Wish::Finish => Wish::GoOn,
            wish => wish,
        };
        let popped = loops::take_all(sinks, driver, start, wish, |items, now| {
            progress.set(|| plan.fraction(items, now));
        });
        broken.fetch_or(popped.is_err(), Ordering::Relaxed);
        let pushed = pushing
            .join()
            .map_err(|_| CliError::run("the producer's thread panicked"))?;
        pushed.and(popped)
    })
}
