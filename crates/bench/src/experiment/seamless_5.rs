//! Figure 5 of Seamless: what routing in the switch is worth to the throughput of remote reads, as
//! the data outgrows the switch's page table.
//!
//! The paper does not say how many reads a thread had under way here, and the gain depends on
//! little else: a page of 64 KiB keeps a link busy for longer than a round trip takes, so that a
//! few reads at a time hide it. So the depth is swept, too.

#[cfg(test)]
mod tests;

use super::seamless_4::models::link_pages_per_second;
use super::seamless_4::rack::{Load, PageRack, Seen, Shape};
use super::seamless_4::testbed::THREADS;
use super::seamless_4::worker::Want;
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "seamless-5",
    about: "remote reads: speed-up by routing in the switch over the size of the data",
    run,
};

/// Entries that the paper's switch has room for. Source: seamless, section 3.
const PAPER_CAPACITY: u32 = 280_000;

/// The gain that the paper has for data that the switch indexes whole. Source: section 3, figure 5.
const PAPER_GAIN: f64 = 1.12;

/// Who looks a page up that the switch does not index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fallback {
    /// One READ of the entry, then the same request: the paper's description.
    Looked,
    /// This project's protocol.
    Ours,
}

const FALLBACKS: [(Fallback, &str); 2] = [
    (Fallback::Looked, "fallback: one look, as in the paper"),
    (Fallback::Ours, "fallback: ours"),
];

/// Reads under way at a time, of all threads together.
const DEPTHS: &[usize] = &[1, 2, 3, 4, 8, THREADS as usize, 128 * THREADS as usize];
const DEPTHS_QUICK: &[usize] = &[1, 2, 4, THREADS as usize];

/// Sizes of the data, in capacities of the switch.
const SIZES: &[f64] = &[0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0];
const SIZES_FULL: &[f64] = &[0.25, 0.5, 1.0, 1.5, 2.0, 4.0];
const SIZES_QUICK: &[f64] = &[0.5, 1.0, 2.0, 4.0];

struct Plan {
    capacity: u32,
    sizes: &'static [f64],
    depths: &'static [usize],
    /// Pages that pass a full link in the time that is counted.
    counted: f64,
}

/// What was seen of one fallback at one depth.
struct Curve {
    fallback: Fallback,
    depth: usize,
    /// With nothing in the switch.
    without: Seen,
    /// By size of the data, in capacities.
    with: Vec<(f64, Seen)>,
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let plan = match run.scale {
        Scale::Quick => Plan {
            capacity: PAPER_CAPACITY / 700,
            sizes: SIZES_QUICK,
            depths: DEPTHS_QUICK,
            counted: 600.0,
        },
        Scale::Full => Plan {
            capacity: PAPER_CAPACITY / 200,
            sizes: SIZES_FULL,
            depths: DEPTHS,
            counted: 2_000.0,
        },
        Scale::Paper => Plan {
            capacity: PAPER_CAPACITY / 100,
            sizes: SIZES,
            depths: DEPTHS,
            counted: 6_000.0,
        },
    };
    let total = (FALLBACKS.len() * (plan.sizes.len() + 1)) as f64;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for (fallback, name) in FALLBACKS {
        // Where nothing is indexed, the size of the data does not matter.
        let first = plan.sizes[0];
        let mut measured = |size: f64, indexed: bool| {
            let share = done / total;
            done += 1.0;
            measure(run, share, &plan, fallback, (size, indexed))
                .map_err(|error| error.with(format!("{name}, {size} of the capacity")))
        };
        let without = measured(first, false)?;
        let mut with = Vec::new();
        for &size in plan.sizes {
            with.push((size, measured(size, true)?));
        }
        let of_depth = |at: usize| {
            let with = with.iter().map(|(size, seen)| (*size, seen[at].clone()));
            with.collect()
        };
        for (at, (&depth, without)) in plan.depths.iter().zip(without).enumerate() {
            curves.push(Curve {
                fallback,
                depth,
                without,
                with: of_depth(at),
            });
        }
    }
    Ok(figure(&curves, &plan, run.seed))
}

/// All depths with data of this size.
fn measure(
    run: &mut Run<'_>,
    share: f64,
    plan: &Plan,
    fallback: Fallback,
    (size, indexed): (f64, bool),
) -> Result<Vec<Seen>, ExperimentError> {
    let held = (f64::from(plan.capacity) * size) as u32;
    let indexed = if indexed {
        u64::from(plan.capacity.min(held))
    } else {
        0
    };
    let deepest = plan
        .depths
        .iter()
        .max()
        .map_or(1, |most| most.div_ceil(THREADS.into()));
    let shape = Shape {
        depth: deepest as u16,
        held,
        cold: 0,
        // With looks the switch has all entries; that it had those of the first pages only is in
        // the looks.
        indexed: if fallback == Fallback::Looked {
            held.into()
        } else {
            indexed
        },
        capacity: held.max(plan.capacity),
        looks_from: (fallback == Fallback::Looked).then_some(indexed),
    };
    let mut rack = PageRack::new(run, share, shape)?;
    let counted = Duration::from_nanos((plan.counted / link_pages_per_second() * 1e9) as u64);
    let depths = plan.depths.iter();
    depths
        .map(|&depth| rack.measure(run, share, (Want::Memory, Load::Closed(depth)), counted))
        .collect()
}

impl Curve {
    fn gain(&self, seen: &Seen) -> f64 {
        seen.per_second / self.without.per_second
    }

    /// The gain of the largest data that the switch indexes whole.
    fn whole(&self) -> f64 {
        let whole = self.with.iter().rev().find(|(size, _)| *size <= 1.0);
        whole.map_or(f64::NAN, |(_, seen)| self.gain(seen))
    }

    fn last(&self) -> f64 {
        self.with
            .last()
            .map_or(f64::NAN, |(_, seen)| self.gain(seen))
    }

    fn depth_name(&self) -> String {
        let threads = usize::from(THREADS);
        match self.depth {
            1 => "1 read at a time".into(),
            depth if depth % threads == 0 => format!("{threads} threads x {}", depth / threads),
            depth => format!("{depth} reads at a time"),
        }
    }
}

fn figure(curves: &[Curve], plan: &Plan, seed: u64) -> Figure {
    let name = |fallback| {
        let found = FALLBACKS.iter().find(|(one, _)| *one == fallback);
        found.map_or("", |found| found.1)
    };
    let series = curves.iter().map(|curve| Series {
        name: format!("{} | {}", name(curve.fallback), curve.depth_name()),
        points: curve
            .with
            .iter()
            .map(|(size, seen)| (*size, curve.gain(seen)))
            .collect(),
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Speed-up of uniform 64 KiB remote reads by routing in the switch".into(),
        x: Axis::linear("data over what the switch indexes", ""),
        y: Axis::linear("speed-up over the fallback", ""),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: vec![PaperMark::level(PAPER_GAIN)],
        x_names: Vec::new(),
        series: series.collect(),
        claims: claims(curves),
        notes: notes(curves, plan),
        seed,
    }
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let source = "section 3, figure 5";
    let mut claims: Vec<Claim> = curves
        .iter()
        .filter(|curve| curve.fallback == Fallback::Looked)
        .map(|curve| Claim {
            what: format!(
                "throughput with routing in the switch over that of the fallback, all pages \
                 indexed: {} (the paper's depth is not told)",
                curve.depth_name()
            ),
            source: source.into(),
            paper: PAPER_GAIN,
            ours: curve.whole(),
            unit: "x".into(),
        })
        .collect();
    let first = curves
        .iter()
        .find(|curve| curve.fallback == Fallback::Looked);
    if let Some(curve) = first {
        let size = curve.with.last().map_or(1.0, |last| last.0);
        claims.push(Claim {
            what: format!(
                "it degrades gracefully: share of the gain that is left where the data is {size} \
                 times what is indexed, {} (ideal: what is indexed over the data)",
                curve.depth_name()
            ),
            source: source.into(),
            // In the time per read, of which each page that is not indexed costs one look more.
            paper: 1.0 / size,
            ours: (1.0 - 1.0 / curve.last()) / (1.0 - 1.0 / curve.whole()),
            unit: String::new(),
        });
    }
    claims
}

fn notes(curves: &[Curve], plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        format!(
            "scale: the switch indexes {} pages of 64 KiB, a {}th of the paper's {PAPER_CAPACITY}; \
             reads are uniform, so that only the ratio of data to index matters",
            plan.capacity,
            PAPER_CAPACITY / plan.capacity
        ),
        format!(
            "closed loop: so many reads always under way, spread over {THREADS} threads of one \
             node; a full link carries {:.0} pages per second",
            link_pages_per_second()
        ),
        "where the link is full, routing changes nothing: the gain is in the round trip, which \
         other reads hide; the paper's +12 % is between one and a few reads at a time"
            .into(),
        "the largest depth is the paper's queue depth of 128 for each thread; of its reads 31 move \
         at a time (lanes of the switch to one source), the others ask again until one is free"
            .into(),
    ];
    for curve in curves {
        let whole = curve.with.iter().rev().find(|(size, _)| *size <= 1.0);
        let Some((_, whole)) = whole else { continue };
        let kind = FALLBACKS.iter().find(|(one, _)| *one == curve.fallback);
        notes.push(format!(
            "{}, {}: {:.0} reads per second in the fallback (wire busy {:.0} %, median {:.1} us), \
             {:.0} with all pages indexed (wire busy {:.0} %, median {:.1} us)",
            kind.map_or("", |kind| kind.1),
            curve.depth_name(),
            curve.without.per_second,
            curve.without.link_busy * 100.0,
            curve.without.p50_us,
            whole.per_second,
            whole.link_busy * 100.0,
            whole.p50_us
        ));
    }
    notes
}
