//! Flows of every shape, in real and in virtual time.

use crate::amount::Amount;
use crate::capture::CaptureReport;
use crate::globals::Globals;
use crate::items::verify::{self, Evidence, Seen};
use crate::items::{ItemSource, Manner, Sink};
use crate::outcome::CliError;
use crate::patience::Wish;
use crate::programs::{self, End, Group, OwnRack, Watch};
use crate::progress::Progress;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::{FlowError, FlowShape, FlowState};
use rackweave_rack::{Flow, Rack};
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

/// The program at an end of a measured flow.
pub type FlowEnd = End<ItemSource, Sink>;

/// The results of the ends of a flow of `shape`.
fn measured(shape: FlowShape, ends: &[FlowEnd]) -> FlowMeasured {
    let sinks = || ends.iter().filter_map(End::sink);
    let sources = ends.iter().filter_map(End::source);
    let problems = verify::judge(&Evidence {
        shape,
        pushed: sources.map(|source| source.pushed.clone()).collect(),
        seen: sinks().map(Seen::from).collect(),
        is_cut: false,
    });
    let is_sound = problems.is_empty() && sinks().all(|sink| sink.problem.is_none());
    let items = sinks().map(|sink| sink.items).sum();
    FlowMeasured {
        items,
        nanos: sinks().map(|sink| sink.last).max().unwrap_or(0),
        nanos_taking: sinks().map(Sink::span).max().unwrap_or(0),
        verified: is_sound && items > 0,
        ..FlowMeasured::default()
    }
}

impl FlowPlan {
    /// The completed fraction, for the progress bar, when this many items were pushed and taken.
    pub fn fraction(&self, items: u64, nanos: u64) -> f64 {
        let consumers = self.consumers.len();
        let (pushed, taken) = match self.shape {
            FlowShape::Shuffle => (consumers, consumers),
            FlowShape::Replicate => (1, consumers),
            FlowShape::Balance => (1, 1),
        };
        let times = (self.producers.len() * (pushed + taken)) as u64;
        self.amount.fraction(items / times.max(1), nanos)
    }

    /// Creates the flow.
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

    /// The programs of producers and of consumers.
    fn ends(&self, flow: &Flow) -> Result<[Group<FlowEnd>; 2], CliError> {
        let (mut sources, mut sinks) = (Group::new(), Group::new());
        for (index, &node) in self.producers.iter().enumerate() {
            let rings = flow.take_producers(index)?;
            let source = ItemSource::measured(rings, index, self.manner, self.amount);
            sources.push((node, End::Source(source)));
        }
        for (index, &node) in self.consumers.iter().enumerate() {
            let sink = Sink::measured(flow.take_consumer(index)?, self.manner);
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
    let flow = plan.create(&rack)?;
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
        ..measured(plan.shape, &ends)
    };
    if let Some(rack) = rack.simulated() {
        let nodes = || (0..rack.config().node.len()).map(|at| NodeId(at as u16));
        measured.links = nodes().filter_map(|node| rack.link_report(node)).collect();
        measured.cpus = nodes().filter_map(|node| rack.cpu_report(node)).collect();
    }
    Ok(measured)
}
