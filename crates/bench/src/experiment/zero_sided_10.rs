//! Figure 10 of zero-sided RDMA: half the time of a round trip over the rate of items, where the
//! switch polls the rings and where doorbells tell it.

use super::meter::{Span, Sweep};
use super::ping_pong::{self, BELL_GAP, Course, Outcome, RING_BYTES, Signal};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-10",
    about: "ping-pong: latency over the rate of items, with polls and with doorbells",
    run,
};

/// The median with doorbells. Source: section 7.1 of the paper, figure 10.
const DOORBELL_US: f64 = 15.0;

const SIZES: [(u32, &str); 2] = [(64, "64 B items"), (1024, "1 KiB items")];

/// Microseconds between polls; zero stands for doorbells.
const INTERVALS: [u64; 5] = [0, 10, 50, 100, 200];

/// Items per second, 64 B and 1 KiB. The last is more than the link or the cores can do.
const RATES: [&[f64]; 2] = [
    &[1e4, 1e5, 1e6, 3e6, 10e6, 20e6, 27e6, 35e6, 50e6],
    &[1e4, 1e5, 1e6, 3e6, 6e6, 8e6, 9e6, 10e6, 12e6],
];

const RATES_QUICK: [&[f64]; 2] = [&[1e5, 1e6, 27e6], &[1e5, 1e6, 9e6]];

/// Achieved over asked for, from which on a rate counts as held.
const HELD: f64 = 0.99;

/// A median counts as stable up to this multiple of the one at the lowest rate.
const STABLE: f64 = 1.5;

/// One run of the sweep.
struct Point {
    size: usize,
    micros: u64,
    asked: f64,
    outcome: Outcome,
}

impl Point {
    fn held(&self) -> bool {
        self.outcome.items_per_second >= HELD * self.asked
    }

    fn median(&self) -> f64 {
        self.outcome.quantile(0.5)
    }

    /// Where it is drawn: at the rate asked for, or where it ended up instead.
    fn x(&self) -> f64 {
        if self.held() {
            self.asked
        } else {
            self.outcome.items_per_second
        }
    }
}

fn span(scale: Scale, micros: u64, rate: f64) -> Span {
    let (polls, items, least) = match scale {
        Scale::Quick => (12, 60.0, Duration::from_millis(1)),
        Scale::Full | Scale::Paper => (30, 300.0, Duration::from_millis(4)),
    };
    let items = Duration::from_nanos((items / rate * 1e9) as u64);
    Span {
        warm_up: Duration::from_micros(5 * micros).max(Duration::from_millis(1)),
        counted: Duration::from_micros(polls * micros).max(least).max(items),
    }
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let (seed, scale) = (run.seed, run.scale);
    let rates = match scale {
        Scale::Quick => RATES_QUICK,
        Scale::Full | Scale::Paper => RATES,
    };
    let runs = INTERVALS.len() * rates.iter().map(|rates| rates.len()).sum::<usize>();
    let mut sweep = Sweep::new(run, runs);
    let mut points = Vec::new();
    for (size, (item_size, panel)) in SIZES.into_iter().enumerate() {
        for micros in INTERVALS {
            for &asked in rates[size] {
                let signal = match micros {
                    0 => Signal::Doorbells,
                    micros => Signal::Polls(Duration::from_micros(micros)),
                };
                let course = Course {
                    item_size,
                    items_per_second: asked,
                    signal,
                };
                let outcome = ping_pong::run(&mut sweep, course, span(scale, micros, asked))
                    .map_err(|error| {
                        error.with(format!("{panel}, {}, {asked} items/s", name(micros)))
                    })?;
                points.push(Point {
                    size,
                    micros,
                    asked,
                    outcome,
                });
            }
        }
    }
    Ok(figure(&points, seed))
}

fn name(micros: u64) -> String {
    match micros {
        0 => "doorbells".into(),
        micros => format!("polled every {micros} us"),
    }
}

/// The points of one curve.
fn curve(points: &[Point], size: usize, micros: u64) -> Vec<&Point> {
    let of_curve = |point: &&Point| point.size == size && point.micros == micros;
    points.iter().filter(of_curve).collect()
}

/// The highest rate of a curve that was held with a median that is still stable.
fn scales_to(curve: &[&Point]) -> f64 {
    let Some(first) = curve.first() else {
        return f64::NAN;
    };
    let stable = |point: &&&Point| point.held() && point.median() <= STABLE * first.median();
    curve
        .iter()
        .take_while(stable)
        .last()
        .map_or(f64::NAN, |point| point.asked)
}

fn figure(points: &[Point], seed: u64) -> Figure {
    let mut series = Vec::new();
    for (size, (_, panel)) in SIZES.into_iter().enumerate() {
        for micros in INTERVALS {
            let points = curve(points, size, micros);
            series.push(Series {
                name: format!("{panel} | {}", name(micros)),
                points: points
                    .iter()
                    .map(|point| (point.x(), point.median()))
                    .collect(),
            });
        }
    }
    let lowest = curve(points, 0, INTERVALS[0]);
    let lowest = lowest.first().map_or(f64::NAN, |point| point.x());
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Ping-pong between CPU nodes: median one-way latency".into(),
        x: Axis::log("throughput", "items/s"),
        y: Axis::log("half a round trip, median", "us"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: vec![PaperMark::point_in("64 B items", (lowest, DOORBELL_US))],
        x_names: Vec::new(),
        series,
        claims: claims(points),
        notes: notes(points),
        seed,
    }
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let claim = |what: &str, paper: f64, ours: f64, unit: &str| Claim {
        what: what.into(),
        source: "section 7.1, figure 10".into(),
        paper,
        ours,
        unit: unit.into(),
    };
    let slowest = |size, micros| {
        curve(points, size, micros)
            .first()
            .map_or(f64::NAN, |p| p.median())
    };
    let polled = |size| {
        let best = INTERVALS.map(|micros| scales_to(&curve(points, size, micros)));
        best.into_iter().fold(f64::NAN, f64::max) / 1e6
    };
    let mut claims = vec![
        claim(
            "doorbells: median latency, 64 B, lowest rate",
            DOORBELL_US,
            slowest(0, 0),
            "us",
        ),
        claim(
            "64 B items: highest rate with a stable median, best of all modes",
            27.0,
            polled(0),
            "M items/s",
        ),
        claim(
            "1 KiB items: highest rate with a stable median, best of all modes",
            10.0,
            polled(1),
            "M items/s",
        ),
    ];
    for micros in &INTERVALS[1..] {
        claims.push(claim(
            &format!(
                "polls: the median is slightly less than the interval, 64 B, {micros} us: median \
                 over interval"
            ),
            1.0,
            slowest(0, *micros) / *micros as f64,
            "",
        ));
    }
    claims
}

fn notes(points: &[Point]) -> Vec<String> {
    let limits = SIZES.iter().enumerate().map(|(size, (_, panel))| {
        let of_mode = INTERVALS.map(|micros| {
            let curve = curve(points, size, micros);
            let most = curve
                .iter()
                .map(|point| point.outcome.items_per_second)
                .fold(0.0, f64::max);
            format!(
                "{} stable to {:.3} M/s, at most {:.1} M/s",
                name(micros),
                scales_to(&curve) / 1e6,
                most / 1e6
            )
        });
        format!("{panel}: {}.", of_mode.join("; "))
    });
    let mut notes: Vec<String> = limits.collect();
    notes.push(format!(
        "Stable: within {STABLE} times the median at the lowest rate, {HELD} of the rate held. \
         A rate that was not held is drawn where it ended up. The paper's medians are described in \
         words; its 1 stands for \"slightly less than the polling interval\"."
    ));
    notes.push(format!(
        "A doorbell is rung for what was committed, at most once in {} us for each ring; a \
         consumer rings after each quarter of its ring. The switch polls such rings every 200 us \
         besides.",
        BELL_GAP.as_nanos() / 1000
    ));
    notes.push(format!(
        "Rings of {} MiB, which all fit the last level cache of a node: reading and writing items \
         costs a core its lines in flight per latency of that cache. Items are due evenly but for \
         as much as an interval at random, so that they do not keep step with the polls. An item \
         that is due while the ring is full counts from when there is room.",
        RING_BYTES >> 20
    ));
    notes.push(
        "One core sends, one takes what comes back, one of the other node takes and sends back."
            .into(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(asked: f64, achieved: f64, median: f64) -> Point {
        Point {
            size: 0,
            micros: 10,
            asked,
            outcome: Outcome {
                items_per_second: achieved,
                latencies_us: vec![median],
            },
        }
    }

    #[test]
    fn a_curve_scales_up_to_where_rate_or_median_go_wrong() {
        let points = [
            point(1e6, 1e6, 8.0),
            point(2e6, 1.995e6, 11.9),
            point(3e6, 2.5e6, 11.9),
        ];
        let curve: Vec<&Point> = points.iter().collect();
        assert_eq!(scales_to(&curve), 2e6);
        assert_eq!(points[2].x(), 2.5e6);
        assert_eq!(points[1].x(), 2e6);
        let late = [point(1e6, 1e6, 8.0), point(2e6, 2e6, 12.1)];
        assert_eq!(scales_to(&late.iter().collect::<Vec<_>>()), 1e6);
        assert!(scales_to(&[]).is_nan());
    }
}
