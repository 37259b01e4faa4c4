//! A sweep of message sizes: does the bandwidth dip anywhere?
//!
//! All sizes are measured in turn, round after round, and the best round of each counts: what is
//! only a disturbance goes away by that, a dip does not.

use super::bulk::{Bulk, Send, Take};
use super::rig::Rig;
use super::source::{Places, SOURCE_BYTES, Source};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The smallest size; each is twice the one before, up to all there is to send.
const SIZE_MIN: usize = 64 << 10;

/// Rounds that a run of the whole span has, about.
const ROUNDS: u32 = 5;

/// A size's bandwidth.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    pub message_bytes: usize,
    /// Of the best round.
    pub gigabytes_per_s: f64,
    /// Of the middle one.
    pub median_gigabytes_per_s: f64,
    /// Which share it lacks of the best size before it; negative if it is better.
    pub below_best_before: f64,
    /// Which share it lacks of the worse of its neighbours; negative if it is better, null if it
    /// has one only.
    pub below_neighbours: Option<f64>,
}

/// A size that lacks something.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Dip {
    pub message_bytes: usize,
    /// Which share it lacks.
    pub depth: f64,
}

/// What one way of sending comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub points: Vec<Point>,
    /// The deepest below the best size before it; null if there is none.
    pub deepest_below_best_before: Option<Dip>,
    /// The deepest below both of its neighbours; null if there is none.
    pub deepest_below_neighbours: Option<Dip>,
}

/// What the sweep found.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    pub rounds: usize,
    /// One message behind the other.
    pub streamed: Curve,
    /// A message waits until the one before is consumed.
    pub alone: Curve,
}

/// Sweeps for the span, one round at least. Nothing if the user stops it before; and whether
/// everything came as it was sent.
pub fn run(
    rig: &mut Rig<'_>,
    source: &Source,
    span: Duration,
    interrupt: &Interrupt,
    done: &mut dyn FnMut(f64),
) -> Result<(Option<Sweep>, bool), CliError> {
    let sizes = sizes();
    let empty = || vec![Vec::new(); sizes.len()];
    let (mut streamed, mut alone) = (empty(), empty());
    let slice = span / (ROUNDS * 2 * sizes.len() as u32);
    let (started, mut rounds, mut sound) = (Instant::now(), 0, true);
    'rounds: while rounds == 0 || started.elapsed() < span {
        for (at, &size) in sizes.iter().enumerate() {
            for (is_alone, samples) in [(false, &mut streamed), (true, &mut alone)] {
                if interrupt.is_set() {
                    break 'rounds;
                }
                let bulk = Bulk {
                    places: Places::new(source, size),
                    send: Send::Copied,
                    take: Take::InPlace,
                    alone: is_alone,
                    span: slice,
                };
                let moved = bulk.run(rig, source, interrupt)?;
                sound &= moved.sound;
                samples[at].push(moved.gigabytes_per_s());
            }
            done(started.elapsed().as_secs_f64() / span.as_secs_f64());
        }
        rounds += 1;
    }
    let sweep = (rounds > 0).then(|| Sweep {
        rounds,
        streamed: Curve::new(&sizes, &streamed),
        alone: Curve::new(&sizes, &alone),
    });
    Ok((sweep, sound))
}

fn sizes() -> Vec<usize> {
    let sizes = std::iter::successors(Some(SIZE_MIN), |size| Some(2 * size));
    sizes.take_while(|&size| size <= SOURCE_BYTES).collect()
}

impl Curve {
    /// What the samples of these sizes come to; each has one at least.
    fn new(sizes: &[usize], samples: &[Vec<f64>]) -> Self {
        let sorted = samples.iter().map(|samples| {
            let mut samples = samples.clone();
            samples.sort_by(f64::total_cmp);
            samples
        });
        let rates: Vec<(f64, f64)> = sorted
            .map(|samples| (samples[samples.len() - 1], samples[samples.len() / 2]))
            .collect();
        let best = |at: usize| rates[at].0;
        let below = |at: usize, yardstick: f64| 1.0 - best(at) / yardstick;
        let points = (0..sizes.len()).map(|at| {
            let before = (0..at).map(best).reduce(f64::max);
            let has_both = at > 0 && at + 1 < sizes.len();
            let worse = has_both.then(|| best(at - 1).min(best(at + 1)));
            Point {
                message_bytes: sizes[at],
                gigabytes_per_s: best(at),
                median_gigabytes_per_s: rates[at].1,
                below_best_before: before.map_or(0.0, |before| below(at, before)),
                below_neighbours: worse.map(|worse| below(at, worse)),
            }
        });
        let points: Vec<Point> = points.collect();
        Self {
            deepest_below_best_before: deepest(&points, |point| Some(point.below_best_before)),
            deepest_below_neighbours: deepest(&points, |point| point.below_neighbours),
            points,
        }
    }
}

fn deepest(points: &[Point], depth: impl Fn(&Point) -> Option<f64>) -> Option<Dip> {
    let dips = points.iter().filter_map(|point| {
        Some(Dip {
            message_bytes: point.message_bytes,
            depth: depth(point)?,
        })
    });
    let deepest = dips.max_by(|one, other| one.depth.total_cmp(&other.depth));
    deepest.filter(|dip| dip.depth > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_asked() {
        let sizes = sizes();
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (64 << 10, 64 << 20));
        assert_eq!(sizes.len(), 11);
    }

    #[test]
    fn dips_are_found_by_the_best_of_all_rounds() {
        let samples = [[1.0, 2.0], [4.0, 1.0], [3.0, 3.0], [1.0, 3.6], [3.8, 0.1]];
        let curve = Curve::new(&[1, 2, 3, 4, 5], &samples.map(Vec::from));
        let best: Vec<_> = curve
            .points
            .iter()
            .map(|point| point.gigabytes_per_s)
            .collect();
        assert_eq!(best, [2.0, 4.0, 3.0, 3.6, 3.8]);
        let below: Vec<_> = curve
            .points
            .iter()
            .map(|point| point.below_best_before)
            .collect();
        assert_eq!(below[..3], [0.0, -1.0, 0.25]);
        assert_eq!(
            curve.deepest_below_best_before,
            Some(Dip {
                message_bytes: 3,
                depth: 0.25
            })
        );
        let dip = curve.deepest_below_neighbours.expect("the third is one");
        assert_eq!((dip.message_bytes, dip.depth), (3, 1.0 - 3.0 / 3.6));
        let ends = [0, 4].map(|at: usize| curve.points[at].below_neighbours);
        assert_eq!(ends, [None, None]);
    }

    #[test]
    fn what_only_rises_has_no_dip_below_what_was_before() {
        let curve = Curve::new(&[1, 2, 3], &[vec![1.0], vec![2.0], vec![3.0]]);
        assert_eq!(curve.deepest_below_best_before, None);
        assert_eq!(curve.deepest_below_neighbours, None);
    }
}
