//! A sweep of message sizes: does the bandwidth dip anywhere?
//!
//! All sizes are measured in turn, round after round, and the best round of each counts: this
//! removes disturbances, but not dips.

use super::bulk::{Bulk, Send, Take};
use super::rig::Rig;
use super::source::SOURCE_BYTES;
use crate::outcome::CliError;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The smallest size; each is twice the preceding one, up to all available data.
const SIZE_MIN: usize = 64 << 10;

/// Approximate number of rounds in the whole span.
const ROUNDS: u32 = 5;

/// Sweeps for the span, at least one round: once with consecutive messages, once with each message
/// waiting until the preceding one is consumed. Null if the user stops it earlier; and whether
/// everything arrived unchanged.
pub fn run(
    rig: &mut Rig<'_>,
    span: Duration,
    mut done: impl FnMut(f64),
) -> Result<(Value, bool), CliError> {
    let sizes = sizes();
    let empty = || vec![Vec::new(); sizes.len()];
    let (mut streamed, mut alone) = (empty(), empty());
    let slice = span / (ROUNDS * 2 * sizes.len() as u32);
    let (started, mut rounds, mut sound) = (Instant::now(), 0, true);
    'rounds: while rounds == 0 || started.elapsed() < span {
        for (at, &size) in sizes.iter().enumerate() {
            for (is_alone, samples) in [(false, &mut streamed), (true, &mut alone)] {
                if rig.interrupt.is_set() {
                    break 'rounds;
                }
                let bulk = Bulk {
                    size,
                    send: Send::Copied,
                    take: Take::InPlace,
                    alone: is_alone,
                    span: slice,
                };
                let moved = bulk.run(rig)?;
                sound &= moved.sound;
                samples[at].push(moved.gigabytes_per_s());
            }
            done(started.elapsed().as_secs_f64() / span.as_secs_f64());
        }
        rounds += 1;
    }
    let sweep = (rounds > 0).then(|| {
        json!({
            "rounds": rounds,
            "streamed": curve(&sizes, &streamed),
            "alone": curve(&sizes, &alone),
        })
    });
    Ok((json!(sweep), sound))
}

fn sizes() -> Vec<usize> {
    let sizes = std::iter::successors(Some(SIZE_MIN), |size| Some(2 * size));
    sizes.take_while(|&size| size <= SOURCE_BYTES).collect()
}

/// The curve of these samples; each size has at least one. For each size: its bandwidth in the best
/// round and in the median one, and the share by which it is below the best smaller size and below
/// the worse of its neighbours: negative if it is better, null if it has only one neighbour.
fn curve(sizes: &[usize], samples: &[Vec<f64>]) -> Value {
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
        json!({
            "message_bytes": sizes[at],
            "gigabytes_per_s": best(at),
            "median_gigabytes_per_s": rates[at].1,
            "below_best_before": before.map_or(0.0, |before| below(at, before)),
            "below_neighbours": worse.map(|worse| below(at, worse)),
        })
    });
    let points: Vec<Value> = points.collect();
    json!({
        "points": points,
        "deepest_below_best_before": deepest(&points, "below_best_before"),
        "deepest_below_neighbours": deepest(&points, "below_neighbours"),
    })
}

/// The size with the largest deficit; none if no size has one.
fn deepest(points: &[Value], what: &str) -> Option<Value> {
    let dips = points
        .iter()
        .filter_map(|point| Some((&point["message_bytes"], point[what].as_f64()?)));
    let (size, depth) = dips.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (depth > 0.0).then(|| json!({"message_bytes": size, "depth": depth}))
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
        let curve = curve(&[1, 2, 3, 4, 5], &samples.map(Vec::from));
        let of_all = |what: &str| -> Vec<_> {
            let points = curve["points"].as_array().expect("there are points");
            points.iter().map(|point| point[what].as_f64()).collect()
        };
        let best = [2.0, 4.0, 3.0, 3.6, 3.8].map(Some);
        assert_eq!(of_all("gigabytes_per_s"), best);
        let below = of_all("below_best_before");
        assert_eq!(below[..3], [0.0, -1.0, 0.25].map(Some));
        let dip = json!({"message_bytes": 3, "depth": 0.25});
        assert_eq!(curve["deepest_below_best_before"], dip);
        let dip = json!({"message_bytes": 3, "depth": 1.0 - 3.0 / 3.6});
        assert_eq!(curve["deepest_below_neighbours"], dip);
        let below = of_all("below_neighbours");
        assert_eq!((below[0], below[4]), (None, None));
    }

    #[test]
    fn what_only_rises_has_no_dip_below_what_was_before() {
        let curve = curve(&[1, 2, 3], &[vec![1.0], vec![2.0], vec![3.0]]);
        for what in ["deepest_below_best_before", "deepest_below_neighbours"] {
            assert_eq!(curve[what], Value::Null);
        }
    }
}
