//! The same measurements on an embedded rack: real threads, real time, beside this machine's
//! memcpy.
//!
//! The ways, plans and drawings are those of the figures; sizes are fewer and smaller. The threads
//! of the sender and the receiver drive the rack while they wait; there is no driver thread. A
//! point is the median of several transfers after one that is not counted, from the first sender's
//! start to the last receiver's end. The data of the last transfer is compared with what was sent.
//!
//! Unlike in the simulator, threads run before the measurement starts, and the receiver of the real
//! protocol does not clear, since it need not; that of the single buffer does.

use super::ends::{self, Ends};
use super::figures::{ROWS, Row};
use super::sweep::{Bytes, Curve, MIB, Shape, Way, best};
use super::ways::{Data, Inlet, Outlet};
use crate::figure::Figure;
use crate::harness::prelude::*;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use rackweave_endpoint::flow::wait_until;
use rackweave_rack::{EmbeddedRack, Node};
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use std::thread;
use std::time::Instant;

/// Transfers per point, of which the first is not counted; small data has more.
const ROUNDS: usize = 5;
const ROUNDS_SMALL: usize = 15;

/// Maximum size of small data.
const SMALL: u64 = 1 << 20;

/// A figure's row, if it can be measured in real time.
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// Bytes of data and of buffers.
fn sizes(scale: Scale) -> (Vec<u64>, Vec<u64>) {
    let powers = |from: u32, to: u32, step: usize| -> Vec<u64> {
        (from..=to).step_by(step).map(|power| 1 << power).collect()
    };
    match scale {
        Scale::Quick => (powers(6, 24, 2), powers(14, 22, 2)),
        Scale::Full | Scale::Paper => (powers(3, 26, 1), powers(12, 24, 2)),
    }
}

/// Measures a figure's curves on an embedded rack.
///
/// # Errors
/// If a rack cannot be built, wrong data arrives, or the user wishes to stop.
pub fn figure(run: &mut Run<'_>, row: &Row) -> Result<Figure> {
    let (data, buffers) = sizes(run.scale);
    let most = data.last().copied().unwrap_or(0);
    let source = source(run.seed, most as usize);
    let shapes = row.shapes(run.scale, &buffers);
    let mut curves = Vec::new();
    for (at, &shape) in shapes.iter().enumerate() {
        run.part(at, shapes.len()).at(0.0)?;
        let points = curve(shape, run.seed, &source, &data);
        let points = points.map_err(|error| error.with(format!("{shape:?}")))?;
        curves.push(Curve {
            shape,
            points,
            written: Vec::new(),
        });
    }
    let memcpy = memcpy(&source);
    let mut series = row.drawn(&curves);
    let ends = [data.first(), data.last()].into_iter().flatten();
    let line = Series::new("memcpy", ends.map(|&at| (at as f64, memcpy)));
    let panels = series.iter().map(|one| one.panel().0.to_owned());
    let mut panels: Vec<String> = panels.collect();
    panels.dedup();
    for panel in panels {
        let line = line.clone();
        series.push(match panel.as_str() {
            "" => line,
            panel => line.in_panel(panel),
        });
    }
    let name = format!("{}-embedded", row.name);
    let measured = Measured::new(series, Values::default());
    let mut figure = row.text().axes(&name, run.seed, measured);
    figure.title.push_str(", on this machine");
    figure.notes = notes(row, run.scale, &curves, memcpy);
    Ok(figure)
}

fn notes(row: &Row, scale: Scale, curves: &[Curve], memcpy: f64) -> Vec<String> {
    let papers = row.papers(curves);
    let best_of = |curves: Vec<&Curve>| {
        let one = best(curves, 1).first().map(|curve| {
            let (data, rate) = curve.peak();
            let name = row.name(&curve.shape);
            let data = Bytes(data as u64);
            let part = rate / memcpy;
            format!("{name}: {rate:.0} MiB/s with data of {data}, {part:.2} of memcpy")
        });
        one.unwrap_or_default()
    };
    let cores = thread::available_parallelism().map_or(1, core::num::NonZero::get);
    let most = row.layouts(scale).iter().map(|layout| layout.0).max();
    let most = most.unwrap_or(1);
    let threads = match row.way {
        Way::Raw => most,
        Way::Single | Way::Multi => 2 * most,
    };
    let (best, best_of_all) = (best_of(papers), best_of(curves.iter().collect()));
    vec![
        format!(
            "Real time, on an embedded rack in one process with {cores} cores; up to {threads} \
             threads. memcpy of one thread, from memory to memory, in the same run: {memcpy:.0} \
             MiB/s."
        ),
        format!("The largest area of the paper's number has {best}."),
        format!("Of all that were tried {best_of_all}."),
    ]
}

/// Random bytes.
fn source(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed).fork("source");
    let mut source = vec![0; bytes];
    for word in source.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
    source
}

/// MiB per second of one thread's memory-to-memory copy: the best of several rounds.
fn memcpy(source: &[u8]) -> f64 {
    let mut target = vec![1; source.len()];
    let mut best: f64 = 0.0;
    for _ in 0..8 {
        let began = Instant::now();
        target.copy_from_slice(black_box(source));
        black_box(&mut target);
        best = best.max(source.len() as f64 / MIB / began.elapsed().as_secs_f64());
    }
    best
}

fn curve(shape: Shape, seed: u64, source: &[u8], data: &[u64]) -> Result<Vec<(f64, f64)>> {
    let mut config = ends::config(seed, ends::memory_of(&shape));
    // A waiting thread drives the rack.
    config.driver_threads = 0;
    let rack = EmbeddedRack::new(&config)?;
    let nodes = [STORAGE, COMPUTE].map(|node| rack.node_at(node));
    let mut ends = ends::connect(&rack, &shape, nodes[0].now(), seed)?;
    let mut points = Vec::new();
    for &bytes in data {
        let seconds = measure(&mut ends, &nodes, &shape, &source[..bytes as usize]);
        let seconds = seconds.or_failed("a transfer")?;
        points.push((bytes as f64, bytes as f64 / MIB / seconds));
    }
    Ok(points)
}

/// The work of a thread.
type Job<'a> = Box<dyn FnOnce() -> Result<Times, String> + Send + 'a>;

/// The median time of several transfers in seconds.
fn measure(
    ends: &mut [Ends],
    nodes: &[Node; 2],
    shape: &Shape,
    source: &[u8],
) -> Result<f64, String> {
    let bytes = source.len() as u64;
    let threads = ends.iter().map(|(_, far)| 1 + usize::from(far.is_some()));
    let rounds = if bytes <= SMALL { ROUNDS_SMALL } else { ROUNDS };
    let point = Point::new(source, threads.sum(), rounds);
    let (point, [storage, compute]) = (&point, nodes);
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (at, (near, far)) in ends.iter_mut().enumerate() {
        let (part, is_consumed) = (shape.share(at as u8, bytes), far.is_some());
        if let Some(far) = far {
            let part = part.clone();
            jobs.push(Box::new(move || take(compute, &mut **far, part, point)));
        }
        jobs.push(Box::new(move || {
            send(storage, &mut **near, is_consumed, part, point)
        }));
    }
    let times: Result<Vec<Times>, String> = thread::scope(|scope| {
        let start = |job| scope.spawn(move || point.ended(job));
        let started: Vec<_> = jobs.into_iter().map(start).collect();
        let panicked = |_| Err("a thread has panicked".into());
        let joined = started
            .into_iter()
            .map(|one| one.join().unwrap_or_else(panicked));
        joined.collect()
    });
    let times = times?;
    let mut seconds: Vec<f64> = (1..point.rounds)
        .filter_map(|round| {
            let begin = times.iter().filter_map(|one| one.begins.get(round)).min()?;
            let end = times.iter().filter_map(|one| one.ends.get(round)).max()?;
            Some(end.duration_since(*begin).as_secs_f64())
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

struct Point {
    data: Data,
    threads: usize,
    /// Number of transfers, the first of which is not counted.
    rounds: usize,
    /// How many times a thread has reached the start of a round.
    arrived: AtomicUsize,
    failed: AtomicBool,
}

impl Point {
    /// A point with `threads` threads that transfer `source` in `rounds` rounds.
    fn new(source: &[u8], threads: usize, rounds: usize) -> Self {
        Self {
            data: Data::whole(source),
            threads,
            rounds,
            arrived: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Waits until all threads have reached the start of this round.
    fn begin(&self, round: usize) -> Result<(), String> {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < self.threads * (round + 1) {
            self.go_on()?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns an error if another thread has failed.
    fn go_on(&self) -> Result<(), String> {
        match self.failed.load(Ordering::Acquire) {
            true => Err("another thread has given up".into()),
            false => Ok(()),
        }
    }

    /// Waits until `done` returns a value, and drives the rack meanwhile.
    fn wait<R>(
        &self,
        node: &Node,
        mut done: impl FnMut() -> Result<Option<R>, String>,
    ) -> Result<R, String> {
        wait_until(node, || match self.go_on().and_then(|()| done()) {
            Ok(done) => done.map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    /// Returns the result of a thread; if it is an error, the other threads fail, too.
    fn ended<T>(&self, act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let result = act();
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}

/// When a sending thread began each transfer, and when a thread that sees its end ended it.
#[derive(Default)]
struct Times {
    /// Times of a sender.
    begins: Vec<Instant>,
    /// Times of a receiver, or of a sender without one.
    ends: Vec<Instant>,
}

/// Sends a part of the data. Returns when each transfer began, and its end if not consumed.
fn send(
    node: &Node,
    end: &mut dyn Outlet,
    is_consumed: bool,
    part: Range<u64>,
    point: &Point,
) -> Result<Times, String> {
    let mut times = Times::default();
    for round in 0..point.rounds {
        point.begin(round)?;
        times.begins.push(Instant::now());
        let mut at = part.start;
        if !part.is_empty() {
            end.begin(part.end - part.start)?;
        }
        while at < part.end {
            let free = point.wait(node, || {
                let now = node.now();
                node.poll(|nic| end.act(now, nic, false))?;
                Ok(Some(end.free() as u64).filter(|&free| free > 0))
            })?;
            let next = part.end.min(at + free);
            end.fill(&point.data, at..next, next == part.end);
            let now = node.now();
            node.with(|nic| end.act(now, nic, true))?;
            at = next;
        }
        point.wait(node, || {
            let now = node.now();
            node.poll(|nic| end.act(now, nic, false))?;
            Ok(end.is_over().then_some(()))
        })?;
        if !is_consumed {
            times.ends.push(Instant::now());
        }
    }
    match end.holds(&point.data, &part) {
        true => Ok(times),
        false => Err("the receive buffers hold something else".into()),
    }
}

/// Takes a part of the data. Returns when each transfer ended.
fn take(
    node: &Node,
    end: &mut dyn Inlet,
    part: Range<u64>,
    point: &Point,
) -> Result<Times, String> {
    let mut times = Times::default();
    let len = (part.end - part.start) as usize;
    let mut target = Vec::with_capacity(len);
    for round in 0..point.rounds {
        target.clear();
        point.begin(round)?;
        while target.len() < len {
            point.wait(node, || node.poll(|nic| end.take(nic, &mut target)))?;
            let now = node.now();
            node.with(|nic| end.release(now, nic))?;
        }
        times.ends.push(Instant::now());
        // The sender must learn of the release before the next round.
        point.wait(node, || {
            let now = node.now();
            let settled = node.poll(|nic| end.settle(now, nic))?;
            Ok(settled.then_some(()))
        })?;
    }
    match target.len() == len && point.data.is(part.start, &target) {
        true => Ok(times),
        false => Err("other bytes came than were sent".into()),
    }
}

#[cfg(test)]
mod tests;
