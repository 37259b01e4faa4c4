//! Results of a run's programs within a window of time: operations and bytes.

use super::drive::{Testbed, Until};
use super::{ExperimentError, Result, Run};
use rackweave_base::{Duration, Instant};
use std::cell::RefCell;
use std::rc::Rc;

/// How long a run takes, and which part of it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Time at the start that is not measured.
    pub warm_up: Duration,
    /// Measured time after the warm-up.
    pub counted: Duration,
}

impl Span {
    pub fn new(warm_up: Duration, counted: Duration) -> Self {
        Self { warm_up, counted }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    /// Operations per second.
    pub per_second: f64,
    /// Median latency in microseconds.
    pub median_us: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
}

/// Shared by all programs of a run.
pub type Shared = Rc<RefCell<Tally>>;

/// The value that this share of all values does not exceed; NaN if there are none.
pub fn quantile(values: &[u64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let found = sorted.get((part * last as f64).round() as usize);
    found.map_or(f64::NAN, |&value| value as f64)
}

/// The mean of all values; NaN if there are none.
pub fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

/// Operations that ended within a window and their latencies, and bytes that arrived.
///
/// Arrivals come in bursts, of a batch or of several at once, and a window that opens before a
/// burst and closes after another would count one too many. So the byte rate is the rate at which
/// the *mean* of the arrived bytes grows from the first to the second half of the window: its error
/// falls with the square of the number of bursts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Beginning, middle and end of the window.
    window: [Instant; 3],
    pub ended: u64,
    /// Latencies of operations that began and ended within the window, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// Start and length of the parts of the run that are counted separately, and the operations
    /// that ended in each, the warm-up included.
    parts: Option<(Instant, Duration, Vec<u64>)>,
    bytes: u64,
    /// All bytes that had arrived, by time, if recorded.
    pub arrived: Option<Vec<(Instant, u64)>>,
    /// Byte-nanoseconds: arrived bytes, integrated over each half of the window until `passed`.
    areas: [u128; 2],
    passed: Instant,
    arrivals: u64,
}

impl Tally {
    /// Counts from the end of the warm-up after `start`.
    pub fn new(start: Instant, span: Span) -> Shared {
        let from = start + span.warm_up;
        let half = Duration::from_nanos(span.counted.as_nanos() / 2);
        Rc::new(RefCell::new(Self {
            window: [from, from + half, from + span.counted],
            ended: 0,
            latencies_ns: Vec::new(),
            parts: None,
            bytes: 0,
            arrived: None,
            areas: [0; 2],
            passed: Instant::ZERO,
            arrivals: 0,
        }))
    }

    /// Runs a rack until the window is over. Returns the results of all operations.
    pub fn run(tally: &Shared, run: &mut Run<'_>, rack: &mut Testbed) -> Result<Seen> {
        let until = Until::Time(tally.borrow().until());
        rack.drive(run, until)?;
        let tally = tally.borrow();
        Ok(Seen {
            per_second: tally.per_second(),
            median_us: tally.quantile_us(0.5),
            mean_us: tally.mean_us(),
        })
    }

    /// Also counts each interval of `length` from `start` on separately.
    pub fn in_parts(&mut self, start: Instant, length: Duration) {
        self.parts = Some((start, length, Vec::new()));
    }

    /// Operations per second by the middle of each part, in seconds from the start. The last part
    /// is omitted because it may be incomplete.
    pub fn course(&self) -> Vec<(f64, f64)> {
        let Some((_, length, parts)) = &self.parts else {
            return Vec::new();
        };
        let length = length.as_secs_f64();
        let whole = parts.len().saturating_sub(1);
        let rate =
            |(at, &ended): (usize, &u64)| ((at as f64 + 0.5) * length, ended as f64 / length);
        parts[..whole].iter().enumerate().map(rate).collect()
    }

    /// The end of the window.
    pub fn until(&self) -> Instant {
        self.window[2]
    }

    /// Counts an operation that began at `since` and has ended.
    pub fn end(&mut self, since: Instant, now: Instant) {
        let [from, _, until] = self.window;
        if let Some((start, length, parts)) = &mut self.parts {
            let at = (now.since(*start).as_nanos() / length.as_nanos().max(1)) as usize;
            if parts.len() <= at {
                parts.resize(at + 1, 0);
            }
            parts[at] += 1;
        }
        if from <= now && now < until {
            self.ended += 1;
            if from <= since {
                self.latencies_ns.push(now.since(since).as_nanos());
            }
        }
    }

    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        let [from, _, until] = self.window;
        self.ended as f64 / until.since(from).as_secs_f64()
    }

    /// The mean latency in microseconds; NaN if no operation ended.
    pub fn mean_us(&self) -> f64 {
        mean(&self.latencies_ns) / 1e3
    }

    /// The latency that this share of all does not exceed, in microseconds; NaN if none ended.
    pub fn quantile_us(&self, part: f64) -> f64 {
        quantile(&self.latencies_ns, part) / 1e3
    }

    /// Counts bytes that were taken.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.bytes += bytes;
        if let Some(arrived) = &mut self.arrived {
            // Simultaneous arrivals count as one.
            arrived.pop_if(|last| last.0 == now);
            arrived.push((now, self.bytes));
        }
        let [from, _, until] = self.window;
        self.arrivals += u64::from(from <= now && now <= until);
    }

    /// Bytes per second; to be called at the end of the window.
    ///
    /// # Errors
    /// If too little arrived.
    pub fn bytes_per_second(&mut self) -> Result<f64> {
        if self.arrivals < 4 {
            return Err(ExperimentError::Run(format!(
                "{} arrivals after the warm-up make no rate",
                self.arrivals
            )));
        }
        let half = self.window[1] - self.window[0];
        self.pass(self.window[1] + half);
        let half = half.as_secs_f64();
        let mean = |area: u128| area as f64 * 1e-9 / half;
        Ok((mean(self.areas[1]) - mean(self.areas[0])) / half)
    }

    /// Advances time without an arrival.
    fn pass(&mut self, until: Instant) {
        let half = self.window[1] - self.window[0];
        for (area, from) in self.areas.iter_mut().zip(self.window) {
            let (from, to) = (self.passed.max(from), until.min(from + half));
            if to > from {
                *area += u128::from(self.bytes) * u128::from((to - from).as_nanos());
            }
        }
        self.passed = self.passed.max(until);
    }
}

#[cfg(test)]
mod tests;
