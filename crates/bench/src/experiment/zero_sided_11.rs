//! Figure 11 of zero-sided RDMA: three flows between two nodes, whose weights change while they
//! run.
//!
//! The paper shows twenty seconds with a change every five; here a second of the paper is a few
//! milliseconds. The ratios are ours: the text has none.

#[cfg(test)]
mod tests;

use crate::harness::one_to_one::{self, ENDS, line_rate};
use crate::harness::prelude::*;

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

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let millis = Duration::from_millis;
    let (second, extreme) = run
        .scale
        .pick((millis(1), millis(12)), (millis(4), millis(40)));
    let mut at = 0;
    let mut played = |phases: Vec<Phase>, demands| {
        at += 1;
        play(&mut run.part(at - 1, 4), phases, demands)
    };
    let length = second * SECONDS_OF_PHASE;
    let main = played(WEIGHTS.map(|w| phase(w, length)).to_vec(), [None; 3])?;
    let far = played(vec![phase(EXTREME, extreme)], [None; 3])?;
    // The first flow sends at a tenth of the link rate and is entitled to half.
    let little = Some(line_rate() / 10.0);
    let modest = played(vec![phase([4, 3, 1], extreme)], [little, None, None])?;
    let half = Duration::from_nanos(extreme.as_nanos() / 2);
    let without = Phase {
        weights: [None; 3],
        length: half,
    };
    let freed = played(vec![phase([8, 1, 1], half), without], [None; 3])?;
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
    let (from, to) = counted(history, phase);
    let share = |flow: usize| history.rate(flow, from, to) / line_rate();
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

/// Maximum bytes of one transfer.
const BATCH_BYTES: u32 = 64 << 10;

/// Bytes of an item.
const ITEM_SIZE: u32 = 4 << 10;

/// Batches that a ring holds.
const RING_BATCHES: u32 = 16;

#[derive(Clone, PartialEq, Debug)]
struct Phase {
    /// The weight of each flow, if it has one.
    weights: [Option<u32>; 3],
    length: Duration,
}

#[derive(Clone, Debug)]
struct History {
    phases: Vec<Phase>,
    /// For each flow, by time: all bytes that had arrived.
    arrived: [Vec<(Instant, u64)>; 3],
}

/// Runs three flows through several phases. `demands` are the bytes per second that each flow's
/// producer sends; none: the maximum rate.
fn play(run: &mut Run<'_>, phases: Vec<Phase>, demands: [Option<f64>; 3]) -> Result<History> {
    let mut rack = one_to_one::rack(run.seed)?;
    let lengths = phases.iter().map(|phase| phase.length);
    let span = Span::new(
        Duration::ZERO,
        lengths.fold(Duration::ZERO, |all, length| all + length),
    );
    let (mut flows, mut tallies) = (Vec::new(), Vec::new());
    for (at, demand) in demands.into_iter().enumerate() {
        let ends = [&[ENDS.0][..], &[ENDS.1]];
        let mut spec = flow_spec(&rack, ends, ITEM_SIZE, BATCH_BYTES * RING_BATCHES)?;
        spec.weight = phases[0].weights[at];
        spec.batch_bytes = BATCH_BYTES;
        let flow = rack.create_flow(spec)?;
        let tally = Tally::new(Instant::ZERO, span);
        tally.borrow_mut().arrived = Some(Vec::new());
        let sources = vec![flow.take_producer(0)?];
        let sinks = vec![flow.take_consumer(0)?];
        rack.spawn(ENDS.0, one_to_one::kernel_source(sources, demand));
        rack.spawn(ENDS.1, one_to_one::sink(sinks, tally.clone()));
        flows.push(flow);
        tallies.push(tally);
    }
    let mut end = Instant::ZERO;
    for (at, phase) in phases.iter().enumerate() {
        for (flow, weight) in flows.iter().zip(phase.weights) {
            flow.set_weight(weight)?;
        }
        end += phase.length;
        rack.drive(&mut run.part(at, phases.len()), Until::Time(end))?;
    }
    let arrived = [0, 1, 2].map(|flow| tallies[flow].borrow_mut().arrived.take());
    Ok(History {
        phases,
        arrived: arrived.map(Option::unwrap_or_default),
    })
}

impl History {
    fn span(&self, phase: usize) -> (Instant, Instant) {
        let lengths = self.phases.iter().take(phase).map(|phase| phase.length);
        let start = lengths.fold(Instant::ZERO, |at, length| at + length);
        (start, start + self.phases[phase].length)
    }

    /// Bytes of a flow that had arrived at a time. Between two arrivals they are interpolated: a
    /// batch is in flight all the time, though it is announced at once.
    fn bytes(&self, flow: usize, at: Instant) -> f64 {
        let arrived = &self.arrived[flow];
        let next = arrived.partition_point(|&(then, _)| then <= at);
        let (from, had) = match next.checked_sub(1) {
            Some(before) => arrived[before],
            None => (Instant::ZERO, 0),
        };
        let Some(&(to, will)) = arrived.get(next) else {
            return had as f64;
        };
        let part = at.since(from).as_secs_f64() / to.since(from).as_secs_f64();
        had as f64 + part * (will - had) as f64
    }

    /// Bytes per second of a flow between two times.
    fn rate(&self, flow: usize, from: Instant, to: Instant) -> f64 {
        (self.bytes(flow, to) - self.bytes(flow, from)) / to.since(from).as_secs_f64()
    }

    /// Bytes per second of a flow in each window, at its middle in seconds.
    fn rates(&self, flow: usize, window: Duration) -> Vec<(f64, f64)> {
        let mut rates = Vec::new();
        let mut from = Instant::ZERO;
        let (_, end) = self.span(self.phases.len() - 1);
        while from + window <= end {
            let middle = from.since(Instant::ZERO).as_secs_f64() + window.as_secs_f64() / 2.0;
            rates.push((middle, self.rate(flow, from, from + window)));
            from += window;
        }
        rates
    }

    /// The largest relative deviation of a flow's share from the share that it is entitled to.
    fn deviation(&self, phase: usize, from: Instant, to: Instant) -> f64 {
        let weights = self.phases[phase]
            .weights
            .map(|weight| f64::from(weight.unwrap_or(1)));
        let rates = [0, 1, 2].map(|flow| self.rate(flow, from, to));
        let (all, due): (f64, f64) = (rates.iter().sum(), weights.iter().sum());
        let off = |flow: usize| (rates[flow] / all / (weights[flow] / due) - 1.0).abs();
        off(0).max(off(1)).max(off(2))
    }

    /// Time from the beginning of a phase to the first window that deviates by at most `kept`.
    /// Later windows may deviate more: a window of few batches counts one more or less.
    fn reached(&self, phase: usize, window: Duration, kept: f64) -> Option<Duration> {
        let (start, end) = self.span(phase);
        let step = Duration::from_nanos((window.as_nanos() / 20).max(1));
        let mut from = start;
        while from + window <= end {
            if self.deviation(phase, from, from + window) <= kept {
                return Some(from.since(start));
            }
            from += step;
        }
        None
    }
}
