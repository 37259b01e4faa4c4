//! READ, WRITE, SEND and atomics from node to node through the forwarding switch.

use super::amount::Amount;
use super::initiator::{Initiator, Kind, Responder};
use super::messages_simulated;
use super::pair::{Pair, Shape, Site};
use super::report::{CaptureReport, Latency, MessageRates, MessageReport, Parameters, Setting};
use crate::args::{Atomic, PerfArgs, Test};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::{EmbeddedRack, RackConfig};
use rackweave_verbs::Mtu;

/// Rounds of the loop between two looks at the clock of the progress bar.
const ROUNDS: u32 = 256;

/// What a test asks for, with its defaults in place.
pub struct Plan {
    test: Test,
    /// What is posted.
    pub kind: Kind,
    shape: Shape,
    /// How much of it.
    pub amount: Amount,
    is_latency: bool,
}

/// What was measured.
pub struct Measured {
    /// The node that posted.
    pub initiator: Initiator,
    /// Messages that the other one received, if it posts receives.
    pub received: Option<u64>,
    /// Which part of the time the wire to the node that got the data was busy.
    pub link_utilisation: Option<f64>,
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
    plan.check(&config)?;
    let name = super::name_of(args.test);
    let mut progress = Progress::new(globals, name);
    let (measured, pair, capture) = if args.simulated {
        messages_simulated::run(args, &plan, &config, globals, &mut progress)?
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
        let depth = if is_latency {
            1
        } else {
            args.tx_depth.unwrap_or(128)
        };
        let shape = Shape {
            size,
            queue_pairs: args.queue_pairs.unwrap_or(1),
            depth,
            receives: if kind == Kind::Send {
                depth.saturating_mul(2).clamp(16, 4096).max(depth)
            } else {
                0
            },
        };
        let default = Amount::Count(if is_latency { 1000 } else { 5000 });
        let amount = Amount::of(args, default)?;
        Ok(Self {
            test: args.test,
            kind,
            shape,
            amount,
            is_latency,
        })
    }

    /// Refuses queues that no NIC of this configuration makes.
    fn check(&self, config: &RackConfig) -> Result<(), CliError> {
        let Shape {
            depth,
            queue_pairs,
            receives,
            ..
        } = self.shape;
        let entries = config.nic.queue_entries;
        if depth.max(receives) > entries {
            return Err(CliError::usage(format!(
                "-t is {depth}: a queue holds {entries} entries at most; lower -t or raise \
                 nic.queue_entries"
            )));
        }
        let (needed, most) = (
            queue_pairs * depth.max(receives),
            config.nic.completion_entries,
        );
        if needed > most {
            return Err(CliError::usage(format!(
                "-q {queue_pairs} with -t {depth} needs {needed} completions at a time, {most} are \
                 possible; lower -q or -t, or raise nic.completion_entries"
            )));
        }
        Ok(())
    }

    fn attributes(&self, config: &RackConfig, simulated: bool) -> PairAttributes {
        PairAttributes {
            mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
            timeout: if simulated {
                Duration::from_millis(1)
            } else {
                Duration::from_millis(67)
            },
            rnr_retries: 7,
            ..PairAttributes::default()
        }
    }

    /// Makes the pair of nodes and fills the buffers.
    ///
    /// # Errors
    /// If a node lacks room.
    pub fn pair(
        &self,
        site: &mut impl Site,
        config: &RackConfig,
        sim: bool,
    ) -> Result<Pair, CliError> {
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
        let arrived = measured
            .received
            .is_none_or(|count| count == initiator.completed());
        let right = if self.kind.is_atomic() {
            (0..pair.far.qpns.len()).all(|index| {
                let word = pair
                    .far
                    .region
                    .block
                    .word(self.shape.offset(index, 0) as usize);
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

/// A measurement, what it ran on, and what the capture holds.
pub type Run = (Measured, Pair, Option<CaptureReport>);

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
    let driven = drive(
        &rack,
        &pair,
        &mut initiator,
        &mut responder,
        globals,
        progress,
    );
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
    Ok((
        Measured {
            initiator,
            received,
            link_utilisation: None,
        },
        pair,
        capture,
    ))
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
