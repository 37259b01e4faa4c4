//! What measurements have in common: their amount, rates, latencies, and this machine's memcpy.

use crate::outcome::CliError;
use hdrhistogram::Histogram;
use rackweave_base::{Block, Memory};
use rackweave_target::{Backend, Io, IoKind, RegionRange};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Latencies above this many nanoseconds, an hour, are not distinguished.
const LATENCY_MAX: u64 = 3_600_000_000_000;

/// Duration of a measurement of memcpy, after a warm-up round.
const MEMCPY: Duration = Duration::from_millis(200);

/// The amount of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// This many.
    Count(u64),
    /// This many nanoseconds.
    Nanos(u64),
}

impl Amount {
    /// The requested number (`-n`) or seconds (`-D`), or `default`.
    ///
    /// # Errors
    /// If the user requested both.
    pub fn of(
        iterations: Option<u64>,
        duration: Option<f64>,
        default: Self,
    ) -> Result<Self, CliError> {
        match (iterations, duration) {
            (Some(_), Some(_)) => Err(CliError::usage(
                "-n and -D contradict each other: give a count or a duration, not both",
            )),
            (Some(count), None) => Ok(Self::Count(count)),
            (None, Some(seconds)) => Ok(Self::Nanos((seconds * 1e9) as u64)),
            (None, None) => Ok(default),
        }
    }

    /// The completed fraction after `count` and `nanos`.
    pub fn fraction(self, count: u64, nanos: u64) -> f64 {
        match self {
            Self::Count(all) => count as f64 / all.max(1) as f64,
            Self::Nanos(all) => nanos as f64 / all.max(1) as f64,
        }
    }
}

/// The rate of `count` in `nanos`.
pub fn per_second(count: u64, nanos: u64) -> f64 {
    count as f64 * 1e9 / nanos.max(1) as f64
}

/// The rate of `count` of `what` in `nanos`.
pub fn rate(what: &str, count: u64, nanos: u64) -> Value {
    json!({
        what: count,
        "elapsed_s": nanos as f64 / 1e9,
        (format!("{what}_per_s")): per_second(count, nanos),
    })
}

/// The share of `part` in `whole`; zero if both are zero.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A histogram of latencies in nanoseconds, with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are sound")
}

/// Latencies of messages, in nanoseconds.
pub fn latency(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "samples": histogram.len(),
        "min": if histogram.is_empty() { 0 } else { histogram.min() },
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p99.9": at(0.999),
        "max": histogram.max(),
        "mean": histogram.mean(),
    })
}

/// Bytes per second that one thread copies between two buffers of `buffer` bytes, `chunk` bytes at
/// a time: the best of several rounds. The yardstick for all data movement.
pub fn memcpy_bandwidth(buffer: usize, chunk: usize) -> f64 {
    let chunk = chunk.clamp(1, buffer);
    let source = vec![1u8; buffer];
    let mut target = vec![2u8; buffer];
    let mut round = || {
        let started = Instant::now();
        for (to, from) in target.chunks_mut(chunk).zip(source.chunks(chunk)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut target);
        buffer as f64 / started.elapsed().as_secs_f64()
    };
    round();
    let started = Instant::now();
    let mut best = 0.0f64;
    while started.elapsed() < MEMCPY {
        best = best.max(round());
    }
    best
}

/// The queue of a medium, with a buffer for each pending request.
pub struct MediumQueue<'a> {
    backend: &'a mut dyn Backend,
    page_size: u32,
    /// A page for each request.
    pub buffers: Block,
    depth: usize,
}

impl<'a> MediumQueue<'a> {
    /// A queue with this many pending requests.
    ///
    /// # Errors
    /// If memory for the pages is not available.
    pub fn new(
        backend: &'a mut dyn Backend,
        page_size: u32,
        depth: usize,
    ) -> Result<Self, CliError> {
        let bytes = depth * page_size as usize;
        Ok(Self {
            backend,
            page_size,
            buffers: Memory::new(bytes + (1 << 20)).allocate(bytes)?,
            depth,
        })
    }

    /// Keeps the medium busy with the pages that `next` returns for each number, until it returns
    /// none. Returns pages per second.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn run(
        &mut self,
        kind: IoKind,
        mut next: impl FnMut(u64) -> Option<u64>,
    ) -> Result<f64, CliError> {
        let started = Instant::now();
        let now = || rackweave_base::Instant::from_nanos(started.elapsed().as_nanos() as u64);
        let blocks = self.page_size / self.backend.block_size();
        let mut free: Vec<u64> = (0..self.depth as u64).collect();
        let (mut begun, mut ended, mut over) = (0, 0, false);
        let mut done = Vec::new();
        while !over || ended < begun {
            while !over && let Some(slot) = free.pop() {
                let Some(page) = next(begun) else {
                    over = true;
                    break;
                };
                let place = || RegionRange {
                    block: self.buffers.clone(),
                    offset: (slot * u64::from(self.page_size)) as usize,
                };
                let has_data = matches!(kind, IoKind::Read | IoKind::Write);
                let io = Io {
                    tag: slot,
                    kind,
                    block: page * u64::from(blocks),
                    blocks: if kind == IoKind::Flush { 0 } else { blocks },
                    buffer: has_data.then(place),
                };
                if self.backend.submit(now(), io).is_err() {
                    free.push(slot);
                    break;
                }
                begun += 1;
            }
            self.backend.poll(now(), &mut done);
            if done.is_empty() {
                std::thread::yield_now();
            }
            for io in done.drain(..) {
                io.result?;
                free.push(io.tag);
                ended += 1;
            }
        }
        Ok(ended as f64 / started.elapsed().as_secs_f64().max(1e-9))
    }
}
