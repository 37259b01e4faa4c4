//! Zero-sided RDMA, figure 16: static partitioning against load balancing, over different units.
//!
//! Two storage nodes stream `lineitem` to an FPGA, a GPU and a CPU that compute TPC-H query 1: once
//! with a third of the rows for each, once with as many as each takes.

use super::replication::link_rate;
use super::units::{
    CPU_UNIT_CORES, FEEDERS_PER_NODE, ITEM_SIZE, Outcome, RING_BYTES, ROW, STORAGE_NODES, Table,
    heterogeneous_units as units, query,
};
use crate::harness::prelude::*;
use rackweave_controller::FlowShape;

/// The paper's scale factor, to which times are projected.
const SCALE_FACTOR: f64 = 100.0;

/// The paper's total times in seconds. Source: section 7.3.
const PAPER_STATIC: f64 = 3.2;
const PAPER_BALANCED: f64 = 2.1;

/// Slices of the static run in the plot.
const SLICES: u64 = 24;

/// Cores of the CPU as a unit in the other configurations.
const OTHER_CORES: [u16; 2] = [1, 2];

struct Pair {
    fixed: Outcome,
    balanced: Outcome,
}

impl Pair {
    /// Seconds at the paper's scale factor.
    fn seconds(&self) -> [f64; 2] {
        [&self.fixed, &self.balanced].map(|one| one.seconds_at(one.seconds, SCALE_FACTOR))
    }

    /// Time of static partitioning as a multiple of the time of load balancing.
    fn ratio(&self) -> f64 {
        let [fixed, balanced] = self.seconds();
        fixed / balanced
    }

    fn values(&self, name: &str) -> Values {
        values! {
            name,
            ratio: self.ratio(),
            static_times: times(&self.fixed),
            balanced_times: times(&self.balanced),
            static_drops: self.fixed.drops,
            balanced_drops: self.balanced.drops,
        }
    }
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let table = Table::for_scale(run.scale)?;
    let of_cores = |cores: u16| {
        let name = format!("a CPU unit of {cores} core(s) instead of {CPU_UNIT_CORES}");
        (name, units(cores))
    };
    let mut slow = units(CPU_UNIT_CORES);
    slow[0].memory_bytes_per_second = implied_fpga_rate() as u64;
    let name = format!(
        "an FPGA of {:.1} GB/s, the rate that the paper's {PAPER_STATIC} s are for a third of the \
         table in our rows",
        implied_fpga_rate() * 1e-9
    );
    let others = [
        of_cores(OTHER_CORES[0]),
        of_cores(OTHER_CORES[1]),
        (name, slow),
    ];
    let main = pair(&mut run.part(0, 4), &table, &units(CPU_UNIT_CORES))?;
    let mut pairs = Vec::new();
    for (at, (name, units)) in (1..).zip(others) {
        pairs.push((name, pair(&mut run.part(at, 4), &table, &units)?));
    }
    Ok(measured(&main, &pairs))
}

/// Bytes per second of the paper's FPGA if its rows were as long as ours: a third of the table in
/// the whole time.
fn implied_fpga_rate() -> f64 {
    table_bytes() / 3.0 / PAPER_STATIC
}

/// Bytes of `lineitem` at scale factor 100 in our rows: about six million rows per factor (TPC-H
/// specification 4.2.5).
fn table_bytes() -> f64 {
    SCALE_FACTOR * 6e6 * ROW as f64
}

fn pair(run: &mut Run<'_>, table: &Table, units: &[UnitModel]) -> Result<Pair> {
    let mut divided = |at, shape| {
        let run = &mut run.part(at, 2);
        query(run, table, STORAGE_NODES, units, shape)?.verified()
    };
    Ok(Pair {
        fixed: divided(0, FlowShape::Shuffle)?,
        balanced: divided(1, FlowShape::Balance)?,
    })
}

fn measured(main: &Pair, others: &[(String, Pair)]) -> Measured {
    let nanos = main.fixed.seconds.max(main.balanced.seconds) * 1e9;
    let end = Instant::ZERO + Duration::from_nanos(nanos as u64);
    let slice = Duration::from_nanos(nanos as u64 / SLICES);
    let panels = [
        ("static partitioning", &main.fixed),
        ("load balancing", &main.balanced),
    ];
    let series = panels.into_iter().flat_map(|(panel, outcome)| {
        outcome.units.iter().map(move |unit| {
            let rates = unit.rates(slice, end).into_iter();
            // One scale for both panels.
            let seconds = |at| main.fixed.seconds_at(at, SCALE_FACTOR);
            let points = rates.map(|(at, rate)| (seconds(at), rate * 1e-9));
            Series::new(format!("{panel} | {}", unit.name), points)
        })
    });
    let rates = units(CPU_UNIT_CORES).map(|unit| unit.bytes_per_second() as f64);
    let slowest = rates.into_iter().fold(f64::INFINITY, f64::min);
    let [fpga, gpu, cpu] = rates.map(|rate| rate * 1e-9);
    let links = STORAGE_NODES as f64 * link_rate();
    let paper_ratio = PAPER_STATIC / PAPER_BALANCED;
    let [fixed, balanced] = main.seconds();
    let pairs = others.iter().map(|(name, pair)| pair.values(name));
    let values = values! {
        paper_ratio, fixed, balanced, fpga, gpu, cpu,
        paper_static: PAPER_STATIC,
        paper_balanced: PAPER_BALANCED,
        ratio: main.ratio(),
        others: pairs.clone().collect::<Vec<Values>>(),
        pairs: [main.values("as above")].into_iter().chain(pairs).collect::<Vec<Values>>(),
        factor: main.fixed.scale_factor,
        rows: main.fixed.rows,
        row: ROW,
        scale_factor: SCALE_FACTOR,
        cores: CPU_UNIT_CORES,
        storage: STORAGE_NODES,
        feeders: FEEDERS_PER_NODE,
        item_kib: ITEM_SIZE >> 10,
        ring_kib: RING_BYTES >> 10,
        links: links * 1e-9,
        gain_max: links / 3.0 / slowest,
        slowest: slowest * 1e-9,
        needed: links / 3.0 / paper_ratio * 1e-9,
        paper_fpga: implied_fpga_rate() * 1e-9,
        paper_all: table_bytes() / PAPER_BALANCED * 1e-9,
        row_max: links * PAPER_BALANCED / (SCALE_FACTOR * 6e6),
    };
    Measured::new(series.collect(), values)
}

/// When each unit finished.
fn times(outcome: &Outcome) -> String {
    let units = outcome.units.iter().map(|unit| {
        let seconds = (unit.finished() - Instant::ZERO).as_secs_f64();
        let seconds = outcome.seconds_at(seconds, SCALE_FACTOR);
        format!("{} {seconds:.2} s", unit.name)
    });
    units.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
