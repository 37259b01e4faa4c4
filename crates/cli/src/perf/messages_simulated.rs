//! Messages from node to node in virtual time.

use super::initiator::{Initiator, Kind, Responder};
use super::messages::{Measured, Plan, Run};
use super::pair::Side;
use super::report::CaptureReport;
use crate::args::PerfArgs;
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::progress::Progress;
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_rack::testing::Taps;
use rackweave_rack::{RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// Virtual time between two looks at the progress bar and the user's wish to stop.
const SLICE: Duration = Duration::from_micros(200);

/// The initiator as a program on its node.
struct InitiatorActor(Rc<RefCell<Shared>>);

/// The responder as a program on its node.
struct ResponderActor(Rc<RefCell<Shared>>);

struct Shared {
    initiator: Initiator,
    responder: Option<Responder>,
    error: Option<CliError>,
}

impl Shared {
    fn note<T>(&mut self, result: Result<T, CliError>) -> Step {
        match result {
            Ok(_) if !self.initiator.is_done() => Step::WaitForPacket,
            Ok(_) => Step::Done,
            Err(error) => {
                self.error.get_or_insert(error);
                Step::Done
            }
        }
    }
}

impl Actor for InitiatorActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut shared = self.0.borrow_mut();
        let now = context.now().as_nanos();
        let initiator = &mut shared.initiator;
        let result = initiator.poll(now, context).and_then(|_| {
            if initiator.is_done() {
                Ok(0)
            } else {
                initiator.post(now, context)
            }
        });
        shared.note(result)
    }
}

impl Actor for ResponderActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut shared = self.0.borrow_mut();
        let result = match &mut shared.responder {
            Some(responder) => responder.run(context),
            None => Ok(0),
        };
        shared.note(result)
    }
}

/// Runs the test on a simulated rack.
///
/// # Errors
/// If the rack cannot do it.
pub fn run(
    args: &PerfArgs,
    plan: &Plan,
    config: &RackConfig,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<Run, CliError> {
    let mut rack = SimulatedRack::new(config)?;
    let pair = plan.pair(&rack, config, true)?;
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, config, rack.memory())?),
        None => None,
    };
    if let Some(recording) = &recording {
        rack.set_tap(Some(recording.tap()));
    }
    let responder = match plan.kind {
        Kind::Send => Some(
            rack.node_at(pair.far.node)
                .with(|nic| Responder::new(plan.shape, &pair.far, nic))?,
        ),
        _ => None,
    };
    let initiator = plan.initiator(&pair);
    let shared = Rc::new(RefCell::new(Shared {
        initiator,
        responder,
        error: None,
    }));
    if plan.kind == Kind::Send {
        rack.spawn(pair.far.node, Box::new(ResponderActor(shared.clone())));
    }
    rack.spawn(pair.near.node, Box::new(InitiatorActor(shared.clone())));
    let ran = run_world(&mut rack, &shared, globals, progress);
    rack.set_tap(None);
    let capture = CaptureReport::finish(args.capture.as_deref(), recording)?;
    ran?;
    let receiving: &Side = if plan.kind == Kind::Read {
        &pair.near
    } else {
        &pair.far
    };
    let span = Duration::from_nanos(shared.borrow().initiator.last());
    let link_utilisation = rack.link_report(receiving.node).map(|report| {
        let picos = report.from_switch.link.busy_picos as f64;
        picos / (span.as_nanos().max(1) as f64 * 1e3)
    });
    let Shared {
        initiator,
        mut responder,
        ..
    } = take(shared);
    if let Some(responder) = &mut responder {
        while rack.node_at(pair.far.node).with(|nic| responder.run(nic))? > 0 {}
    }
    let measured = Measured {
        link_utilisation,
        ..Measured::new(&initiator, responder.as_ref(), &plan.shape, &pair)
    };
    Ok((measured, capture))
}

/// Runs the world until the initiator is done.
fn run_world(
    rack: &mut SimulatedRack,
    shared: &Rc<RefCell<Shared>>,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<(), CliError> {
    loop {
        let end = rack.run(rack.now() + SLICE);
        let mut state = shared.borrow_mut();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if state.initiator.is_done() {
            return Ok(());
        }
        if end == RunEnd::Stalled {
            return Err(CliError::run(format!(
                "nothing moves any more in the simulated rack; --seed {} replays it",
                rack.config().seed
            )));
        }
        let now = Instant::since(rack.now(), Instant::ZERO).as_nanos();
        progress.set(|| state.initiator.fraction(now));
        if globals.interrupt.is_set() {
            state.initiator.close();
        }
    }
}

/// What the actors shared. They may still hold it, so what is in there is moved out.
fn take(shared: Rc<RefCell<Shared>>) -> Shared {
    let mut state = shared.borrow_mut();
    let empty = state.initiator.emptied();
    Shared {
        initiator: core::mem::replace(&mut state.initiator, empty),
        responder: state.responder.take(),
        error: None,
    }
}
