//! Figure 4 of Seamless: the benefit of the page table in the switch for a single read, without the
//! buffer pool. Latencies of SSD reads, remote reads and latch checks by offered rate (open loop,
//! Poisson), with the table in the switch and in a memory server.

pub(super) mod rack;
pub(super) mod testbed;
#[cfg(test)]
mod tests;
pub(super) mod worker;

use crate::harness::grid;
use crate::harness::prelude::*;
use rack::{Load, PageRack, Seen, Shape};
use testbed::{link_pages_per_second, round_trip};
use worker::Want;

/// Maximum pending requests of a thread. Source: seamless, section 3.
const DEPTH: u16 = 128;

/// Pages in the passive node's memory.
const HELD: u32 = 1024;

/// Minimum ratio of completed to due requests at which a rate counts as sustained.
const SUSTAINED: f64 = 0.98;

const WANTS: [(Want, &str); 3] = [
    (Want::Storage, "SSD reads"),
    (Want::Memory, "remote reads"),
    (Want::Latch, "latch checks"),
];

/// Where the page's entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Switch,
    /// In a memory server, where one READ looks it up before the same request is made. This is the
    /// fallback that the paper describes.
    Looked,
    /// In a memory server, with this project's protocol, which also checks and maintains it.
    Server,
}

const TABLES: [(Table, &str); 3] = [
    (Table::Switch, "switch"),
    (Table::Looked, "server, one look"),
    (Table::Server, "server, our fallback"),
];

/// Offered page rates, as fractions of the link's capacity.
const PAGE_RATES: &[f64] = &[0.02, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.05];
const PAGE_RATES_QUICK: &[f64] = &[0.05, 0.8, 1.05];

/// Offered rates of latch checks per second.
const CHECK_RATES: &[f64] = &[1e5, 1e6, 4e6, 1e7, 2e7, 3e7, 4e7, 5e7, 6e7, 8e7, 1e8, 1.2e8];
const CHECK_RATES_QUICK: &[f64] = &[1e5, 1e7, 1e8];

/// One kind of request with one location of the table, by rate: the sustained rates and the first
/// that is not.
type Curve = grid::Curve<(Want, Table), f64, Seen>;

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let (pages, checks, page_count, check_count) = run.scale.pick(
        (PAGE_RATES_QUICK, CHECK_RATES_QUICK, 1_000, 5_000),
        (PAGE_RATES, CHECK_RATES, 8_000, 40_000),
    );
    let line = link_pages_per_second();
    let mut curves = Vec::new();
    for (want, panel) in WANTS {
        let (rates, count): (Vec<f64>, u32) = match want {
            Want::Latch => (checks.to_vec(), check_count),
            _ => (pages.iter().map(|part| part * line).collect(), page_count),
        };
        for (table, place) in TABLES {
            let part = &mut run.part(curves.len(), WANTS.len() * TABLES.len());
            let points = measure(part, (want, table), &rates, count);
            curves.push(Curve {
                name: format!("{panel} | {place}"),
                of: (want, table),
                points: points
                    .map_err(|error| error.with(format!("{panel}, page table in {place}")))?,
            });
        }
    }
    Ok(measured(&curves, page_count, check_count))
}

fn measure(
    run: &mut Run<'_>,
    (want, table): (Want, Table),
    rates: &[f64],
    count: u32,
) -> Result<Vec<(f64, Seen)>> {
    // Each page in storage is read once; the warm-up counts, and the schedule is random.
    let cold = match want {
        Want::Storage => u64::from(count) * rates.len() as u64 * 5 / 4 + 1000,
        _ => 0,
    };
    let all = u64::from(HELD) + cold;
    let shape = Shape {
        depth: DEPTH,
        held: HELD,
        cold,
        indexed: if table == Table::Server { 0 } else { all },
        capacity: all as u32,
        looks_from: (table == Table::Looked).then_some(0),
    };
    let mut rack = PageRack::new(run, shape)?;
    let mut points = Vec::new();
    for (at, &rate) in rates.iter().enumerate() {
        let counted = Duration::from_nanos((f64::from(count) / rate * 1e9) as u64);
        let part = &mut run.part(at, rates.len());
        let seen = rack.measure(part, (want, Load::Open(rate)), counted)?;
        let ends = seen.held < SUSTAINED;
        points.push((rate, seen));
        if ends {
            break;
        }
    }
    Ok(points)
}

fn first(curve: &Curve) -> &Seen {
    &curve.points[0].1
}

/// The highest sustained rate, or the rate achieved at the last point.
fn most(curve: &Curve) -> f64 {
    let points = curve.points.iter();
    let sustained = points.filter(|(_, seen)| seen.held >= SUSTAINED);
    let last = curve.points.last().map_or(0.0, |(_, seen)| seen.per_second);
    sustained.map(|point| point.0).fold(last, f64::max)
}

fn measured(curves: &[Curve], pages: u32, checks: u32) -> Measured {
    let mut series = Vec::new();
    for curve in curves {
        let mut draw = |what, value: fn(&Seen) -> f64| {
            let drawn = curve.series(|rate| rate, value);
            let name = format!("{}, {what}", drawn.name);
            series.push(Series { name, ..drawn });
        };
        draw("p50", |seen| seen.p50_us);
        draw("p99", |seen| seen.p99_us);
    }
    let of = |want, table, value: fn(&Curve) -> f64| {
        let found = curves.iter().find(|curve| curve.of == (want, table));
        found.map_or(f64::NAN, value)
    };
    let p50 = |want, table| of(want, table, |curve| first(curve).p50_us);
    let round_trip_us = round_trip().as_nanos() as f64 / 1e3;
    let servers = [
        (
            Table::Looked,
            "one look at the table in a server, as the paper has it",
        ),
        (
            Table::Server,
            "our fallback, which checks and keeps the entry",
        ),
    ];
    let lookups = servers.into_iter().flat_map(|(table, how)| {
        let wants = [(Want::Memory, "remote read"), (Want::Storage, "SSD read")];
        wants.map(|(want, name)| {
            let more = p50(want, table) - p50(want, Table::Switch);
            values! { name, how, more: more / round_trip_us }
        })
    });
    let values = values! {
        round_trip_us, pages, checks,
        lookups: lookups.collect::<Vec<Values>>(),
        latches: p50(Want::Latch, Table::Switch) / p50(Want::Latch, Table::Looked),
        reads: p50(Want::Storage, Table::Looked) / p50(Want::Storage, Table::Switch),
        share: of(Want::Memory, Table::Switch, most) / link_pages_per_second(),
        threads: testbed::THREADS,
        depth: DEPTH,
        cores: rackweave_sim::devices::HOST_CORES,
        held: HELD,
        link: link_pages_per_second(),
        curves: curves.iter().filter_map(noted).collect::<Vec<Values>>(),
    };
    Measured::new(series, values)
}

fn noted(curve: &Curve) -> Option<Values> {
    let (want, table) = panel_and_name(&curve.name);
    let (_, last) = curve.points.last()?;
    Some(values! {
        want, table,
        first_us: first(curve).p50_us,
        most: most(curve),
        busy: last.link_busy * 100.0,
        refused: last.refused,
        drops: last.drops,
    })
}
