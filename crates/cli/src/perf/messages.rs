//! READ, WRITE, SEND and atomics from node to node through the forwarding switch.

use super::amount::Amount;
use super::initiator::{Initiator, Kind, Responder};
use super::list;
use super::loops;
use super::pair::{End, Pair, Shape, Side};
use super::report::{CaptureReport, Latency, MessageRates, MessageReport, Parameters, Setting};
use super::{messages_hosted, messages_simulated};
use crate::args::{Atomic, PerfArgs, Test};
use crate::capture::Recording;
use crate::globals::Globals;
use crate::mode::Mode;
use crate::outcome::{CliError, Verdict};
use crate::patience::Wish;
use crate::progress::Progress;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::testing::Taps;
use rackweave_rack::{EmbeddedRack, Rack, RackConfig};
use rackweave_verbs::Mtu;
use serde::{Deserialize, Serialize};

/// What a test asks for, with its defaults in place.
pub struct Plan {
    /// What is posted.
    pub kind: Kind,
    /// How many of what.
    pub shape: Shape,
    /// How much of it.
    pub amount: Amount,
    /// The nodes: the one that posts, and the other.
    pub nodes: (NodeId, NodeId),
    is_latency: bool,
}

/// What the node that posts found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NearFound {
    /// Messages completed on each queue pair.
    pub completed: Vec<u64>,
    /// When the last message completed, in nanoseconds since the start.
    pub last: u64,
    /// Whether completions came in order and atomics returned what they should.
    pub is_sound: bool,
    /// How long messages took.
    pub latency_ns: Latency,
    /// Of the buffers that the messages used.
    pub digest: u64,
}

/// What the other node found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FarFound {
    /// Messages received, if it posts receives.
    pub received: Option<u64>,
    /// Of the buffers that the messages used.
    pub digest: u64,
    /// Whether each word that atomics go to was raised as often as there were messages.
    pub words_are_right: bool,
}

/// What was measured.
pub struct Measured {
    /// At the node that posted.
    pub near: NearFound,
    /// At the other one.
    pub far: FarFound,
    /// Which part of the time the wire to the node that got the data was busy.
    pub link_utilisation: Option<f64>,
}

impl NearFound {
    /// What is to be said at the end of a measurement.
    pub fn new(initiator: &Initiator, shape: &Shape, near: &Side) -> Self {
        let completed = initiator.completed_each();
        Self {
            last: initiator.last(),
            is_sound: initiator.is_sound(),
            latency_ns: Latency::of(initiator.histogram()),
            digest: near.digest(shape, &completed),
            completed,
        }
    }
}

impl FarFound {
    /// What is to be said at the end of a measurement that `completed` so many messages on each
    /// queue pair.
    pub fn new(
        responder: Option<&Responder>,
        shape: &Shape,
        far: &Side,
        completed: &[u64],
    ) -> Self {
        Self {
            received: responder.map(Responder::received),
            digest: far.digest(shape, completed),
            words_are_right: far.words_are(shape, completed),
        }
    }
}

impl Measured {
    /// What both ends found, where both are in this process.
    pub fn new(
        initiator: &Initiator,
        responder: Option<&Responder>,
        shape: &Shape,
        pair: &Pair,
    ) -> Self {
        let near = NearFound::new(initiator, shape, &pair.near);
        Self {
            far: FarFound::new(responder, shape, &pair.far, &near.completed),
            near,
            link_utilisation: None,
        }
    }
}

/// Runs one of the tests.
///
/// # Errors
/// If an argument makes no sense or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mode = Mode::of(args.simulated, &args.rack, globals)?;
    list::check_hosted(args, &mode)?;
    let mut config = mode.config(&args.rack, globals)?;
    config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
    config.check()?;
    let plan = Plan::new(args, &config)?;
    plan.check(&config)?;
    let name = super::name_of(args.test);
    let mut progress = Progress::new(globals, name);
    let (measured, capture) = match &mode {
        Mode::Simulated => messages_simulated::run(args, &plan, &config, globals, &mut progress)?,
        Mode::Hosted(rack) => {
            let measured = messages_hosted::run(rack, &plan, &config, globals, &mut progress)?;
            (measured, None)
        }
        Mode::Embedded => embedded(args, &plan, &config, globals, &mut progress)?,
    };
    drop(progress);
    let setting = Setting::new(args.test, mode.name(), &config);
    let report = plan.report(setting, &config, globals, &measured, capture);
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(report.verified))
}

impl Plan {
    fn new(args: &PerfArgs, config: &RackConfig) -> Result<Self, CliError> {
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
            kind,
            shape,
            amount,
            nodes: (NodeId(0), NodeId(config.node.len() as u16 - 1)),
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
    pub fn pair(&self, rack: &Rack, config: &RackConfig, sim: bool) -> Result<Pair, CliError> {
        let attributes = self.attributes(config, sim);
        let pair = Pair::new(rack, &self.shape, self.nodes, &attributes)?;
        pair.near.fill(self.kind, End::Near, config.seed);
        pair.far.fill(self.kind, End::Far, config.seed);
        Ok(pair)
    }

    /// Ready to post from one side of `pair` to the other.
    pub fn initiator(&self, pair: &Pair) -> Initiator {
        let far = &pair.far.region;
        let remote = (far.address, far.rkey);
        Initiator::new(self.kind, self.shape, &pair.near, remote, self.amount)
    }

    /// Whether everything is where it should be.
    fn verify(&self, measured: &Measured) -> bool {
        let Measured { near, far, .. } = measured;
        let completed: u64 = near.completed.iter().sum();
        let arrived = far.received.is_none_or(|count| count == completed);
        let right = if self.kind.is_atomic() {
            far.words_are_right
        } else {
            near.digest == far.digest
        };
        near.is_sound && completed > 0 && arrived && right
    }

    fn report(
        &self,
        setting: Setting,
        config: &RackConfig,
        globals: &Globals,
        measured: &Measured,
        capture: Option<CaptureReport>,
    ) -> MessageReport {
        let near = &measured.near;
        let rates = MessageRates::new(near.completed.iter().sum(), self.shape.size, near.last);
        let name = |node: NodeId| config.node[usize::from(node.0)].name.clone();
        MessageReport {
            setting,
            parameters: Parameters {
                size_bytes: self.shape.size,
                queue_pairs: self.shape.queue_pairs,
                tx_depth: self.shape.depth,
                mtu_bytes: config.nic.mtu,
                source: name(self.nodes.0),
                target: name(self.nodes.1),
            },
            is_latency: self.is_latency,
            verified: self.verify(measured),
            interrupted: globals.interrupt.is_set(),
            rates,
            latency_ns: near.latency_ns,
            link_utilisation: measured.link_utilisation,
            capture,
        }
    }
}

/// A measurement, and what the capture holds.
pub type Run = (Measured, Option<CaptureReport>);

fn embedded(
    args: &PerfArgs,
    plan: &Plan,
    config: &RackConfig,
    globals: &Globals,
    progress: &mut Progress,
) -> Result<Run, CliError> {
    let rack = EmbeddedRack::new(config)?;
    globals.live.watch(rack.observer());
    let pair = plan.pair(&rack, config, false)?;
    let recording = match &args.capture {
        Some(path) => Some(Recording::start(path, config, rack.memory())?),
        None => None,
    };
    if let Some(recording) = &recording {
        rack.set_tap(Some(recording.tap()));
    }
    let (near, far) = (rack.node_at(pair.near.node), rack.node_at(pair.far.node));
    let responder = match plan.kind {
        Kind::Send => Some(far.with(|nic| Responder::new(plan.shape, &pair.far, nic))?),
        _ => None,
    };
    let mut initiator = Some((&near, plan.initiator(&pair)));
    let mut responder = responder.map(|responder| (&far, responder));
    let wish = || {
        if globals.interrupt.is_set() {
            Wish::Finish
        } else {
            Wish::GoOn
        }
    };
    let driver = rack.progress();
    let exchanged = loops::exchange(
        &mut initiator,
        &mut responder,
        &*driver,
        wish,
        |initiator, now| progress.set(|| initiator.fraction(now)),
    );
    rack.set_tap(None);
    let capture = CaptureReport::finish(args.capture.as_deref(), recording)?;
    exchanged?;
    let (_, initiator) = initiator.expect("nobody took it");
    let responder = responder.as_ref().map(|(_, responder)| responder);
    let measured = Measured::new(&initiator, responder, &plan.shape, &pair);
    Ok((measured, capture))
}
