//! Code shared by the shuffle experiments: their rack, and how they run on it.

use super::prelude::*;
use rackweave_rack::config::SwitchSection;

/// Limit on the virtual time of a run.
const TIME_MAX: Duration = Duration::from_secs(20);

/// The settings of flows that an experiment chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowShape {
    pub item_bytes: u32,
    /// Slots of a producer's ring.
    pub producer_slots: u32,
    /// Slots of a consumer's ring.
    pub consumer_slots: u32,
    /// Maximum bytes of one transfer.
    pub batch_bytes: u32,
    /// Transfers of one consumer in flight at a time.
    pub transfers: u8,
}

/// Lost packets and queue lengths of a run.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Traffic {
    /// Packets dropped at full ports, on all links.
    pub drops: u64,
    /// The longest queue, in bytes.
    pub queue_bytes_max: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    pub rate: f64,
    pub traffic: Traffic,
}

/// A rack of `count` nodes of the testbed, large enough for any flow of these experiments: the
/// tables are those of a software switch.
pub fn rack(count: usize, seed: u64) -> Result<Testbed> {
    let mut config = RackConfig {
        seed,
        memory_limit: 8 << 30,
        payload_buffers: 1 << 14,
        node: nodes("node", Role::Compute, count).collect(),
        switch: SwitchSection {
            budget: BudgetName::Software,
            memory: 1 << 30,
            lanes: 8192,
            consumer_rings: 64,
            producer_rings: 1024,
            ..SwitchSection::default()
        },
        ..RackConfig::default()
    };
    config.nic.queue_pairs = 8192;
    config.nic.regions = 4096;
    Testbed::new(&config)
}

/// The node of each of `per_node` threads on every node, node by node.
pub fn threads(nodes: usize, per_node: usize) -> Vec<NodeId> {
    let node = |at| NodeId((at / per_node) as u16);
    (0..nodes * per_node).map(node).collect()
}

/// A shuffle from all producers to all consumers.
pub fn flow(
    rack: &mut SimulatedRack,
    producers: &[NodeId],
    consumers: &[NodeId],
    shape: FlowShape,
) -> Result<Flow> {
    let ring_bytes = shape.item_bytes * shape.producer_slots;
    let mut spec = flow_spec(rack, [producers, consumers], shape.item_bytes, ring_bytes)?;
    spec.consumer_slots = shape.consumer_slots;
    spec.batch_bytes = shape.batch_bytes.max(shape.item_bytes);
    spec.transfers = shape.transfers;
    Ok(rack.create_flow(spec)?)
}

/// Runs until all programs are done.
pub fn finish(run: &mut Run<'_>, rack: &mut Testbed) -> Result<()> {
    rack.drive(run, Until::Done(TIME_MAX))?;
    Ok(())
}

/// The losses of a figure's runs, for a note; `lost` describes those of a point.
pub fn dropped<K, P: Copy>(
    curves: &[Curve<K, P, Seen>],
    lost: impl Fn(P, Traffic) -> String + Copy,
) -> String {
    let all = curves.iter().flat_map(|curve| {
        let lossy = curve
            .points
            .iter()
            .filter(|(_, seen)| seen.traffic.drops > 0);
        lossy.map(move |(point, seen)| format!("{}, {}", curve.name, lost(*point, seen.traffic)))
    });
    match all.collect::<Vec<_>>() {
        all if all.is_empty() => "no packet was dropped".into(),
        all => format!("packets dropped in front of full ports: {}", all.join("; ")),
    }
}

/// The losses on all links of the rack.
pub fn traffic(rack: &SimulatedRack) -> Traffic {
    let nodes = (0..rack.config().node.len()).map(|at| NodeId(at as u16));
    let directions = nodes
        .filter_map(|node| rack.link_report(node))
        .flat_map(|report| [report.to_switch.link, report.from_switch.link]);
    directions.fold(Traffic::default(), |all, link| Traffic {
        drops: all.drops + link.drops,
        queue_bytes_max: all.queue_bytes_max.max(link.queue_bytes_max),
    })
}

/// Fails a run whose result differs from the one that was computed directly.
pub fn verify<T: PartialEq + core::fmt::Debug>(what: &str, seen: T, expected: T) -> Result<()> {
    if seen == expected {
        return Ok(());
    }
    Err(ExperimentError::Run(format!(
        "{what}: {seen:?} came, {expected:?} was expected"
    )))
}
