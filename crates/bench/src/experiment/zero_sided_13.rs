//! Zero-sided RDMA, figure 13: processing units that join and leave while a query runs.
//!
//! Four storage nodes stream `lineitem` to GPUs that compute TPC-H query 1. It starts with one GPU;
//! three more join, one after another, and leave again. Producers run the same program as with
//! fixed consumers.

use super::replication::link_rate;
use super::units::{FEEDERS_PER_NODE, ITEM_SIZE, Outcome, RING_BYTES, Rack, Table, division};
use crate::harness::prelude::*;
use rackweave_controller::FlowShape;

/// Storage nodes, and maximum number of GPUs. Source: zero-sided, figure 13 (4:N).
const STORAGE_NODES: usize = 4;
const UNITS_MAX: usize = 4;

/// Phases: 1, 2, 3, 4, 3, 2, 1 units.
const PHASES: usize = 2 * UNITS_MAX - 1;

/// Slices of a phase in the plot.
const SLICES: u64 = 6;

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let table = Table::for_scale(run.scale)?;
    let (outcome, phase) = measure(run, &table)?;
    Ok(measured(&outcome, phase))
}

/// Runs the query. Returns its outcome, and the length of each phase but the last.
fn measure(run: &mut Run<'_>, table: &Table) -> Result<(Outcome, Duration)> {
    let mut rack = Rack::new(table, STORAGE_NODES, UNITS_MAX, run.seed)?;
    // If every unit fills its link, all phases together move the table; the last moves the rest.
    let links = (UNITS_MAX * UNITS_MAX) as f64;
    let seconds = table.bytes() as f64 / (links * link_rate());
    let phase = Duration::from_nanos((seconds * 1e9) as u64);
    for token in 1..PHASES as u64 {
        rack.rack.at(Instant::ZERO + phase * token, token);
    }
    let (from, to) = (rack.producers(), [rack.unit_node(0)]);
    let spec = division(&rack.rack, FlowShape::Balance, &from, &to)?;
    let mut flow = rack.rack.create_flow(spec)?;
    rack.feed(&flow)?;
    rack.take(&flow, 0, to[0], UnitModel::gpu_v100())?;
    let mut change = |rack: &mut Rack<'_>, token: u64| -> Result<()> {
        let at = token as usize;
        if at < UNITS_MAX {
            let node = rack.unit_node(at);
            let index = flow.add_consumer(node)?;
            return rack.take(&flow, index, node, UnitModel::gpu_v100());
        }
        // The last unit to join leaves first; consumers are numbered in the order of joining.
        let index = PHASES - at;
        Ok(flow.remove_consumer(index)?)
    };
    let outcome = rack.run(run, &mut change)?.verified()?;
    Ok((outcome, phase))
}

/// Bytes per second of all units in each phase.
fn phases(outcome: &Outcome, phase: Duration) -> Vec<f64> {
    let mut bytes = [0; PHASES];
    for (at, batch) in outcome.units.iter().flat_map(|unit| &unit.batches) {
        let index = (at.as_nanos() / phase.as_nanos().max(1)) as usize;
        bytes[index.min(PHASES - 1)] += batch;
    }
    let seconds = phase.as_secs_f64();
    let last = outcome.seconds - seconds * (PHASES - 1) as f64;
    let each = (1..).zip(bytes);
    each.map(|(at, bytes)| bytes as f64 / if at == PHASES { last } else { seconds })
        .collect()
}

fn measured(outcome: &Outcome, phase: Duration) -> Measured {
    let slice = Duration::from_nanos(phase.as_nanos() / SLICES);
    let end = Instant::ZERO + Duration::from_nanos((outcome.seconds * 1e9) as u64);
    let series = outcome.units.iter().zip(1..).map(|(unit, number)| {
        let rates = unit.rates(slice, end).into_iter();
        let points = rates.map(|(at, rate)| (at * 1e3, rate * 1e-9));
        Series::new(format!("GPU {number}"), points)
    });
    let rates = phases(outcome, phase);
    let gain = rates[UNITS_MAX - 1] / rates[0];
    let rates = rates.iter().map(|rate| format!("{:.1}", rate * 1e-9));
    let ended = outcome.units.iter().filter_map(|unit| unit.ended);
    let ended = ended.map(|at| format!("{:.3}", (at - Instant::ZERO).as_secs_f64() * 1e3));
    let values = values! {
        gain,
        communication: outcome.storage_communication.as_secs_f64(),
        scale_factor: outcome.scale_factor,
        rows: outcome.rows,
        phase_ms: phase.as_secs_f64() * 1e3,
        storage: STORAGE_NODES,
        feeders: FEEDERS_PER_NODE,
        item_kib: ITEM_SIZE >> 10,
        ring_kib: RING_BYTES >> 10,
        rates: rates.collect::<Vec<_>>().join(", "),
        link: link_rate() * 1e-9,
        ended: ended.collect::<Vec<_>>().join(", "),
        drops: outcome.drops,
    };
    Measured::new(series.collect(), values)
}

#[cfg(test)]
mod tests;
