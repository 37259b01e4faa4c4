//! Flows with weights between two nodes, and what arrived of each over time.

use super::super::ExperimentError;
use super::super::one_to_one::{self, ENDS};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_rack::RunEnd;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// Bytes of an item.
const ITEM_SIZE: u32 = 4 << 10;

/// Batches that a ring holds.
const RING_BATCHES: u32 = 16;

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_micros(200);

/// A time with fixed weights.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Phase {
    /// The weight of each flow, if it has one.
    pub(super) weights: [Option<u32>; 3],
    pub(super) length: Duration,
}

/// What a flow's producer has to send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Demand {
    /// As much as goes.
    All,
    /// So many bytes per second.
    BytesPerSecond(f64),
}

/// What is played.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Script {
    pub(super) phases: Vec<Phase>,
    pub(super) demands: [Demand; 3],
    pub(super) batch_bytes: u32,
    pub(super) seed: u64,
}

/// When what arrived, of one flow.
type Arrivals = Rc<RefCell<Vec<(Instant, u64)>>>;

/// What arrived.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) phases: Vec<Phase>,
    /// Of each flow, by time: all bytes that had arrived.
    pub(super) arrived: [Vec<(Instant, u64)>; 3],
}

/// Plays a script; `progress` is told the share that is done and says whether to go on.
pub(super) fn play(
    script: &Script,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<History, ExperimentError> {
    let mut rack = one_to_one::rack(script.seed)?;
    let failure = Rc::new(RefCell::new(None));
    let failed = |error: &dyn core::fmt::Display| ExperimentError::Run(error.to_string());
    let first = script
        .phases
        .first()
        .map_or([None; 3], |phase| phase.weights);
    let mut flows = Vec::new();
    let arrivals: [Arrivals; 3] = Default::default();
    for at in 0..3 {
        let ring = script.batch_bytes * RING_BATCHES;
        let mut spec = rack
            .flow([ENDS.0], [ENDS.1])
            .item_bytes(ITEM_SIZE)
            .ring_bytes(ring)
            .weight(first[at])
            .spec()?;
        spec.batch_bytes = script.batch_bytes;
        let flow = rack.create_flow(spec)?;
        let source = Source {
            ring: flow.take_producer(0).map_err(|error| failed(&error))?,
            demand: script.demands[at],
            items: 0,
            failure: failure.clone(),
        };
        let sink = Sink {
            ring: flow.take_consumer(0).map_err(|error| failed(&error))?,
            bytes: 0,
            arrivals: arrivals[at].clone(),
            failure: failure.clone(),
        };
        rack.spawn(ENDS.0, Box::new(source));
        rack.spawn(ENDS.1, Box::new(sink));
        flows.push(flow);
    }
    let all: f64 = script
        .phases
        .iter()
        .map(|phase| phase.length.as_secs_f64())
        .sum();
    let mut end = Instant::ZERO;
    for phase in &script.phases {
        for (flow, weight) in flows.iter().zip(phase.weights) {
            flow.set_weight(weight)?;
        }
        end += phase.length;
        while rack.now() < end {
            if !progress(rack.now().since(Instant::ZERO).as_secs_f64() / all) {
                return Err(ExperimentError::Interrupted);
            }
            let ended = rack.run(end.min(rack.now() + SLICE));
            if let Some(error) = failure.borrow_mut().take() {
                return Err(ExperimentError::Run(error));
            }
            if matches!(ended, RunEnd::Stalled | RunEnd::Done) {
                return Err(ExperimentError::Run("nothing moves any more".into()));
            }
        }
    }
    Ok(History {
        phases: script.phases.clone(),
        arrived: arrivals.map(|arrivals| arrivals.take()),
    })
}

impl History {
    /// When a phase begins and ends.
    pub(super) fn span(&self, phase: usize) -> (Instant, Instant) {
        let lengths = self.phases.iter().take(phase).map(|phase| phase.length);
        let start = lengths.fold(Instant::ZERO, |at, length| at + length);
        (start, start + self.phases[phase].length)
    }

    /// Bytes of a flow that had arrived at a time. Between two arrivals they come evenly: a batch
    /// is on its way all the time, though it is shown at once.
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

    /// How far the share of the flow that is furthest off is from what it is due, in parts of what
    /// it is due.
    pub(super) fn deviation(&self, phase: usize, from: Instant, to: Instant) -> f64 {
        let weights = self.phases[phase]
            .weights
            .map(|weight| f64::from(weight.unwrap_or(1)));
        let rates = [0, 1, 2].map(|flow| self.rate(flow, from, to));
        let (all, due): (f64, f64) = (rates.iter().sum(), weights.iter().sum());
        let off = |flow: usize| (rates[flow] / all / (weights[flow] / due) - 1.0).abs();
        off(0).max(off(1)).max(off(2))
    }

    /// How long after the beginning of a phase the first window begins that deviates no more than
    /// `kept`. Later ones may: a window of few batches counts one more or less.
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

struct Source {
    ring: Producer,
    demand: Demand,
    items: u64,
    failure: Rc<RefCell<Option<String>>>,
}

impl Actor for Source {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let elapsed = context.now().since(Instant::ZERO).as_secs_f64();
        let due = match self.demand {
            Demand::All => u64::MAX,
            Demand::BytesPerSecond(rate) => (elapsed * rate / f64::from(ITEM_SIZE)) as u64,
        };
        let size = ITEM_SIZE as usize;
        while self.items < due {
            let most = (due - self.items).min(u64::from(u32::MAX)) as u32;
            let mut slots = match self.ring.reserve(most) {
                Ok(slots) => slots,
                Err(PushError::Full) => return Step::WaitForPacket,
                Err(error) => {
                    self.failure.borrow_mut().get_or_insert(error.to_string());
                    return Step::Done;
                }
            };
            let count = slots.len() / size;
            for mut slot in slots.chunks_exact(size) {
                slot.write(0, &self.items.to_le_bytes());
                self.items += 1;
            }
            self.ring.commit(count as u32);
        }
        match self.demand {
            Demand::All => Step::WaitForPacket,
            Demand::BytesPerSecond(rate) => {
                let next = (self.items + 1) as f64 * f64::from(ITEM_SIZE) / rate - elapsed;
                Step::Sleep(Duration::from_nanos((next * 1e9).max(1.0) as u64))
            }
        }
    }
}

struct Sink {
    ring: Consumer,
    bytes: u64,
    arrivals: Arrivals,
    failure: Rc<RefCell<Option<String>>>,
}

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let before = self.bytes;
        let size = u64::from(ITEM_SIZE);
        loop {
            let items = match self.ring.peek(u32::MAX) {
                Taken::Items(items) => items,
                Taken::Empty => break,
                Taken::Ended | Taken::Aborted => {
                    let broken = || "a flow was broken off".to_owned();
                    self.failure.borrow_mut().get_or_insert_with(broken);
                    return Step::Done;
                }
            };
            for item in items.chunks_exact(size as usize) {
                if item.u64_le(0) != self.bytes / size {
                    let wrong = || "an item is not the one that was expected".to_owned();
                    self.failure.borrow_mut().get_or_insert_with(wrong);
                    return Step::Done;
                }
                self.bytes += size;
            }
            let count = items.len() as u64 / size;
            self.ring.release(count as u32);
        }
        if self.bytes > before {
            self.arrivals.borrow_mut().push((context.now(), self.bytes));
        }
        Step::WaitForPacket
    }
}
