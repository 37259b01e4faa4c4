//! Flows with weights between two nodes, and the bytes that arrived of each over time.

use crate::harness::drive::Until;
use crate::harness::one_to_one::{self, ENDS};
use crate::harness::tally::{Span, Tally};
use crate::harness::{Result, Run};
use rackweave_base::{Duration, Instant};

/// Maximum bytes of one transfer.
pub(super) const BATCH_BYTES: u32 = 64 << 10;

/// Bytes of an item.
const ITEM_SIZE: u32 = 4 << 10;

/// Batches that a ring holds.
const RING_BATCHES: u32 = 16;

/// A period with fixed weights.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Phase {
    /// The weight of each flow, if it has one.
    pub(super) weights: [Option<u32>; 3],
    pub(super) length: Duration,
}

/// The arrivals of a run.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) phases: Vec<Phase>,
    /// For each flow, by time: all bytes that had arrived.
    pub(super) arrived: [Vec<(Instant, u64)>; 3],
}

/// Runs three flows through several phases. `demands` are the bytes per second that each flow's
/// producer sends; none: the maximum rate.
pub(super) fn play(
    run: &mut Run<'_>,
    phases: Vec<Phase>,
    demands: [Option<f64>; 3],
) -> Result<History> {
    let mut rack = one_to_one::rack(run.seed)?;
    let lengths = phases.iter().map(|phase| phase.length);
    let span = Span::new(
        Duration::ZERO,
        lengths.fold(Duration::ZERO, |all, length| all + length),
    );
    let (mut flows, mut tallies) = (Vec::new(), Vec::new());
    for (at, demand) in demands.into_iter().enumerate() {
        let mut spec = rack
            .flow([ENDS.0], [ENDS.1])
            .item_bytes(ITEM_SIZE)
            .ring_bytes(BATCH_BYTES * RING_BATCHES)
            .weight(phases[0].weights[at])
            .spec()?;
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
    /// When a phase begins and ends.
    pub(super) fn span(&self, phase: usize) -> (Instant, Instant) {
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
    pub(super) fn rate(&self, flow: usize, from: Instant, to: Instant) -> f64 {
        (self.bytes(flow, to) - self.bytes(flow, from)) / to.since(from).as_secs_f64()
    }

    /// Bytes per second of a flow in each window, at its middle in seconds.
    pub(super) fn rates(&self, flow: usize, window: Duration) -> Vec<(f64, f64)> {
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
    pub(super) fn deviation(&self, phase: usize, from: Instant, to: Instant) -> f64 {
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
    pub(super) fn reached(&self, phase: usize, window: Duration, kept: f64) -> Option<Duration> {
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
