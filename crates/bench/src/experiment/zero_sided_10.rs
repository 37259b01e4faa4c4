//! Figure 10 of zero-sided RDMA: half the round trip time by the rate of items, where the switch
//! polls the rings and where doorbells notify it.

use super::ping_pong::{self, BELL_GAP, Outcome, RING_BYTES, Signal};
use crate::harness::prelude::*;

const SIZES: [(u32, &str); 2] = [(64, "64 B items"), (1024, "1 KiB items")];

/// Microseconds between polls; zero means doorbells.
const INTERVALS: [u64; 5] = [0, 10, 50, 100, 200];

/// Items per second, 64 B and 1 KiB. The last rate exceeds the link or the cores.
const RATES: [&[f64]; 2] = [
    &[1e4, 1e5, 1e6, 3e6, 10e6, 20e6, 27e6, 35e6, 50e6],
    &[1e4, 1e5, 1e6, 3e6, 6e6, 8e6, 9e6, 10e6, 12e6],
];

const RATES_QUICK: [&[f64]; 2] = [&[1e5, 1e6, 27e6], &[1e5, 1e6, 9e6]];

/// Minimum ratio of the achieved to the requested rate at which a rate counts as sustained.
const HELD: f64 = 0.99;

/// A median counts as stable up to this multiple of the one at the lowest rate.
const STABLE: f64 = 1.5;

/// Measurements at an interval in microseconds with items of one size (its index in [`SIZES`]), by
/// requested rate.
type Course = Curve<(u64, usize), f64, Outcome>;

fn is_held(asked: f64, outcome: &Outcome) -> bool {
    outcome.items_per_second >= HELD * asked
}

fn median(outcome: &Outcome) -> f64 {
    outcome.quantile(0.5)
}

/// The x of a point: the requested rate if it was sustained, otherwise the achieved rate.
fn drawn_at(asked: f64, outcome: &Outcome) -> f64 {
    match is_held(asked, outcome) {
        true => asked,
        false => outcome.items_per_second,
    }
}

fn span(scale: Scale, micros: u64, rate: f64) -> Span {
    let millis = Duration::from_millis;
    let (polls, items, least) = scale.pick((12, 60.0, millis(1)), (30, 300.0, millis(4)));
    let items = Duration::from_nanos((items / rate * 1e9) as u64);
    Span::new(
        Duration::from_micros(5 * micros).max(millis(1)),
        Duration::from_micros(polls * micros).max(least).max(items),
    )
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let rates = run.scale.pick(RATES_QUICK, RATES);
    let rows = SIZES
        .into_iter()
        .enumerate()
        .flat_map(|(size, (_, panel))| {
            INTERVALS.map(|micros| {
                let name = format!("{panel} | {}", name(micros));
                (name, (micros, size), rates[size])
            })
        });
    let curves = Grid::of_rows(rows).measure(run, |run, (micros, size), items_per_second| {
        let signal = match micros {
            0 => Signal::Doorbells,
            micros => Signal::Polls(Duration::from_micros(micros)),
        };
        let course = ping_pong::Course {
            item_size: SIZES[size].0,
            items_per_second,
            signal,
        };
        let span = span(run.scale, micros, items_per_second);
        ping_pong::run(run, course, span)
    })?;
    Ok(measured(&curves))
}

fn name(micros: u64) -> String {
    match micros {
        0 => "doorbells".into(),
        micros => format!("polled every {micros} us"),
    }
}

/// The highest sustained rate of a curve whose median is still stable.
fn scales_to(curve: &Course) -> f64 {
    let points = &curve.points;
    let stable = |(asked, outcome): &&(f64, Outcome)| {
        is_held(*asked, outcome) && median(outcome) <= STABLE * median(&points[0].1)
    };
    let last = points.iter().take_while(stable).last();
    last.map_or(f64::NAN, |point| point.0)
}

fn measured(curves: &[Course]) -> Measured {
    let lowest = curves[0].points.first();
    let lowest = lowest.map_or(f64::NAN, |(asked, outcome)| drawn_at(*asked, outcome));
    let drawn = curves.iter().map(|curve| {
        let points = curve.points.iter();
        let points = points.map(|(asked, seen)| (drawn_at(*asked, seen), median(seen)));
        Series::new(&curve.name, points)
    });
    let mode = |curve: &Course| {
        format!(
            "{} stable to {:.3} M/s, at most {:.1} M/s",
            name(curve.of.0),
            scales_to(curve) / 1e6,
            curve.most(|outcome| outcome.items_per_second) / 1e6
        )
    };
    let sizes = curves.chunks(INTERVALS.len()).zip(SIZES);
    let sizes = sizes.map(|(curves, (_, panel))| {
        let modes: Vec<String> = curves.iter().map(mode).collect();
        values! { panel, modes: modes.join("; ") }
    });
    let slowest = |curve: &Course| curve.values(median).next().unwrap_or(f64::NAN);
    let best = |size: usize| {
        let of_size = curves.iter().filter(|curve| curve.of.1 == size);
        of_size.map(scales_to).fold(f64::NAN, f64::max) / 1e6
    };
    let polls = INTERVALS.into_iter().zip(curves).skip(1);
    let polls = polls.map(|(micros, curve)| {
        values! { micros, over_interval: slowest(curve) / micros as f64 }
    });
    let values = values! {
        lowest,
        sizes: sizes.collect::<Vec<Values>>(),
        polls: polls.collect::<Vec<Values>>(),
        doorbells: slowest(&curves[0]),
        best_small: best(0),
        best_large: best(1),
        stable: STABLE,
        held: HELD,
        gap_us: BELL_GAP.as_nanos() / 1000,
        ring_mib: RING_BYTES >> 20,
    };
    Measured::new(drawn.collect(), values)
}

#[cfg(test)]
mod tests;
