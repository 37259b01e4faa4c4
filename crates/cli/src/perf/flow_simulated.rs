//! Flows in virtual time.

use super::ends::{Popped, Pushed, Sink, Source};
use super::flow::{Ends, FlowMeasured, FlowPlan, explain};
use super::report::CaptureReport;
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::progress::Progress;
use core::cell::RefCell;
use rackweave_base::{Duration, NodeId};
use rackweave_rack::testing::Taps;
use rackweave_rack::{RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use std::path::Path;
use std::rc::Rc;

/// Virtual time between two looks at the progress bar and the user's wish to stop.
const SLICE: Duration = Duration::from_micros(200);

/// The producers of a node as a program there.
struct SourceActor(Rc<RefCell<State>>, usize);

/// The consumer of a node as a program there.
struct SinkActor(Rc<RefCell<State>>, usize);

struct State {
    ends: Ends,
    error: Option<CliError>,
}

impl State {
    fn fail(&mut self, error: CliError) -> Step {
        self.error.get_or_insert(error);
        Step::Done
    }
}

impl Actor for SourceActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now().as_nanos();
        let mut state = self.0.borrow_mut();
        let mut finished = true;
        for at in 0..state.ends.sources[self.1].len() {
            loop {
                match state.ends.sources[self.1][at].turn(now) {
                    Ok(Pushed::Items(_)) => {}
                    Ok(Pushed::Full) => {
                        finished = false;
                        break;
                    }
                    Ok(Pushed::Finished) => break,
                    Err(error) => return state.fail(error),
                }
            }
        }
        if finished {
            Step::Done
        } else {
            Step::WaitForPacket
        }
    }
}

impl Actor for SinkActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now().as_nanos();
        let mut state = self.0.borrow_mut();
        loop {
            match state.ends.sinks[self.1].turn(now) {
                Ok(Popped::Items(_)) => {}
                Ok(Popped::Empty) => return Step::WaitForPacket,
                Ok(Popped::Ended) => return Step::Done,
                Err(error) => return state.fail(error),
            }
        }
    }
}

/// Runs the flow on a simulated rack.
///
/// # Errors
/// As for [`super::flow::run`].
pub fn run(
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    capture: Option<&Path>,
    progress: &mut Progress,
) -> Result<(FlowMeasured, Option<CaptureReport>), CliError> {
    let mut rack = SimulatedRack::new(config)?;
    let flow = plan.create(&rack)?;
    let recording = capture
        .map(|path| Recording::start(path, config, rack.memory()))
        .transpose()?;
    rack.set_tap(recording.as_ref().map(Recording::tap));
    let state = State {
        ends: Ends::new(&flow, plan)?,
        error: None,
    };
    let state = Rc::new(RefCell::new(state));
    for (at, &node) in plan.producers.iter().enumerate() {
        rack.spawn(node, Box::new(SourceActor(state.clone(), at)));
    }
    for (at, &node) in plan.consumers.iter().enumerate() {
        rack.spawn(node, Box::new(SinkActor(state.clone(), at)));
    }
    let ran = run_world(&mut rack, &state, plan, globals, progress);
    rack.set_tap(None);
    let capture = CaptureReport::finish(capture, recording)?;
    ran.map_err(|error| explain(error, &flow))?;
    let mut measured = state.borrow().ends.measured();
    let nodes = || (0..config.node.len()).map(|at| NodeId(at as u16));
    measured.links = nodes().filter_map(|node| rack.link_report(node)).collect();
    measured.cpus = nodes().filter_map(|node| rack.cpu_report(node)).collect();
    measured.events = rack.events();
    Ok((measured, capture))
}

fn run_world(
    rack: &mut SimulatedRack,
    state: &Rc<RefCell<State>>,
    plan: &FlowPlan,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<(), CliError> {
    loop {
        let end = rack.run(rack.now() + SLICE);
        let mut state = state.borrow_mut();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        match end {
            RunEnd::Done => return Ok(()),
            RunEnd::Stalled => {
                return Err(CliError::run(format!(
                    "nothing moves any more in the simulated rack; --seed {} replays it",
                    rack.config().seed
                )));
            }
            RunEnd::Deadline | RunEnd::Control(_) => {}
        }
        let items = state.ends.sinks.iter().map(Sink::popped).sum();
        progress.set(|| plan.fraction(items, rack.now().as_nanos()));
        if globals.interrupt.is_set() {
            state
                .ends
                .sources
                .iter_mut()
                .flatten()
                .for_each(Source::finish);
        }
    }
}
