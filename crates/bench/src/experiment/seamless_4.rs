//! Figure 4 of Seamless: what the page table in the switch is worth to a single read, without the
//! buffer pool: latencies of SSD reads, remote reads and latch checks, over the rate at which they
//! are due (open loop, Poisson), with the table in the switch and in a memory server.

pub(super) mod blank;
mod filler;
pub(crate) mod metered;
pub(super) mod models;
pub(super) mod rack;
pub(super) mod testbed;
#[cfg(test)]
mod tests;
pub(super) mod worker;

use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use models::{link_pages_per_second, round_trip};
use rack::{Load, PageRack, Seen, Shape};
use rackweave_base::Duration;
use worker::Want;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "seamless-4",
    about: "page reads and latch checks: latency over rate, page table in switch or server",
    run,
};

/// Requests that a thread may have under way. Source: seamless, section 3.
const DEPTH: u16 = 128;

/// Pages in the passive node's memory.
const HELD: u32 = 1024;

/// Completed over due, from which on a rate counts as sustained.
const SUSTAINED: f64 = 0.98;

const WANTS: [(Want, &str); 3] = [
    (Want::Storage, "SSD reads"),
    (Want::Memory, "remote reads"),
    (Want::Latch, "latch checks"),
];

/// Where the page's entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    /// In the switch.
    Switch,
    /// In a memory server, where one READ looks it up before the same request is made. That is how
    /// the paper describes its fallback.
    Looked,
    /// In a memory server, with this project's protocol, which also checks and keeps it.
    Server,
}

const TABLES: [(Table, &str); 3] = [
    (Table::Switch, "switch"),
    (Table::Looked, "server, one look"),
    (Table::Server, "server, our fallback"),
];

/// Rates at which pages are due, in parts of what the link carries.
const PAGE_RATES: &[f64] = &[0.02, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.05];
const PAGE_RATES_QUICK: &[f64] = &[0.05, 0.8, 1.05];

/// Latch checks that are due per second.
const CHECK_RATES: &[f64] = &[1e5, 1e6, 4e6, 1e7, 2e7, 3e7, 4e7, 5e7, 6e7, 8e7, 1e8, 1.2e8];
const CHECK_RATES_QUICK: &[f64] = &[1e5, 1e7, 1e8];

/// A point of a curve.
struct Point {
    rate: f64,
    seen: Seen,
}

/// One kind of request with one place of the table, over the rates that are sustained and the first
/// that is not.
struct Curve {
    want: Want,
    table: Table,
    points: Vec<Point>,
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let (pages, checks, page_count, check_count) = match run.scale {
        Scale::Quick => (PAGE_RATES_QUICK, CHECK_RATES_QUICK, 1_000, 5_000),
        Scale::Full | Scale::Paper => (PAGE_RATES, CHECK_RATES, 8_000, 40_000),
    };
    let line = link_pages_per_second();
    let total = (WANTS.len() * TABLES.len()) as f64;
    let mut curves = Vec::new();
    for (want, name) in WANTS {
        let (rates, count): (Vec<f64>, u32) = match want {
            Want::Latch => (checks.to_vec(), check_count),
            _ => (pages.iter().map(|part| part * line).collect(), page_count),
        };
        for (table, place) in TABLES {
            let share = curves.len() as f64 / total;
            let points = sweep(run, share, (want, table), &rates, count)
                .map_err(|error| error.with(format!("{name}, page table in {place}")))?;
            curves.push(Curve {
                want,
                table,
                points,
            });
        }
    }
    Ok(figure(&curves, run.seed, page_count, check_count))
}

/// Measures rate after rate, until one is not sustained.
fn sweep(
    run: &mut Run<'_>,
    share: f64,
    (want, table): (Want, Table),
    rates: &[f64],
    count: u32,
) -> Result<Vec<Point>, ExperimentError> {
    // Each page at home is read once; the warm-up counts, and the schedule is random.
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
    let mut rack = PageRack::new(run, share, shape)?;
    let mut points: Vec<Point> = Vec::new();
    for &rate in rates {
        let counted = Duration::from_nanos((f64::from(count) / rate * 1e9) as u64);
        let seen = rack.measure(run, share, (want, Load::Open(rate)), counted)?;
        let ends = seen.held < SUSTAINED;
        points.push(Point { rate, seen });
        if ends {
            break;
        }
    }
    Ok(points)
}

impl Curve {
    fn first(&self) -> &Seen {
        &self.points[0].seen
    }

    /// The most that was sustained, and what it looked like.
    fn most(&self) -> f64 {
        let sustained = self
            .points
            .iter()
            .filter(|point| point.seen.held >= SUSTAINED);
        let rates = sustained.map(|point| point.rate);
        let last = self
            .points
            .last()
            .map_or(0.0, |point| point.seen.per_second);
        rates.fold(0.0, f64::max).max(last)
    }
}

fn figure(curves: &[Curve], seed: u64, pages: u32, checks: u32) -> Figure {
    let named = |curve: &Curve| {
        let panel = WANTS.iter().find(|(want, _)| *want == curve.want);
        let table = TABLES.iter().find(|(table, _)| *table == curve.table);
        (
            panel.map_or("", |found| found.1),
            table.map_or("", |found| found.1),
        )
    };
    let series = curves.iter().flat_map(|curve| {
        let (panel, table) = named(curve);
        let line = |what: &str, value: &dyn Fn(&Seen) -> f64| Series {
            name: format!("{panel} | {table}, {what}"),
            points: curve
                .points
                .iter()
                .map(|point| (point.rate, value(&point.seen)))
                .collect(),
        };
        [
            line("p50", &|seen| seen.p50_us),
            line("p99", &|seen| seen.p99_us),
        ]
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Latency of Seamless operations at Poisson-distributed rates".into(),
        x: Axis::log("rate at which operations are due", "1/s"),
        y: Axis::log("latency", "us"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series.collect(),
        claims: claims(curves),
        notes: notes(curves, pages, checks),
        seed,
    }
}

fn find(curves: &[Curve], want: Want, table: Table) -> Option<&Curve> {
    let mut curves = curves.iter();
    curves.find(|curve| (curve.want, curve.table) == (want, table))
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let rtt_us = round_trip().as_nanos() as f64 / 1e3;
    let p50 = |want, table| find(curves, want, table).map_or(f64::NAN, |at| at.first().p50_us);
    let more = |want, table| p50(want, table) - p50(want, Table::Switch);
    let claim = |what: &str, paper: f64, ours: f64, unit: &str| Claim {
        what: what.into(),
        source: "section 3, figure 4".into(),
        paper,
        ours,
        unit: unit.into(),
    };
    let mut claims = Vec::new();
    for (table, how) in [
        (
            Table::Looked,
            "one look at the table in a server, as the paper has it",
        ),
        (
            Table::Server,
            "our fallback, which checks and keeps the entry",
        ),
    ] {
        for (want, name) in [(Want::Memory, "remote read"), (Want::Storage, "SSD read")] {
            let what = format!("median of a {name} at low load: round trips more by {how}");
            claims.push(claim(&what, 1.0, more(want, table) / rtt_us, "RTT"));
        }
    }
    claims.push(claim(
        "median of a latch check at low load, answered by the switch, over one at a server (the \
         way to the switch and back is half a round trip, section 2.2)",
        0.5,
        p50(Want::Latch, Table::Switch) / p50(Want::Latch, Table::Looked),
        "",
    ));
    claims.push(claim(
        "median of an SSD read at low load, table in a server over table in the switch (the \
         impact is dwarfed by the SSD's latency)",
        1.0,
        p50(Want::Storage, Table::Looked) / p50(Want::Storage, Table::Switch),
        "",
    ));
    let most = |table| find(curves, Want::Memory, table).map_or(f64::NAN, Curve::most);
    claims.push(claim(
        "remote reads until the network link is saturated: sustained share of the link, table in \
         the switch",
        1.0,
        most(Table::Switch) / link_pages_per_second(),
        "",
    ));
    claims
}

fn notes(curves: &[Curve], pages: u32, checks: u32) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{} threads with {DEPTH} requests at a time each, on one node whose model has {} \
             cores; {pages} page reads and {checks} latch checks are due in each point's window; \
             {HELD} pages lie in the memory of a second, passive node, SSD pages are read once",
            testbed::THREADS,
            rackweave_sim::devices::HOST_CORES,
        ),
        "latencies run from when an operation was due, whenever it was sent; a curve ends at the \
         first rate of which less than 98 % ends in time"
            .into(),
        format!(
            "the rack's round trip, a READ of 16 bytes from a memory server put together from the \
             models, is {:.2} us; a full link carries {:.0} pages of 64 KiB per second",
            round_trip().as_nanos() as f64 / 1e3,
            link_pages_per_second()
        ),
        "\"server, one look\" reads the entry before the very same request, which is the \
         paper's fallback; \"our fallback\" asks the switch first (half a round trip), reads the \
         entry, aims and asks the switch to read (half a round trip more), and reads the entry \
         again when the page has come, since only then is it known to be whole; after an SSD read \
         it also notes the new place of the page with three atomics"
            .into(),
        "four Samsung PM1733 stand for the paper's \"four 1 TB SSDs\", whose model is not told; \
         together they are faster than the storage node's link, which is what limits SSD reads"
            .into(),
    ];
    for curve in curves {
        let want = WANTS.iter().find(|(want, _)| *want == curve.want);
        let table = TABLES.iter().find(|(table, _)| *table == curve.table);
        let (Some(want), Some(table), Some(last)) = (want, table, curve.points.last()) else {
            continue;
        };
        notes.push(format!(
            "{}, table in {}: {:.2} us at low load, up to {:.0} per second; at the last rate the \
             wire to the node was busy {:.0} % of the time, {} requests were to ask again, {} \
             packets lost",
            want.1,
            table.1,
            curve.first().p50_us,
            curve.most(),
            last.seen.link_busy * 100.0,
            last.seen.refused,
            last.seen.drops
        ));
    }
    notes
}
