//! Figure 3 of Seamless: lookups over the page store and over a page cache in software, by skew.
//!
//! There are two nodes whose pools hold half of the data each, and one storage node. Both systems
//! get the same lookups, the same pools, drives, links and cores, and pay the same for a lookup
//! itself.

mod store;
#[cfg(test)]
mod tests;
mod traffic;

use super::seamless_4::models::link_pages_per_second;
use super::seamless_4::testbed::{PAGE_BYTES, SSDS, THREADS};
use crate::baseline::scalestore::{self, Config as Load};
use crate::figure::{Axis, Figure, claim, panel_and_name};
use crate::harness::grid::{self, Grid};
use crate::harness::{ExperimentError, Run, Scale};
use rackweave_base::Duration;
use rackweave_sim::{CpuModel, devices};
use traffic::Traffic;

/// Pages of the paper's data set of 128 GiB.
const PAPER_PAGES: u64 = (128 << 30) / PAGE_BYTES as u64;

/// Capacity in entries of the paper's switch. Source: seamless, section 3.
const PAPER_INDEXED: u64 = 280_000;

/// The skews of the paper's figure, and those for which the paper has a claim.
const SKEWS: &[f64] = &[0.0, 0.5, 0.8, 1.0, 1.1, 1.3];
const SKEWS_QUICK: &[f64] = &[0.0, 1.1, 1.3];

/// Lookups of a thread in flight: one, if a thread waits for each page; or several.
const DEPTHS: &[u16] = &[1, 8];
const DEPTHS_QUICK: &[u16] = &[8];

/// The results of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    /// Lookups per second.
    per_second: f64,
    /// Shares of lookups that found the page in their node's pool, in the other node's, on an SSD.
    local: f64,
    remote: f64,
    storage: f64,
    /// Packets lost at full ports.
    drops: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    /// The page store, with all pages in the switch.
    Whole,
    /// The page store, with as many pages in the switch as the paper's switch holds.
    Part,
    /// The baseline.
    Software,
}

const SYSTEMS: [(System, &str); 3] = [
    (System::Whole, "Seamless, all pages in the switch"),
    (System::Part, "Seamless, the hottest 13 % in the switch"),
    (System::Software, "software (like ScaleStore)"),
];

/// The load and its rack at a scale, with `depth` lookups of a thread in flight. Both systems get
/// the same.
fn load(scale: Scale, depth: u16) -> Load {
    let (pages, millis) = scale.pick((1 << 11, 4), (1 << 12, 8));
    let window = Duration::from_millis(millis);
    let cpu = CpuModel::default();
    // Filling the pools takes as long as the storage node's link needs for all pages; after half as
    // long again the lookups have settled.
    let fill = pages as f64 / link_pages_per_second();
    Load {
        page_size: PAGE_BYTES,
        pages,
        frames_per_node: (pages / 2) as u32,
        compute_nodes: 2,
        workers: THREADS,
        depth,
        handlers: devices::HOST_CORES,
        ssds: SSDS as u32,
        congestion_control: true,
        work: cpu.cycles(devices::HOST_PAGE_OPERATION_CYCLES)
            + cpu.memory_latency * devices::HOST_PAGE_OPERATION_MISSES,
        warm_up: Duration::from_nanos((fill * 1.5e9) as u64) + window,
        window,
    }
}

/// As many of `pages` pages as the paper's switch indexes of its own.
fn indexed(pages: u64) -> u64 {
    pages * PAPER_INDEXED / PAPER_PAGES
}

/// Measurements of a system with this many lookups of a thread in flight, by skew.
type Curve = grid::Curve<(System, u16), f64, Seen>;

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let scale = run.scale;
    let skews = scale.pick(SKEWS_QUICK, SKEWS);
    let depths = scale.pick(DEPTHS_QUICK, DEPTHS);
    let rows = depths.iter().flat_map(|&depth| {
        let panel = match depth {
            1 => "one lookup per thread".into(),
            depth => format!("{depth} lookups per thread"),
        };
        SYSTEMS.map(|(system, name)| (format!("{panel} | {name}"), (system, depth), skews))
    });
    let curves = Grid::of_rows(rows).measure(run, |run, (system, depth), skew| {
        measure(run, &load(scale, depth), system, skew)
    })?;
    Ok(figure(&curves, &load(scale, depths[0])))
}

fn measure(
    run: &mut Run<'_>,
    load: &Load,
    system: System,
    skew: f64,
) -> Result<Seen, ExperimentError> {
    let sizes = (load.pages, u64::from(load.frames_per_node));
    let traffic = Traffic::new(sizes, skew, load.workers.into(), run.seed);
    let traffic = traffic.map_err(ExperimentError::Run)?;
    match system {
        System::Whole => store::run_pages(run, load, &traffic, load.pages),
        System::Part => store::run_pages(run, load, &traffic, indexed(load.pages)),
        System::Software => run_software(run, load, &traffic),
    }
}

fn run_software(
    run: &mut Run<'_>,
    load: &Load,
    traffic: &Traffic,
) -> Result<Seen, ExperimentError> {
    let workers = u32::from(load.compute_nodes) * u32::from(load.workers);
    let streams = (0..workers).map(|at| traffic.stream(at));
    let streams = streams.collect::<Result<Vec<_>, String>>();
    let mut streams = streams.map_err(ExperimentError::Run)?.into_iter();
    let mut pages = |_| -> scalestore::Pages {
        let mut stream = streams.next().expect("there is one for each worker");
        Box::new(move || Some(stream.next()))
    };
    let outcome = scalestore::run(run, load, &mut pages)?;
    let [local, joined, remote, storage] = outcome.found;
    let all = outcome.found.iter().sum::<u64>().max(1);
    let part = |count: u64| count as f64 / all as f64;
    Ok(Seen {
        per_second: outcome.per_second,
        local: part(local + joined),
        remote: part(remote),
        storage: part(storage),
        drops: outcome.packets_dropped,
    })
}

fn figure(curves: &[Curve], load: &Load) -> Figure {
    let mut figure = Figure::lines("Effect of locality on lookups: data twice a node's buffer")
        .of("section 3, figure 3")
        .x(Axis::linear("Zipf skew", ""))
        .y(Axis::log("lookups", "M/s"));
    figure.series = grid::series(curves, |skew| skew, |seen| seen.per_second / 1e6);
    figure.notes = notes(curves, load);
    for of_depth in curves.chunks(SYSTEMS.len()) {
        let [ours @ .., software] = of_depth else {
            continue;
        };
        for curve in ours {
            for (skew, paper, what) in [
                (0.0, 1.0, "uniform: both are bound by IO, and alike"),
                (1.1, 1.2, "z = 1.1: 20 % more efficient"),
                (
                    1.3,
                    1.2,
                    "z = 1.3: more pronounced (paper: more than at 1.1)",
                ),
            ] {
                let rate = |curve: &Curve| curve.value(skew, |seen| seen.per_second);
                let (panel, name) = panel_and_name(&curve.name);
                let what =
                    format!("lookups over those of the software cache, {what}; {name}, {panel}");
                let gain = rate(curve) / rate(software);
                figure.claims([claim(what).values([paper, gain], "x")]);
            }
        }
    }
    figure
}

fn notes(curves: &[Curve], load: &Load) -> Vec<String> {
    let mut notes = vec![
        format!(
            "scale: {} pages of 64 KiB and {} buffer frames on each of {} nodes, a {}th of the \
             paper's 128 GiB and 64 GiB; the switch indexes all pages, or the {} hottest, which is \
             the paper's share (280 k of 2 M)",
            load.pages,
            load.frames_per_node,
            load.compute_nodes,
            PAPER_PAGES / load.pages,
            indexed(load.pages)
        ),
        format!(
            "lookups are YCSB C over records of {} bytes, Zipf ranks scattered over all pages; \
             with fewer records than the paper's, as many hot ones weigh somewhat less",
            traffic::RECORD_BYTES
        ),
        format!(
            "{} threads on each node, whose model has {} cores; a lookup costs {} ns in both \
             systems, beside posting and taking what it needs from the network",
            load.workers,
            devices::HOST_CORES,
            load.work.as_nanos()
        ),
        "before the time that counts, each node reads a random half of the pages, then lookups \
         settle; rate control (DCQCN) is on in both systems"
            .into(),
        "a node of the software cache reads a shared copy that it has without asking anybody, \
         since whoever wants to change the page has all copies given up first; a shared fix of the \
         page store asks the switch for the latch word every time (section 3: local hits \"still \
         require a round-trip to verify the lock state\")"
            .into(),
        "four Samsung PM1733 stand for the paper's four 1 TB SSDs of an unnamed model; the storage \
         node's link of 100 Gbit/s limits reads from them"
            .into(),
        "where that link is full, lookups are as many as it allows, and whoever goes to the SSDs \
         less often is faster: the software cache knows all nodes that have a page; the switch, as \
         in the paper, knows one (\"cached by\"), and when that one drops the page the next lookup \
         goes to an SSD although another node has a copy: about half of the copies are never found"
            .into(),
    ];
    for curve in curves {
        for (skew, seen) in &curve.points {
            if ![0.0, 1.1, 1.3].contains(skew) {
                continue;
            }
            let (panel, name) = panel_and_name(&curve.name);
            notes.push(format!(
                "{panel}, {name}, z = {skew}: {:.2} M/s; {:.1} % in the node's pool, {:.1} % in the \
                 other's, {:.1} % on SSDs, which keeps the storage node's link busy {:.0} % of the \
                 time; {} packets lost",
                seen.per_second / 1e6,
                seen.local * 100.0,
                seen.remote * 100.0,
                seen.storage * 100.0,
                seen.per_second * seen.storage / link_pages_per_second() * 100.0,
                seen.drops
            ));
        }
    }
    notes
}
