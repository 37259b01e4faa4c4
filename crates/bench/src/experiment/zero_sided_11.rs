//! Figure 11 of zero-sided RDMA: three flows between two nodes, whose weights change while they
//! run.
//!
//! The paper shows twenty seconds with a change every five; here a second of the paper is a few
//! milliseconds. The ratios are ours: the text has none.

mod flows;
#[cfg(test)]
mod tests;

use crate::figure::{Measured, Series, Values, values};
use crate::harness::{Result, Run};
use flows::{BATCH_BYTES, History, Phase};
use rackweave_base::{Duration, Instant};

/// Seconds of the paper between two changes.
const SECONDS_OF_PHASE: u64 = 5;

/// The weights of the three flows in each phase.
const WEIGHTS: [[u32; 3]; 4] = [[1, 1, 1], [1, 2, 4], [6, 3, 1], [2, 1, 2]];

/// Very different weights, for a note.
const EXTREME: [u32; 3] = [1, 10, 100];

/// Maximum deviation of a flow's share from its weight at which the weight counts as kept.
const KEPT: f64 = 0.02;

/// Shares are taken over windows of this length: long enough for many batches of each flow.
const WINDOW: Duration = Duration::from_millis(1);

fn phase(weights: [u32; 3], length: Duration) -> Phase {
    Phase {
        weights: weights.map(Some),
        length,
    }
}

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let millis = Duration::from_millis;
    let (second, extreme) = run
        .scale
        .pick((millis(1), millis(12)), (millis(4), millis(40)));
    let mut at = 0;
    let mut play = |phases: Vec<Phase>, demands| {
        at += 1;
        flows::play(&mut run.part(at - 1, 4), phases, demands)
    };
    let length = second * SECONDS_OF_PHASE;
    let main = play(WEIGHTS.map(|w| phase(w, length)).to_vec(), [None; 3])?;
    let far = play(vec![phase(EXTREME, extreme)], [None; 3])?;
    // The first flow sends at a tenth of the link rate and is entitled to half.
    let little = Some(crate::harness::one_to_one::line_rate() / 10.0);
    let modest = play(vec![phase([4, 3, 1], extreme)], [little, None, None])?;
    let half = Duration::from_nanos(extreme.as_nanos() / 2);
    let without = Phase {
        weights: [None; 3],
        length: half,
    };
    let freed = play(vec![phase([8, 1, 1], half), without], [None; 3])?;
    Ok(measured(&[main, far, modest, freed], second))
}

fn measured(measured: &[History; 4], second: Duration) -> Measured {
    let [main, far, modest, freed] = measured;
    let to_paper = 1.0 / second.as_secs_f64();
    let window = Duration::from_nanos(second.as_nanos() / 8);
    let series = (0..3).map(|flow| {
        let rates = main.rates(flow, window).into_iter();
        let points = rates.map(|(at, rate)| (at * to_paper, rate / 1e9));
        Series::new(format!("flow {}", flow + 1), points)
    });
    let phases = main.phases.iter().enumerate().map(|(phase, what)| {
        let (from, to) = counted(main, phase);
        let reached = main.reached(phase, WINDOW, KEPT);
        values! {
            ratio: ratio(what),
            shares: shares(main, phase),
            deviation: 100.0 * main.deviation(phase, from, to),
            kept: 100.0 * KEPT,
            reached: reached.map_or("the phase has ended".into(), |time| time.to_string()),
        }
    });
    let ratios: Vec<String> = main.phases.iter().map(ratio).collect();
    let (worst, slowest) = extremes(main);
    let (from, to) = counted(far, 0);
    let values = values! {
        worst, slowest,
        millis: second.as_nanos() / 1_000_000,
        ratios: ratios.join(", "),
        phases: phases.collect::<Vec<Values>>(),
        far_ratio: ratio(&far.phases[0]),
        far_shares: shares(far, 0),
        far_deviation: 100.0 * far.deviation(0, from, to),
        far_time: to.since(from).to_string(),
        modest_ratio: ratio(&modest.phases[0]),
        modest_shares: shares(modest, 0),
        freed_ratio: ratio(&freed.phases[0]),
        freed_first: shares(freed, 0),
        freed_second: shares(freed, 1),
        batch_kib: BATCH_BYTES >> 10,
    };
    Measured::new(series.collect(), values)
}

/// The interval in which shares are measured: it starts a millisecond after the change.
fn counted(history: &History, phase: usize) -> (Instant, Instant) {
    let (start, end) = history.span(phase);
    (start + WINDOW, end)
}

fn ratio(phase: &Phase) -> String {
    let weight = |weight: &Option<u32>| weight.map_or("none".into(), |weight| weight.to_string());
    phase.weights.each_ref().map(weight).join(":")
}

/// The shares of line rate that the flows have in a phase.
fn shares(history: &History, phase: usize) -> String {
    let line_rate = crate::harness::one_to_one::line_rate();
    let (from, to) = counted(history, phase);
    let share = |flow: usize| history.rate(flow, from, to) / line_rate;
    [0, 1, 2]
        .map(|flow| format!("{:.4}", share(flow)))
        .join(", ")
}

/// The largest deviation of a share in percent, and the longest time in milliseconds until shares
/// are right.
fn extremes(main: &History) -> (f64, f64) {
    let phases = 0..main.phases.len();
    let worst = phases.clone().map(|phase| {
        let (from, to) = counted(main, phase);
        main.deviation(phase, from, to)
    });
    let slowest = phases.map(|phase| {
        let reached = main.reached(phase, WINDOW, KEPT);
        reached.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    });
    // A phase that never settles is NaN, and must show.
    let most = |worst: f64, next: f64| {
        if next > worst || next.is_nan() {
            next
        } else {
            worst
        }
    };
    (worst.fold(0.0, most) * 100.0, slowest.fold(0.0, most))
}
