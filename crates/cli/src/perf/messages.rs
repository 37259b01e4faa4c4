//! READ, WRITE, SEND and atomics from node to node through the forwarding switch.

use super::amount::Amount;
use super::initiator::{Initiator, Kind, Responder};
use super::pair::{Pair, Shape, Side, Site};
use super::report::{CaptureReport, Latency, MessageRates, MessageReport, Parameters, Setting};
use crate::args::{Atomic, PerfArgs, Test};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use core::cell::RefCell;
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::{EmbeddedRack, RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::Mtu;
use std::rc::Rc;

/// Rounds of the loop between two looks at the clock of the progress bar.
const ROUNDS: u32 = 256;

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_micros(200);

/// What a test asks for, with its defaults in place.
struct Plan {
    test: Test,
    kind: Kind,
    shape: Shape,
    amount: Amount,
    is_latency: bool,
}

/// What was measured.
struct Measured {
    initiator: Initiator,
    received: Option<u64>,
    link_utilisation: Option<f64>,
}

/// Runs one of the tests.
///
/// # Errors
/// If an argument makes no sense or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let plan = Plan::new(args)?;
    let mut config = globals.rack_config(&args.rack)?;
    config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
    config.check()?;
    let name = super::name_of(args.test);
    let mut progress = Progress::new(globals, name);
    let (measured, pair, capture) = if args.simulated {
        simulated(args, &plan, &config, globals, &mut progress)?
    } else {
        embedded(args, &plan, &config, globals, &mut progress)?
    };
    drop(progress);
    let report = plan.report(args, &config, globals, &measured, &pair, capture);
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(report.verified))
}

impl Plan {
    fn new(args: &PerfArgs) -> Result<Self, CliError> {
        let (kind, is_latency) = match args.test {
            Test::ReadBw => (Kind::Read, false),
            Test::ReadLat => (Kind::Read, true),
            Test::WriteBw => (Kind::Write, false),
            Test::WriteLat => (Kind::Write, true),
            Test::SendBw => (Kind::Send, false),
            Test::SendLat => (Kind::Send, true),
            _ => match args.operation.unwrap_or_default() {
                Atomic::Add => (Kind::FetchAdd, true),
                Atomic::Cas => (Kind::CompareSwap, true),
            },
        };
        let size = match (kind.is_atomic(), is_latency) {
            (true, _) => 8,
            (false, true) => args.size.unwrap_or(2),
            (false, false) => args.size.unwrap_or(65_536),
        };
        let depth = if is_latency { 1 } else { args.tx_depth.unwrap_or(128) };
        let shape = Shape {
            size,
            queue_pairs: args.queue_pairs.unwrap_or(1),
            depth,
            receives: if kind == Kind::Send { (2 * depth).clamp(16, 4096) } else { 0 },
        };
        let default = Amount::Count(if is_latency { 1000 } else { 5000 });
        let amount = Amount::of(args, default)?;
        Ok(Self { test: args.test, kind, shape, amount, is_latency })
    }

    fn attributes(&self, config: &RackConfig, simulated: bool) -> PairAttributes {
        PairAttributes {
            mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
            timeout: if simulated { Duration::from_millis(1) } else { Duration::from_millis(67) },
            rnr_retries: 7,
            ..PairAttributes::default()
        }
    }

    fn pair(&self, site: &mut impl Site, config: &RackConfig, sim: bool) -> Result<Pair, CliError> {
        let nodes = (NodeId(0), NodeId(config.node.len() as u16 - 1));
        let pair = Pair::new(site, self.shape, nodes, &self.attributes(config, sim))?;
        match self.kind {
            Kind::Read => pair.fill(&pair.far, &pair.near, config.seed),
            Kind::Write | Kind::Send => pair.fill(&pair.near, &pair.far, config.seed),
            Kind::FetchAdd | Kind::CompareSwap => {}
        }
        Ok(pair)
    }

    /// Whether everything is where it should be.
    fn verify(&self, measured: &Measured, pair: &Pair) -> bool {
        let initiator = &measured.initiator;
        let arrived = measured.received.is_none_or(|count| count == initiator.completed());
        let right = if self.kind.is_atomic() {
            (0..pair.far.qpns.len()).all(|index| {
                let word = pair.far.region.block.word(self.shape.offset(index, 0) as usize);
                word.load(Ordering::Acquire) == initiator.completed_of(index)
            })
        } else {
            pair.is_equal(|index| initiator.completed_of(index))
        };
        initiator.is_sound() && initiator.completed() > 0 && arrived && right
    }

    fn report(
        &self,
        args: &PerfArgs,
        config: &RackConfig,
        globals: &Globals,
        measured: &Measured,
        pair: &Pair,
        capture: Option<CaptureReport>,
    ) -> MessageReport {
        let initiator = &measured.initiator;
        let rates = MessageRates::new(initiator.completed(), self.shape.size, initiator.last());
        MessageReport {
            setting: Setting::new(self.test, args.simulated, config),
            parameters: Parameters {
                size_bytes: self.shape.size,
                queue_pairs: self.shape.queue_pairs,
                tx_depth: self.shape.depth,
                mtu_bytes: config.nic.mtu,
                source: config.node[usize::from(pair.near.node.0)].name.clone(),
                target: config.node[usize::from(pair.far.node.0)].name.clone(),
            },
            is_latency: self.is_latency,
            verified: self.verify(measured, pair),
            interrupted: globals.interrupt.is_set(),
            rates,
            latency_ns: Latency::of(initiator.histogram()),
            link_utilisation: measured.link_utilisation,
            capture,
        }
    }
}

type Run = (Measured, Pair, Option<CaptureReport>);

fn embedded(
    args: &PerfArgs,
    plan: &Plan,
    config: &RackConfig,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<Run, CliError> {
    let rack = EmbeddedRack::new(config)?;
    let pair = plan.pair(&mut &rack, config, false)?;
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, config, rack.memory())?),
        None => None,
    };
    if let Some(recording) = &recording {
        rack.set_tap(Some(recording.tap()));
    }
    let mut initiator = Initiator::new(plan.kind, &pair, plan.amount);
    let far = rack.node(pair.far.node);
    let mut responder = match plan.kind {
        Kind::Send => Some(far.with(|nic| Responder::new(&pair, nic))?),
        _ => None,
    };
    let driven = drive(&rack, &pair, &mut initiator, &mut responder, globals, progress);
    rack.set_tap(None);
    let capture = CaptureReport::finish(args.capture.as_deref(), recording)?;
    driven?;
    let received = match &mut responder {
        Some(responder) => {
            while far.with(|nic| responder.run(nic))? > 0 {}
            Some(responder.received())
        }
        None => None,
    };
    Ok((Measured { initiator, received, link_utilisation: None }, pair, capture))
}

/// Posts and polls in real time until all is done. This thread drives the rack meanwhile.
fn drive(
    rack: &EmbeddedRack,
    pair: &Pair,
    initiator: &mut Initiator,
    responder: &mut Option<Responder>,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<(), CliError> {
    let (near, far) = (rack.node(pair.near.node), rack.node(pair.far.node));
    let driver = rack.progress();
    let start = std::time::Instant::now();
    let (mut idle_rounds, mut rounds) = (0u32, 0u32);
    loop {
        let now = start.elapsed().as_nanos() as u64;
        let mut moved = near.with(|nic| -> Result<bool, CliError> {
            let completed = initiator.poll(now, nic)?;
            Ok(initiator.post(now, nic)? + completed > 0)
        })?;
        if initiator.is_done() {
            return Ok(());
        }
        if let Some(responder) = responder {
            moved |= far.with(|nic| responder.run(nic))? > 0;
        }
        moved |= driver.drive();
        if moved {
            idle_rounds = 0;
        } else {
            driver.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(ROUNDS) {
            progress.set(|| initiator.fraction(now));
        }
        if globals.interrupt.is_set() {
            initiator.close();
        }
    }
}

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
        let result = initiator
            .poll(now, context)
            .and_then(|_| if initiator.is_done() { Ok(0) } else { initiator.post(now, context) });
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

fn simulated(
    args: &PerfArgs,
    plan: &Plan,
    config: &RackConfig,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<Run, CliError> {
    let mut rack = SimulatedRack::new(config)?;
    let pair = plan.pair(&mut rack, config, true)?;
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, config, rack.memory())?),
        None => None,
    };
    if let Some(recording) = &recording {
        rack.set_tap(Some(recording.tap()));
    }
    let responder = match plan.kind {
        Kind::Send => Some(rack.act(pair.far.node, |nic| Responder::new(&pair, nic))?),
        _ => None,
    };
    let initiator = Initiator::new(plan.kind, &pair, plan.amount);
    let shared = Rc::new(RefCell::new(Shared { initiator, responder, error: None }));
    if plan.kind == Kind::Send {
        rack.spawn(pair.far.node, Box::new(ResponderActor(shared.clone())));
    }
    rack.spawn(pair.near.node, Box::new(InitiatorActor(shared.clone())));
    let ran = run_world(&mut rack, &shared, globals, progress);
    rack.set_tap(None);
    let capture = CaptureReport::finish(args.capture.as_deref(), recording)?;
    ran?;
    let receiving: &Side = if plan.kind == Kind::Read { &pair.near } else { &pair.far };
    let span = Duration::from_nanos(shared.borrow().initiator.last());
    let link_utilisation = rack.link_report(receiving.node).map(|report| {
        let picos = report.from_switch.link.busy_picos as f64;
        picos / (span.as_nanos().max(1) as f64 * 1e3)
    });
    let Shared { initiator, mut responder, .. } = take(shared);
    let received = match &mut responder {
        Some(responder) => {
            while rack.act(pair.far.node, |nic| responder.run(nic))? > 0 {}
            Some(responder.received())
        }
        None => None,
    };
    Ok((Measured { initiator, received, link_utilisation }, pair, capture))
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
