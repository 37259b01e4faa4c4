//! Figure 3 of Seamless: lookups over the page store and over a page cache in software, by skew.
//!
//! There are two nodes whose pools hold half of the data each, and one storage node. Both systems
//! get the same lookups, the same pools, drives, links and cores, and pay the same for a lookup
//! itself.

mod store;
#[cfg(test)]
mod tests;

use super::seamless_4::testbed::{PAGE_BYTES, SSDS, THREADS, link_pages_per_second};
use crate::baseline::scalestore::{self, Config as Load};
use crate::harness::prelude::*;
use store::Traffic;

/// Pages of the paper's data set of 128 GiB.
const PAPER_PAGES: u64 = (128 << 30) / PAGE_BYTES as u64;

/// Capacity in entries of the paper's switch. Source: seamless, section 3.
const PAPER_INDEXED: u64 = 280_000;

/// The skews of the paper's figure, and those for which the paper has a claim.
const SKEWS: &[f64] = &[0.0, 0.5, 0.8, 1.0, 1.1, 1.3];
const SKEWS_QUICK: &[f64] = &[0.0, 1.1, 1.3];

/// Lookups of a thread in flight: one, if a thread waits for each page; or several. And drives:
/// with the paper's, the storage node's link is the bottleneck; with one, the drive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Panel {
    depth: u16,
    ssds: u16,
}

const PANELS: &[Panel] = &[
    Panel {
        depth: 1,
        ssds: SSDS,
    },
    Panel {
        depth: 8,
        ssds: SSDS,
    },
    Panel { depth: 1, ssds: 1 },
];
const PANELS_QUICK: &[Panel] = &[Panel {
    depth: 8,
    ssds: SSDS,
}];

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
    /// The same with leases, which the paper does not have.
    Leased,
    /// The page store, with as many pages in the switch as the paper's switch holds.
    Part,
    /// The baseline as ScaleStore does it: compute nodes own the pages, message handlers send them,
    /// and a worker has one fault at a time.
    Software,
    /// The baseline with everything done as well as possible.
    Idealised,
}

const SYSTEMS: [(System, &str); 5] = [
    (System::Whole, "Seamless, all pages in the switch"),
    (
        System::Leased,
        "Seamless with leases, all pages in the switch",
    ),
    (System::Part, "Seamless, the hottest 13 % in the switch"),
    (System::Software, "software (as ScaleStore)"),
    (System::Idealised, "software, idealised"),
];

/// The baselines, the last of [`SYSTEMS`].
const BASELINES: usize = 2;

/// Verifications of a page after which it is leased.
const LEASE_AFTER: u8 = 4;

/// Message handlers of a node. Source: ScaleStore's default of `messageHandlerThreads`.
const MESSAGE_HANDLERS: u16 = 4;

/// The load and its rack at a scale. All systems get the same.
fn load(scale: Scale, Panel { depth, ssds }: Panel) -> Load {
    let (pages, millis) = scale.pick((1 << 11, 4), (1 << 12, 8));
    let window = Duration::from_millis(millis);
    let cpu = CpuModel::default();
    // Filling the pools takes as long as the storage node needs to send all pages; after half as
    // long again the lookups have settled.
    let drive = devices::SSD_READ_BYTES_PER_SECOND as f64 / f64::from(PAGE_BYTES);
    let fill = pages as f64 / link_pages_per_second().min(drive * f64::from(ssds));
    Load {
        page_size: PAGE_BYTES,
        pages,
        frames_per_node: (pages / 2) as u32,
        compute_nodes: 2,
        workers: THREADS,
        depth,
        handlers: devices::HOST_CORES,
        message_handlers: None,
        ssds: ssds.into(),
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

/// Measurements of a system in a panel, by skew.
type Curve = grid::Curve<(System, Panel), f64, Seen>;

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let scale = run.scale;
    let skews = scale.pick(SKEWS_QUICK, SKEWS);
    let panels = scale.pick(PANELS_QUICK, PANELS);
    let rows = panels.iter().flat_map(|&panel| {
        let lookups = match panel.depth {
            1 => "one lookup per thread".into(),
            depth => format!("{depth} lookups per thread"),
        };
        let drives = if panel.ssds == 1 { ", one SSD" } else { "" };
        SYSTEMS.map(|(system, name)| {
            (
                format!("{lookups}{drives} | {name}"),
                (system, panel),
                skews,
            )
        })
    });
    let curves = Grid::of_rows(rows).measure(run, |run, (system, panel), skew| {
        measure(run, &load(scale, panel), system, skew)
    })?;
    Ok(measured(&curves, &load(scale, panels[0])))
}

fn measure(run: &mut Run<'_>, load: &Load, system: System, skew: f64) -> Result<Seen> {
    let sizes = (load.pages, u64::from(load.frames_per_node));
    let traffic = Traffic::new(sizes, skew, load.workers.into(), run.seed);
    let traffic = traffic.map_err(ExperimentError::Run)?;
    match system {
        System::Whole => store::run_pages(run, load, &traffic, (load.pages, None)),
        System::Leased => {
            let lease_after = Some(LEASE_AFTER);
            store::run_pages(run, load, &traffic, (load.pages, lease_after))
        }
        System::Part => store::run_pages(run, load, &traffic, (indexed(load.pages), None)),
        System::Software => {
            let load = Load {
                depth: 1,
                message_handlers: Some(MESSAGE_HANDLERS),
                ..load.clone()
            };
            run_software(run, &load, &traffic)
        }
        System::Idealised => run_software(run, load, &traffic),
    }
}

fn run_software(run: &mut Run<'_>, load: &Load, traffic: &Traffic) -> Result<Seen> {
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

fn measured(curves: &[Curve], load: &Load) -> Measured {
    let (mut ours, mut points) = (Vec::new(), Vec::new());
    for of_depth in curves.chunks(SYSTEMS.len()) {
        let (systems, baselines) = of_depth.split_at(SYSTEMS.len() - BASELINES);
        for (at, curve) in of_depth.iter().enumerate() {
            let rate = |curve: &Curve, skew| curve.value(skew, |seen| seen.per_second);
            let gain = |baseline: usize, skew| rate(curve, skew) / rate(&baselines[baseline], skew);
            let (panel, name) = panel_and_name(&curve.name);
            if at < systems.len() {
                ours.push(values! {
                    panel, name,
                    uniform: gain(0, 0.0),
                    skewed: gain(0, 1.1),
                    more_skewed: gain(0, 1.3),
                    ideal_uniform: gain(1, 0.0),
                    ideal_skewed: gain(1, 1.1),
                    ideal_more_skewed: gain(1, 1.3),
                });
            }
            let noted = curve.points.iter();
            let noted = noted.filter(|(skew, _)| [0.0, 1.1, 1.3].contains(skew));
            points.extend(noted.map(|(skew, seen)| seen.values(panel, name, *skew)));
        }
    }
    let values = values! {
        ours, points,
        pages: load.pages,
        frames: load.frames_per_node,
        nodes: load.compute_nodes,
        part: PAPER_PAGES / load.pages,
        indexed: indexed(load.pages),
        record: store::RECORD_BYTES,
        threads: load.workers,
        lease_after: LEASE_AFTER,
        message_handlers: MESSAGE_HANDLERS,
        cores: devices::HOST_CORES,
        work_ns: load.work.as_nanos(),
    };
    let series = grid::series(curves, |skew| skew, |seen| seen.per_second / 1e6);
    Measured::new(series, values)
}

impl Seen {
    fn values(&self, panel: &str, name: &str, skew: f64) -> Values {
        values! {
            panel, name, skew,
            millions: self.per_second / 1e6,
            local: self.local * 100.0,
            remote: self.remote * 100.0,
            storage: self.storage * 100.0,
            busy: self.per_second * self.storage / link_pages_per_second() * 100.0,
            drops: self.drops,
        }
    }
}
