//! Flows of every shape, in real and in virtual time.

use crate::capture::CaptureReport;
use crate::globals::Globals;
use crate::items::verify::{self, Evidence, Seen};
use crate::items::{ItemSource, Manner, Sink, Style};
use crate::measure::{Amount, per_second};
use crate::outcome::CliError;
use crate::programs::{self, End, Group, OwnRack, Watch, Wish};
use crate::progress::Progress;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::{FlowShape, FlowState};
use rackweave_rack::Flow;
use rackweave_sim::CpuReport;
use rackweave_sim::world::LinkReport;
use std::path::Path;

/// Virtual time between two updates of the progress bar and checks whether the user wants to stop.
pub const SLICE: Duration = Duration::from_micros(200);

/// The parameters of a flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// How items find their consumers.
    pub shape: FlowShape,
    pub producers: Vec<NodeId>,
    pub consumers: Vec<NodeId>,
    /// Bytes of an item.
    pub item_size: u32,
    /// Bytes of a ring.
    pub ring_bytes: u32,
    /// How items are written and read.
    pub manner: Manner,
    /// Items of each producer, in a shuffle for each consumer; or a duration.
    pub amount: Amount,
    /// Threads that run the ends in an embedded rack, 1 or 2.
    pub threads: u8,
}

/// The measurements.
#[derive(Clone, Debug, Default)]
pub struct FlowMeasured {
    /// Items that arrived, counted at every replica of a replicated flow.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds from the first push to the last item taken.
    pub nanos: u64,
    /// Nanoseconds from the first item taken to the last, of the consumer that took longest.
    pub nanos_taking: u64,
    /// Whether every item arrived once and in order.
    pub verified: bool,
    /// Activity of the links of all nodes; empty in an embedded rack.
    pub links: Vec<LinkReport>,
    /// Activity of the cores of all nodes; empty in an embedded rack.
    pub cpus: Vec<CpuReport>,
    pub capture: Option<CaptureReport>,
}

impl FlowMeasured {
    /// Items per second from the first taken to the last.
    pub fn rate(&self) -> f64 {
        per_second(self.items, self.nanos_taking)
    }

    pub fn gigabytes_per_s(&self) -> f64 {
        per_second(self.bytes, self.nanos) / 1e9
    }
}

/// The program at an end of a measured flow.
type FlowEnd = End<ItemSource, Sink>;

/// The results of the ends of a flow.
fn measured(plan: &FlowPlan, ends: &[FlowEnd]) -> FlowMeasured {
    let sinks = || ends.iter().filter_map(End::sink);
    let sources = ends.iter().filter_map(End::source);
    let problems = verify::judge(&Evidence {
        shape: plan.shape,
        pushed: sources.map(|source| source.pushed.clone()).collect(),
        seen: sinks().map(Seen::from).collect(),
        is_cut: false,
    });
    let is_sound = problems.is_empty() && sinks().all(|sink| sink.problem.is_none());
    let items: u64 = sinks().map(|sink| sink.items).sum();
    FlowMeasured {
        items,
        bytes: items * u64::from(plan.item_size),
        nanos: sinks().map(|sink| sink.last).max().unwrap_or(0),
        nanos_taking: sinks().map(Sink::span).max().unwrap_or(0),
        verified: is_sound && items > 0,
        ..FlowMeasured::default()
    }
}

impl FlowPlan {
    /// The completed fraction, for the progress bar, when this many items were pushed and taken.
    fn fraction(&self, items: u64, nanos: u64) -> f64 {
        let consumers = self.consumers.len();
        let (pushed, taken) = match self.shape {
            FlowShape::Shuffle => (consumers, consumers),
            FlowShape::Replicate => (1, consumers),
            FlowShape::Balance => (1, 1),
        };
        let times = (self.producers.len() * (pushed + taken)) as u64;
        self.amount.fraction(items / times.max(1), nanos)
    }

    /// The programs of producers and of consumers.
    fn ends(&self, flow: &Flow) -> Result<[Group<FlowEnd>; 2], CliError> {
        let (mut sources, mut sinks) = (Group::new(), Group::new());
        for (index, &node) in self.producers.iter().enumerate() {
            let rings = flow.take_producers(index)?;
            let style = Style::measured(self.manner);
            let source = ItemSource::new(rings, None, index, self.amount, style);
            sources.push((node, End::Source(source)));
        }
        for (index, &node) in self.consumers.iter().enumerate() {
            let style = Style::measured(self.manner);
            let sink = Sink::new(flow.take_consumer(index)?, None, None, style);
            sinks.push((node, End::Sink(sink)));
        }
        Ok([sources, sinks])
    }
}

/// Runs the flow on a rack.
///
/// # Errors
/// If the flow cannot be set up or is aborted.
pub fn run(
    mut rack: OwnRack,
    plan: &FlowPlan,
    globals: &Globals,
    capture: Option<&Path>,
    progress: &mut Progress,
) -> Result<FlowMeasured, CliError> {
    let (from, to) = (plan.producers.len(), plan.consumers.len());
    globals
        .live
        .phase(&format!("{} of {from} to {to}", plan.shape.name()));
    let flow = rack
        .flow(&plan.producers, &plan.consumers)
        .shape(plan.shape)
        .item_bytes(plan.item_size)
        .ring_bytes(plan.ring_bytes)
        .build()?;
    let recording = rack.record(capture)?;
    let groups = plan.ends(&flow)?;
    let groups = match plan.threads {
        1 => vec![groups.into_iter().flatten().collect()],
        _ => groups.into(),
    };
    let mut set = |items, now| progress.set(|| plan.fraction(items, now));
    // Items in flight when the user wants to stop are still taken.
    let mut watch = Watch::new(globals, Wish::Finish, SLICE, &mut set);
    let (ends, ran) = programs::run(&mut rack, groups, &mut watch);
    let capture = rack.recorded(recording)?;
    ran?;
    let is_aborted = |end: &FlowEnd| match end {
        End::Source(source) => source.aborted,
        End::Sink(sink) => sink.is_aborted(),
    };
    if ends.iter().any(is_aborted) {
        // The controller knows why a flow ended.
        let reason = match flow.state() {
            FlowState::Aborted(reason) => format!(": {reason}"),
            FlowState::Running | FlowState::Ended => String::new(),
        };
        return Err(CliError::run(format!("the flow was broken off{reason}")));
    }
    let mut measured = FlowMeasured {
        capture,
        ..measured(plan, &ends)
    };
    if let Some(rack) = rack.simulated() {
        let nodes = || (0..rack.config().node.len()).map(|at| NodeId(at as u16));
        measured.links = nodes().filter_map(|node| rack.link_report(node)).collect();
        measured.cpus = nodes().filter_map(|node| rack.cpu_report(node)).collect();
    }
    Ok(measured)
}
