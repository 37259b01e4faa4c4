//! TPC-H query 1 on processing units of different kinds (zero-sided RDMA, sections 7.2 and 7.3).
//!
//! Cores of storage nodes put rows of `lineitem` into rings; a CPU, a GPU and an FPGA take them at
//! the rates of their models and aggregate the real bytes. The flow determines how the rows are
//! divided: a shuffle gives every unit the same share, since every producer has a ring per
//! consumer; balancing has one ring per producer, from which each unit gets as much as it can take.
//! [`Rack::feed`] works with any number of rings. For units that join and leave, enter control
//! events and handle them in [`Rack::run`]'s closure.
//!
//! What the paper leaves open and is chosen here: four cores per storage node and four for the CPU
//! as a unit (as many as in its shuffle of section 7.1), items of 16 KiB, rows of 64 bytes with all
//! columns but the comment. The scale factor is small, since real bytes are moved;
//! [`Outcome::seconds_at`] projects times to another one.

mod actors;

pub use actors::{UnitReport, part};

use crate::harness::prelude::*;
use actors::{query_taker, scan_feeder};
use rackweave_controller::{FlowShape, FlowSpec};
use rackweave_rack::RunEnd;
use rackweave_sim::UnitWork;
use rackweave_workload::tpch::{
    LineitemRow, Part, Q1Partial, QueryResult, ScaleFactor, lineitem_rows, reference,
};

/// Bytes of an encoded row of `lineitem`.
pub const ROW: usize = LineitemRow::BYTES;

/// Bytes of an item: a header and 255 rows.
pub const ITEM_SIZE: u32 = 16 << 10;

/// Bytes of a ring: what a link carries in 84 us. With half of it, one flow between two nodes does
/// not fill its link, because slots are released too late.
pub const RING_BYTES: u32 = 1 << 20;

/// Maximum bytes of one transfer.
const BATCH_BYTES: u32 = 1 << 20;

/// Maximum number of items that a unit takes at a time: a quarter of its ring.
const UNIT_ITEMS: u32 = RING_BYTES / ITEM_SIZE / 4;

/// Producing cores per storage node.
pub const FEEDERS_PER_NODE: usize = 4;

/// Storage nodes of the load-balancing experiment. Source: zero-sided, section 7.3.
pub const STORAGE_NODES: usize = 2;

/// Cores of the CPU as a processing unit.
pub const CPU_UNIT_CORES: u16 = 4;

/// The specification of a flow that divides rows between the nodes `to`: equally, by the producers
/// (`Shuffle`), or by the switch, as much as each takes (`Balance`).
pub fn division(
    rack: &SimulatedRack,
    shape: FlowShape,
    from: &[NodeId],
    to: &[NodeId],
) -> Result<FlowSpec> {
    let spec = flow_spec(rack, [from, to], ITEM_SIZE, RING_BYTES)?;
    Ok(FlowSpec {
        shape,
        consumer_slots: RING_BYTES / ITEM_SIZE,
        batch_bytes: BATCH_BYTES,
        // As in the paper, rings are polled at a fixed interval, whether or not they are active.
        poll_interval_max: spec.poll_interval,
        ..spec
    })
}

/// Limit on the virtual time of a run without control events.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The units of section 7.3, in the order of its figure: FPGA, GPU, and a CPU with `cores` cores.
pub fn heterogeneous_units(cores: u16) -> [UnitModel; 3] {
    [
        UnitModel::fpga_u55c(),
        UnitModel::gpu_v100(),
        UnitModel::cpu(cores, UnitWork::q1(ROW as u64)),
    ]
}

pub struct Outcome {
    /// When the last unit had aggregated its last row, in seconds of virtual time.
    pub seconds: f64,
    /// When the first unit had aggregated its first batch.
    pub seconds_to_first: f64,
    /// The units, in the order given.
    pub units: Vec<UnitReport>,
    /// Rows of `lineitem` that were sent.
    pub rows: u64,
    /// The answer, summed over the units.
    pub answer: QueryResult,
    /// Whether it equals the reference answer, over as many rows.
    pub is_right: bool,
    /// Time of all cores of all storage nodes spent on communication.
    pub storage_communication: Duration,
    /// Packets that full queues dropped.
    pub drops: u64,
    pub scale_factor: f64,
}

impl Outcome {
    /// Returns the outcome if its answer equals the reference answer.
    pub fn verified(self) -> Result<Self> {
        match self.is_right {
            true => Ok(self),
            false => Err(failed("query 1 gave a wrong answer", &self.answer)),
        }
    }

    /// Projects `seconds` of this run to another scale factor: the time before the first batch is
    /// done is constant, the rest grows with the number of rows. The rest of the run is a steady
    /// state, since rings are much shorter than the table.
    pub fn seconds_at(&self, seconds: f64, scale_factor: f64) -> f64 {
        let start = self.seconds_to_first.min(seconds);
        start + (seconds - start) * scale_factor / self.scale_factor
    }
}

/// The table of an experiment and its reference answer, built once for several runs.
pub struct Table {
    /// All rows of `lineitem` in the order of their keys, encoded.
    rows: Rc<[u8]>,
    expected: QueryResult,
    scale: ScaleFactor,
}

impl Table {
    /// The table for a scale: factor 0.2, or 0.5 in full.
    pub fn for_scale(scale: Scale) -> Result<Self> {
        Self::new(scale.pick(0.2, 0.5))
    }

    pub fn new(factor: f64) -> Result<Self> {
        let scale = ScaleFactor::new(factor).or_failed("the table")?;
        let mut rows = Vec::new();
        for row in lineitem_rows(scale, Part::WHOLE) {
            rows.extend_from_slice(&row);
        }
        Ok(Self {
            rows: rows.into(),
            expected: reference(scale),
            scale,
        })
    }

    /// The bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.len() as u64
    }

    fn count(&self) -> usize {
        self.rows.len() / ROW
    }
}

/// A simulated rack of storage nodes and units on which a query runs.
pub struct Rack<'a> {
    /// The rack itself, to make flows and to change them.
    pub rack: Testbed,
    table: &'a Table,
    storage: usize,
    units: Vec<Rc<RefCell<UnitReport>>>,
}

impl<'a> Rack<'a> {
    /// A rack with `storage` storage nodes and `units` nodes with one unit each.
    pub fn new(table: &'a Table, storage: usize, units: usize, seed: u64) -> Result<Self> {
        let storage_nodes = nodes("storage", Role::Storage, storage);
        let unit_nodes = nodes("unit", Role::Compute, units);
        let config = RackConfig {
            seed,
            node: storage_nodes.chain(unit_nodes).collect(),
            ..RackConfig::default()
        };
        Ok(Self {
            rack: Testbed::new(&config)?,
            table,
            storage,
            units: Vec::new(),
        })
    }

    /// The node of each producer: every storage node has several.
    pub fn producers(&self) -> Vec<NodeId> {
        let nodes = 0..self.storage * FEEDERS_PER_NODE;
        nodes.map(|at| NodeId((at % self.storage) as u16)).collect()
    }

    /// The node of unit `at`.
    pub fn unit_node(&self, at: usize) -> NodeId {
        NodeId((self.storage + at) as u16)
    }

    /// Makes all producers of a flow send their equal parts of the table. A producer with several
    /// rings divides its part equally between them.
    pub fn feed(&mut self, flow: &Flow) -> Result<()> {
        let nodes = self.producers();
        let all = 0..self.table.count();
        for (at, &node) in nodes.iter().enumerate() {
            let rings = flow.take_producers(at)?;
            let range = part(&all, at, nodes.len());
            let feeder = scan_feeder(self.table.rows.clone(), &range, rings);
            self.rack.spawn(node, feeder);
        }
        Ok(())
    }

    /// Makes a unit on `node` take from consumer `consumer` of a flow. It may join while the flow
    /// runs.
    pub fn take(
        &mut self,
        flow: &Flow,
        consumer: usize,
        node: NodeId,
        unit: UnitModel,
    ) -> Result<()> {
        let consumer = flow.take_consumer(consumer)?;
        let report = Rc::new(RefCell::new(UnitReport {
            name: unit.name.clone(),
            ..UnitReport::default()
        }));
        let taker = query_taker(consumer, unit, UNIT_ITEMS, report.clone());
        self.units.push(report);
        self.rack.spawn(node, taker);
        Ok(())
    }

    /// Runs until all programs are done. At each control event that was entered with
    /// `SimulatedRack::at`, `control` may change the flow and add units.
    pub fn run(
        mut self,
        run: &mut Run<'_>,
        control: &mut dyn FnMut(&mut Self, u64) -> Result<()>,
    ) -> Result<Outcome> {
        let until = Until::Done(TIME_MAX);
        loop {
            let taken: u64 = self.units.iter().map(|unit| unit.borrow().bytes()).sum();
            let rest = &mut run.share(taken as f64 / self.table.bytes() as f64, 1.0);
            match self.rack.drive_to_control(rest, until)? {
                RunEnd::Control(token) => control(&mut self, token)?,
                _ => return Ok(self.outcome()),
            }
        }
    }

    fn outcome(self) -> Outcome {
        let mut units: Vec<UnitReport> = self.units.iter().map(|unit| unit.take()).collect();
        let partials = units
            .iter_mut()
            .map(|unit| core::mem::take(&mut unit.partial));
        let answer = QueryResult::merge(partials.map(Q1Partial::into_result));
        let expected = &self.table.expected;
        let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
        let first = units.iter().filter_map(|unit| unit.batches.first());
        let storage = (0..self.storage).map(|at| NodeId(at as u16));
        let cpus = storage.filter_map(|node| self.rack.cpu_report(node));
        Outcome {
            seconds: units
                .iter()
                .map(|u| seconds(u.finished()))
                .fold(0.0, f64::max),
            seconds_to_first: first.map(|(at, _)| seconds(*at)).fold(f64::MAX, f64::min),
            rows: self.table.count() as u64,
            is_right: answer.q1 == expected.q1 && answer.rows.lineitem == expected.rows.lineitem,
            answer,
            scale_factor: self.table.scale.get(),
            storage_communication: cpus.fold(Duration::ZERO, |all, cpu| all + cpu.communication),
            drops: shuffle::traffic(&self.rack).drops,
            units,
        }
    }
}

/// Query 1 over `storage` storage nodes and some units, divided as in [`division`].
pub fn query(
    run: &mut Run<'_>,
    table: &Table,
    storage: usize,
    units: &[UnitModel],
    shape: FlowShape,
) -> Result<Outcome> {
    let mut rack = Rack::new(table, storage, units.len(), run.seed)?;
    let producers = rack.producers();
    let nodes: Vec<NodeId> = (0..units.len()).map(|at| rack.unit_node(at)).collect();
    let spec = division(&rack.rack, shape, &producers, &nodes)?;
    let flow = rack.rack.create_flow(spec)?;
    rack.feed(&flow)?;
    for (at, (unit, &node)) in units.iter().zip(&nodes).enumerate() {
        rack.take(&flow, at, node, unit.clone())?;
    }
    rack.run(run, &mut |_, _| Ok(()))
}

#[cfg(test)]
mod tests;
