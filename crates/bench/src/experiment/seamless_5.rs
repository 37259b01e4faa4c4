//! Figure 5 of Seamless: the benefit of routing in the switch for the throughput of remote reads,
//! as the data outgrows the switch's page table.
//!
//! The paper does not say how many reads a thread had in flight here, and the gain depends mostly
//! on that: a page of 64 KiB occupies a link for longer than a round trip takes, so that a few
//! concurrent reads hide the round trip. So the depth is also varied.

#[cfg(test)]
mod tests;

use super::seamless_4::models::link_pages_per_second;
use super::seamless_4::rack::{Load, PageRack, Seen, Shape};
use super::seamless_4::testbed::THREADS;
use super::seamless_4::worker::Want;
use crate::figure::{Axis, Figure, PaperMark, Series, claim, panel_and_name};
use crate::harness::grid::Grid;
use crate::harness::{Result, Run, Scale};
use rackweave_base::Duration;

/// Capacity in entries of the paper's switch. Source: seamless, section 3.
const PAPER_CAPACITY: u32 = 280_000;

/// The paper's gain for data that the switch indexes completely. Source: section 3, figure 5.
const PAPER_GAIN: f64 = 1.12;

/// The lookup of a page that the switch does not index.
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

/// Reads in flight, of all threads together.
const DEPTHS: &[usize] = &[1, 2, 3, 4, 8, THREADS as usize, 128 * THREADS as usize];
const DEPTHS_QUICK: &[usize] = &[1, 2, 4, THREADS as usize];

/// Sizes of the data, as multiples of the switch's capacity.
const SIZES: &[f64] = &[0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0];
const SIZES_FULL: &[f64] = &[0.25, 0.5, 1.0, 1.5, 2.0, 4.0];
const SIZES_QUICK: &[f64] = &[0.5, 1.0, 2.0, 4.0];

/// The parameters of a sweep.
#[derive(Clone, Copy)]
struct SweepPlan {
    capacity: u32,
    sizes: &'static [f64],
    depths: &'static [usize],
    /// Pages that a full link carries in the measured time.
    counted: f64,
}

/// The measurements of one fallback at one depth.
struct Curve {
    fallback: Fallback,
    /// The fallback and the depth.
    name: String,
    /// With nothing in the switch.
    without: Seen,
    /// By size of the data, as multiples of the switch's capacity.
    with: Vec<(f64, Seen)>,
}

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
    let plan = |part: u32, sizes, depths, counted| SweepPlan {
        capacity: PAPER_CAPACITY / part,
        sizes,
        depths,
        counted,
    };
    let plan = match run.scale {
        Scale::Quick => plan(700, SIZES_QUICK, DEPTHS_QUICK, 600.0),
        Scale::Full => plan(200, SIZES_FULL, DEPTHS, 2_000.0),
        Scale::Paper => plan(100, SIZES, DEPTHS, 6_000.0),
    };
    // If nothing is indexed, which is measured first, the size of the data does not matter.
    let with = plan.sizes.iter().map(|&size| (size, true));
    let sizes: Vec<(f64, bool)> = [(plan.sizes[0], false)].into_iter().chain(with).collect();
    let seen = Grid::new(&FALLBACKS, &sizes).measure(run, |run, fallback, (size, indexed)| {
        measure(run, &plan, fallback, (size, indexed))
    })?;
    let mut curves = Vec::new();
    for of_fallback in seen {
        for (at, &depth) in plan.depths.iter().enumerate() {
            let mut points = of_fallback
                .points
                .iter()
                .map(|((size, _), seen)| (*size, seen[at].clone()));
            let Some((_, without)) = points.next() else {
                continue;
            };
            curves.push(Curve {
                fallback: of_fallback.of,
                name: format!("{} | {}", of_fallback.name, depth_name(depth)),
                without,
                with: points.collect(),
            });
        }
    }
    Ok(figure(&curves, &plan))
}

/// Measures all depths with data of this size.
fn measure(
    run: &mut Run<'_>,
    plan: &SweepPlan,
    fallback: Fallback,
    (size, indexed): (f64, bool),
) -> Result<Vec<Seen>> {
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
        // With separate lookups the switch has all entries; the lookups model that it has only
        // those of the first pages.
        indexed: if fallback == Fallback::Looked {
            held.into()
        } else {
            indexed
        },
        capacity: held.max(plan.capacity),
        looks_from: (fallback == Fallback::Looked).then_some(indexed),
    };
    let mut rack = PageRack::new(run, shape)?;
    let counted = Duration::from_nanos((plan.counted / link_pages_per_second() * 1e9) as u64);
    let depths = plan.depths.iter().enumerate();
    let seen = depths.map(|(at, &depth)| {
        let part = &mut run.part(at, plan.depths.len());
        rack.measure(part, (Want::Memory, Load::Closed(depth)), counted)
    });
    seen.collect()
}

impl Curve {
    fn gain(&self, seen: &Seen) -> f64 {
        seen.per_second / self.without.per_second
    }

    /// The largest data that the switch indexes completely.
    fn whole(&self) -> Option<&Seen> {
        let whole = self.with.iter().rev().find(|(size, _)| *size <= 1.0);
        whole.map(|(_, seen)| seen)
    }

    /// The gain for that data.
    fn whole_gain(&self) -> f64 {
        self.whole().map_or(f64::NAN, |seen| self.gain(seen))
    }
}

fn depth_name(depth: usize) -> String {
    let threads = usize::from(THREADS);
    match depth {
        1 => "1 read at a time".into(),
        depth if depth % threads == 0 => format!("{threads} threads x {}", depth / threads),
        depth => format!("{depth} reads at a time"),
    }
}

fn figure(curves: &[Curve], plan: &SweepPlan) -> Figure {
    let mut figure =
        Figure::lines("Speed-up of uniform 64 KiB remote reads by routing in the switch")
            .of("section 3, figure 5")
            .x(Axis::linear("data over what the switch indexes", ""))
            .y(Axis::linear("speed-up over the fallback", ""));
    figure.paper = vec![PaperMark::level(PAPER_GAIN)];
    let drawn = curves.iter().map(|curve| {
        let points = curve.with.iter();
        let points = points.map(|(size, seen)| (*size, curve.gain(seen)));
        Series::new(&curve.name, points)
    });
    figure.series = drawn.collect();
    claims(&mut figure, curves);
    figure.notes = notes(curves, plan);
    figure
}

fn claims(figure: &mut Figure, curves: &[Curve]) {
    let looked = || {
        curves
            .iter()
            .filter(|curve| curve.fallback == Fallback::Looked)
    };
    for curve in looked() {
        let what = format!(
            "throughput with routing in the switch over that of the fallback, all pages indexed: \
             {} (the paper's depth is not told)",
            panel_and_name(&curve.name).1
        );
        figure.claims([claim(what).values([PAPER_GAIN, curve.whole_gain()], "x")]);
    }
    let Some((curve, (size, last))) = looked().find_map(|curve| Some((curve, curve.with.last()?)))
    else {
        return;
    };
    let what = format!(
        "it degrades gracefully: share of the gain that is left where the data is {size} times \
         what is indexed, {} (ideal: what is indexed over the data)",
        panel_and_name(&curve.name).1
    );
    // In time per read: each page that is not indexed costs one more lookup.
    let left = (1.0 - 1.0 / curve.gain(last)) / (1.0 - 1.0 / curve.whole_gain());
    figure.claims([claim(what).values([1.0 / size, left], "")]);
}

fn notes(curves: &[Curve], plan: &SweepPlan) -> Vec<String> {
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
        let Some(whole) = curve.whole() else { continue };
        let (kind, depth) = panel_and_name(&curve.name);
        notes.push(format!(
            "{kind}, {depth}: {:.0} reads per second in the fallback (wire busy {:.0} %, median {:.1} us), \
             {:.0} with all pages indexed (wire busy {:.0} %, median {:.1} us)",
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
