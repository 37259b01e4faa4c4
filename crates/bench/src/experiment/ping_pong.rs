//! Ping-pong between two nodes, over a flow in each direction: the measurement of figure 10.
//!
//! One core of the first node pushes items at a fixed rate, each with the time at which it was due;
//! a core of the second takes them and pushes them back; another core of the first takes them and
//! records their round trip times. A core announces what it wrote or took to the switch when its
//! work is done, not when it begins.

mod actors;
#[cfg(test)]
mod tests;

use crate::harness::one_to_one::{self, ENDS};
use crate::harness::tally::{Span, Tally, quantile};
use crate::harness::{ExperimentError, Result, Run};
use actors::{Bell, ItemSource, Schedule, Sink, echo, pinger, taker};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, Rng};
use std::rc::Rc;

/// Bytes of a ring: the items pushed at 12.5 GB/s in three of the longest poll intervals. The two
/// rings of a node fit its last level cache.
pub const RING_BYTES: u32 = 8 << 20;

/// Minimum time between two doorbells of one ring. Changes in between are announced by the next
/// doorbell.
pub const BELL_GAP: Duration = Duration::from_micros(1);

/// How often the switch polls a ring that has a doorbell.
const BELL_POLL: Duration = Duration::from_micros(200);

/// How the switch learns of changes to a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It polls the ring at this interval.
    Polls(Duration),
    /// A doorbell announces them.
    Doorbells,
}

/// A ping-pong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Course {
    /// Bytes of an item.
    pub item_size: u32,
    /// Items that are due per second.
    pub items_per_second: f64,
    /// How the switch learns of them.
    pub signal: Signal,
}

/// The measurements.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Items per second that returned.
    pub items_per_second: f64,
    /// Round trip times of the items, in nanoseconds.
    pub round_trips_ns: Vec<u64>,
}

impl Outcome {
    /// Half the round trip time that this share of all items does not exceed, in microseconds.
    pub fn quantile(&self, part: f64) -> f64 {
        quantile(&self.round_trips_ns, part) / 2e3
    }
}

/// Runs a ping-pong.
pub fn run(run: &mut Run<'_>, course: Course, span: Span) -> Result<Outcome> {
    let seed = run.seed;
    let mut rack = one_to_one::rack(seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let (mut flows, mut ends) = (Vec::new(), Vec::new());
    for (from, to) in [ENDS, (ENDS.1, ENDS.0)] {
        let mut spec = rack
            .flow([from], [to])
            .item_bytes(course.item_size)
            .ring_bytes(RING_BYTES)
            .doorbells(course.signal == Signal::Doorbells)
            .spec()?;
        let interval = match course.signal {
            Signal::Polls(interval) => interval,
            Signal::Doorbells => BELL_POLL,
        };
        (spec.poll_interval, spec.poll_interval_max) = (interval, interval);
        let slots = spec.consumer_slots;
        let flow = rack.create_flow(spec)?;
        let producer = flow.take_producer(0)?;
        let consumer = flow.take_consumer(0)?;
        let bells = flow.producer_bells(0);
        let bell = bells.and_then(|bells| bells.first().copied());
        let source = ItemSource {
            ring: producer,
            bell: Bell::new(bell),
            written: 0,
        };
        let sink = Sink {
            ring: consumer,
            bell: Bell::new(flow.consumer_bell(0)),
            taken: 0,
            freed: 0,
            bell_after: slots / 4,
        };
        ends.push((source, sink));
        flows.push(flow);
    }
    let (Some((back, home)), Some((out, far))) = (ends.pop(), ends.pop()) else {
        return Err(ExperimentError::Run("there are no two flows".into()));
    };
    let schedule = Schedule::new(course.items_per_second, Rng::new(seed).fork("pinger"));
    let samples = Rc::new(RefCell::new(Vec::new()));
    let from = Instant::ZERO + span.warm_up;
    rack.spawn(ENDS.0, pinger(out, schedule));
    rack.spawn(ENDS.0, taker(home, tally.clone(), samples.clone(), from));
    rack.spawn(ENDS.1, echo(far, back));
    Tally::run(&tally, run, &mut rack)?;
    let items_per_second = tally.borrow_mut().bytes_per_second()?;
    Ok(Outcome {
        items_per_second,
        round_trips_ns: samples.take(),
    })
}
