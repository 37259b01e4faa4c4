//! Figure 10 of zero-sided RDMA: half the round trip time by the rate of items, where the switch
//! polls the rings and where doorbells notify it.

use super::ping_pong::{self, BELL_GAP, Outcome, RING_BYTES, Signal};
use crate::figure::{Axis, Figure, PaperMark, Series, claim};
use crate::harness::grid::{Curve, Grid};
use crate::harness::tally::Span;
use crate::harness::{Result, Run, Scale};
use rackweave_base::Duration;

/// The median with doorbells. Source: section 7.1 of the paper, figure 10.
const DOORBELL_US: f64 = 15.0;

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

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
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
    Ok(figure(&curves))
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

fn figure(curves: &[Course]) -> Figure {
    let mut figure = Figure::lines("Ping-pong between CPU nodes: median one-way latency")
        .of("section 7.1, figure 10")
        .x(Axis::log("throughput", "items/s"))
        .y(Axis::log("half a round trip, median", "us"));
    let lowest = curves[0].points.first();
    let lowest = lowest.map_or(f64::NAN, |(asked, outcome)| drawn_at(*asked, outcome));
    figure.paper = vec![PaperMark::point_in("64 B items", (lowest, DOORBELL_US))];
    let drawn = curves.iter().map(|curve| {
        let points = curve.points.iter();
        let points = points.map(|(asked, seen)| (drawn_at(*asked, seen), median(seen)));
        Series::new(&curve.name, points)
    });
    figure.series = drawn.collect();
    claims(&mut figure, curves);
    for (curves, (_, panel)) in curves.chunks(INTERVALS.len()).zip(SIZES) {
        let of_mode = curves.iter().map(|curve| {
            format!(
                "{} stable to {:.3} M/s, at most {:.1} M/s",
                name(curve.of.0),
                scales_to(curve) / 1e6,
                curve.most(|outcome| outcome.items_per_second) / 1e6
            )
        });
        let of_mode: Vec<String> = of_mode.collect();
        figure.note(format!("{panel}: {}.", of_mode.join("; ")));
    }
    figure.note(format!(
        "Stable: within {STABLE} times the median at the lowest rate, {HELD} of the rate held. \
         A rate that was not held is drawn where it ended up. The paper's medians are described in \
         words; its 1 stands for \"slightly less than the polling interval\"."
    ));
    figure.note(format!(
        "A doorbell is rung for what was committed, at most once in {} us for each ring; a \
         consumer rings after each quarter of its ring. The switch polls such rings every 200 us \
         besides.",
        BELL_GAP.as_nanos() / 1000
    ));
    figure.note(format!(
        "Rings of {} MiB, which all fit the last level cache of a node: reading and writing items \
         costs a core its lines in flight per latency of that cache. Items are due evenly but for \
         as much as an interval at random, so that they do not keep step with the polls. An item \
         that is due while the ring is full counts from when there is room.",
        RING_BYTES >> 20
    ));
    figure.note(
        "One core sends, one takes what comes back, one of the other node takes and sends back.",
    );
    figure
}

fn claims(figure: &mut Figure, curves: &[Course]) {
    let slowest = |curve: &Course| curve.values(median).next().unwrap_or(f64::NAN);
    let best = |size: usize| {
        let of_size = curves.iter().filter(|curve| curve.of.1 == size);
        of_size.map(scales_to).fold(f64::NAN, f64::max) / 1e6
    };
    figure.claims([
        claim("doorbells: median latency, 64 B, lowest rate")
            .values([DOORBELL_US, slowest(&curves[0])], "us"),
        claim("64 B items: highest rate with a stable median, best of all modes")
            .values([27.0, best(0)], "M items/s"),
        claim("1 KiB items: highest rate with a stable median, best of all modes")
            .values([10.0, best(1)], "M items/s"),
    ]);
    for (micros, curve) in INTERVALS.into_iter().zip(curves).skip(1) {
        let what = format!(
            "polls: the median is slightly less than the interval, 64 B, {micros} us: median over \
             interval"
        );
        figure.claims([claim(what).values([1.0, slowest(curve) / micros as f64], "")]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64, f64)]) -> Course {
        let outcome = |achieved, median: f64| Outcome {
            items_per_second: achieved,
            round_trips_ns: vec![(median * 2e3).round() as u64],
        };
        let points = points.iter();
        Course {
            name: String::new(),
            of: (10, 0),
            points: points
                .map(|&(asked, achieved, median)| (asked, outcome(achieved, median)))
                .collect(),
        }
    }

    #[test]
    fn a_curve_scales_up_to_where_rate_or_median_go_wrong() {
        let steps = curve(&[(1e6, 1e6, 8.0), (2e6, 1.995e6, 11.9), (3e6, 2.5e6, 11.9)]);
        assert_eq!(scales_to(&steps), 2e6);
        let at = |point: &(f64, Outcome)| drawn_at(point.0, &point.1);
        assert_eq!(at(&steps.points[2]), 2.5e6);
        assert_eq!(at(&steps.points[1]), 2e6);
        let late = curve(&[(1e6, 1e6, 8.0), (2e6, 2e6, 12.1)]);
        assert_eq!(scales_to(&late), 1e6);
        assert!(scales_to(&curve(&[])).is_nan());
    }
}
