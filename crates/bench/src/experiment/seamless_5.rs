//! Figure 5 of Seamless: the benefit of routing in the switch for the throughput of remote reads,
//! as the data outgrows the switch's page table.
//!
//! The paper does not say how many reads a thread had in flight here, and the gain depends mostly
//! on that: a page of 64 KiB occupies a link for longer than a round trip takes, so that a few
//! concurrent reads hide the round trip. So the depth is also varied.

#[cfg(test)]
mod tests;

use super::seamless_4::rack::{Load, PageRack, Seen, Shape};
use super::seamless_4::testbed::{PAGE_BYTES, THREADS, link_pages_per_second};
use super::seamless_4::worker::Want;
use crate::harness::prelude::*;
use rackweave_controller::transfers_at_a_time;

/// Capacity in entries of the paper's switch. Source: seamless, section 3.
const PAPER_CAPACITY: u32 = 280_000;

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

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
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
    Ok(measured(&curves, &plan))
}

fn measure(
    run: &mut Run<'_>,
    plan: &SweepPlan,
    fallback: Fallback,
    (size, indexed): (f64, bool),
) -> Result<Vec<Seen>> {
    let held = (f64::from(plan.capacity) * size) as u32;
    let indexed = u64::from(indexed) * u64::from(plan.capacity.min(held));
    let looks = fallback == Fallback::Looked;
    let most = plan.depths.iter().max();
    let deepest = most.map_or(1, |most| most.div_ceil(THREADS.into()));
    let shape = Shape {
        depth: deepest as u16,
        held,
        cold: 0,
        // With separate lookups the switch has all entries; the lookups model that it has only
        // those of the first pages.
        indexed: if looks { held.into() } else { indexed },
        capacity: held.max(plan.capacity),
        looks_from: looks.then_some(indexed),
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

    fn values(&self) -> Option<Values> {
        let (kind, depth) = panel_and_name(&self.name);
        let (without, whole) = (&self.without, self.whole()?);
        Some(values! {
            kind, depth,
            without: without.per_second,
            without_busy: without.link_busy * 100.0,
            without_us: without.p50_us,
            whole: whole.per_second,
            whole_busy: whole.link_busy * 100.0,
            whole_us: whole.p50_us,
        })
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

fn measured(curves: &[Curve], plan: &SweepPlan) -> Measured {
    let drawn = curves.iter().map(|curve| {
        let points = curve.with.iter();
        let points = points.map(|(size, seen)| (*size, curve.gain(seen)));
        Series::new(&curve.name, points)
    });
    let looked = curves
        .iter()
        .filter(|curve| curve.fallback == Fallback::Looked);
    let gains = looked.clone().map(|curve| {
        let depth = panel_and_name(&curve.name).1;
        values! { depth, gain: curve.whole_gain() }
    });
    let degraded = looked.take(1).filter_map(|curve| {
        let (size, last) = curve.with.last()?;
        // In time per read: each page that is not indexed costs one more lookup.
        let left = (1.0 - 1.0 / curve.gain(last)) / (1.0 - 1.0 / curve.whole_gain());
        let depth = panel_and_name(&curve.name).1;
        Some(values! { depth, left, size: *size, ideal: 1.0 / size })
    });
    let values = values! {
        looked: gains.collect::<Vec<Values>>(),
        degraded: degraded.collect::<Vec<Values>>(),
        capacity: plan.capacity,
        part: PAPER_CAPACITY / plan.capacity,
        paper_capacity: PAPER_CAPACITY,
        threads: THREADS,
        lanes: transfers_at_a_time(PAGE_BYTES),
        link: link_pages_per_second(),
        curves: curves.iter().filter_map(Curve::values).collect::<Vec<Values>>(),
    };
    Measured::new(drawn.collect(), values)
}
