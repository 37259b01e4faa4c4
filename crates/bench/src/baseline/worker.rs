//! A worker of a shuffle between CPUs: one thread on one core that produces and consumes.

use super::ends::{Ends, Outlet, Took};
use super::tuples::{self, Tally, TupleCost};
use crate::harness::prelude::*;

/// Bytes of tuples that are produced before the worker polls for tuples to consume.
const BATCH_BYTES: usize = 4096;

/// Results of the workers of one run.
#[derive(Default, Debug)]
pub struct Ledger {
    pub tallies: Vec<Tally>,
    /// When the last consumer saw the end.
    pub finished_at: Instant,
    /// Expected bytes of the whole run.
    bytes: u64,
    arrived: u64,
    slope: Slope,
}

/// The slope of a line through points, by least squares: arrivals in bursts do not tilt it.
#[derive(Clone, Copy, Default, Debug)]
struct Slope {
    count: f64,
    mean: [f64; 2],
    /// Sums of the products of both coordinates' distances from the mean.
    xx: f64,
    xy: f64,
}

impl Slope {
    fn add(&mut self, x: f64, y: f64) {
        // Welford's method: large sums of squares would lose their differences.
        self.count += 1.0;
        let from_old = x - self.mean[0];
        self.mean[0] += from_old / self.count;
        self.mean[1] += (y - self.mean[1]) / self.count;
        self.xx += from_old * (x - self.mean[0]);
        self.xy += from_old * (y - self.mean[1]);
    }

    fn value(&self) -> f64 {
        if self.xx > 0.0 {
            self.xy / self.xx
        } else {
            0.0
        }
    }
}

impl Ledger {
    /// A ledger for this many consumers, at which this many bytes are to arrive.
    pub fn new(consumers: usize, bytes: u64) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            tallies: vec![Tally::default(); consumers],
            bytes,
            ..Self::default()
        }))
    }

    /// Records that bytes have arrived.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        self.arrived += bytes;
        let tenths = self.arrived as f64 * 10.0 / self.bytes.max(1) as f64;
        if (1.0..=9.0).contains(&tenths) {
            self.slope.add(now.as_nanos() as f64, self.arrived as f64);
        }
    }

    /// Records that a consumer has seen the end.
    pub fn finish(&mut self, now: Instant) {
        self.finished_at = self.finished_at.max(now);
    }

    /// Bytes per second between the first and the last tenth of what arrived, so that the start and
    /// the end of a run, which a longer run would not have, do not count.
    pub fn bytes_per_second(&self) -> f64 {
        self.slope.value() * 1e9
    }

    pub fn total(&self) -> Tally {
        self.tallies
            .iter()
            .fold(Tally::default(), |a, b| a.with(*b))
    }
}

/// Makes numbered tuples and pushes them.
pub struct Production {
    numbers: Range<u64>,
    /// The tuple of the first number, once it is made.
    tuple: Box<[u8]>,
    /// The key of that tuple.
    key: Option<u64>,
}

impl Production {
    /// The share of worker `at` of `workers` in tuples numbered from 0 to `count`.
    pub fn share(count: u64, at: usize, workers: usize, tuple_size: usize) -> Self {
        let bound = |at: usize| (u128::from(count) * at as u128 / workers as u128) as u64;
        Self {
            numbers: bound(at)..bound(at + 1),
            tuple: vec![0; tuple_size].into(),
            key: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Pushes a batch and charges for it; returns the number of tuples. `make` writes the tuple of
    /// a number and returns its key.
    pub fn batch(
        &mut self,
        context: &mut Context<'_>,
        outlet: &mut dyn Outlet,
        make: impl Fn(u64, &mut [u8]) -> u64,
    ) -> Result<u64, Failure> {
        let batch = (BATCH_BYTES / self.tuple.len()).max(1) as u64;
        let first = self.numbers.start;
        while self.numbers.start < self.numbers.end && self.numbers.start - first < batch {
            let tuple = &mut self.tuple;
            let made = || make(self.numbers.start, tuple);
            let key = *self.key.get_or_insert_with(made);
            if !outlet.push(context, key, &self.tuple)? {
                break;
            }
            self.key = None;
            self.numbers.start += 1;
        }
        let pushed = self.numbers.start - first;
        let cost = TupleCost::new(context.cpu(), self.tuple.len()).partition(pushed);
        context.charge(Category::Compute, cost);
        Ok(pushed)
    }
}

/// Worker `own` of `workers`, which both produces and consumes; its number is also that of its
/// destination.
pub fn worker(
    mut production: Production,
    (mut outlet, mut inlet): Ends,
    (own, workers): (usize, usize),
    ledger: Rc<RefCell<Ledger>>,
) -> impl Program {
    let size = production.tuple.len();
    let (mut has_ended_output, mut has_seen_end) = (false, false);
    move |context: &mut Context<'_>| -> Turn {
        let mut has_moved = false;
        if !has_seen_end {
            let mut ledger = ledger.borrow_mut();
            let tally = &mut ledger.tallies[own];
            let took = inlet.take(context, &mut |bytes| tally.add(bytes, size, own, workers))?;
            has_moved = took != Took::Empty;
            match took {
                Took::Tuples(count) => {
                    let cost = TupleCost::new(context.cpu(), size).consume(count);
                    context.charge(Category::Compute, cost);
                    ledger.add(context.now(), count * size as u64);
                }
                Took::Empty => {}
                Took::PhaseEnded => {
                    has_seen_end = true;
                    ledger.finish(context.now());
                }
            }
        }
        if !production.is_done() {
            has_moved |= production.batch(context, &mut *outlet, tuples::make)? > 0;
        } else if !has_ended_output {
            has_ended_output = outlet.end_phase(context)?;
            has_moved |= has_ended_output;
        }
        Ok(match (has_seen_end && has_ended_output, has_moved) {
            (true, _) => Step::Done,
            (_, true) => Step::Compute(Duration::ZERO),
            _ => Step::WaitForPacket,
        })
    }
}

#[cfg(test)]
mod tests;
