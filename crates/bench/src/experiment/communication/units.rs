//! Both units with their ends, and the measurements that are made on them one after the other.

use super::actors::{
    MultiSender, MultiTaker, RawSender, Report, Running, SingleSender, SingleTaker, Task, Thread,
};
use super::data::Data;
use super::ends::{self, Ends};
use super::shape::Shape;
use super::testbed::{self, Core};
use crate::baseline::raw_writer::{RawTarget, RawWriter};
use crate::baseline::single_buffer::{HEADER_BYTES, SingleBuffer};
use crate::experiment::drive::{Until, drive, failed};
use crate::experiment::{ExperimentError, Run};
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::messaging::{Receiver, Sender};
use rackweave_rack::SimulatedRack;
use rackweave_sim::devices;
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use rackweave_verbs::Region;
use std::rc::Rc;

/// After which a measurement has failed: 4 GiB at 10 MB/s.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Between two measurements, so that what is under way ends: acknowledgements.
const REST: Duration = Duration::from_micros(20);

/// A rack with the ends of a shape.
pub struct Units {
    rack: SimulatedRack,
    shape: Shape,
    threads: Threads,
    data: Data,
    measured: usize,
}

/// Seconds from when the storage unit had the data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Took {
    /// Until all bytes were where they should be: consumed, if anybody consumes.
    pub all: f64,
    /// Until the storage unit knew that the last WRITE had ended.
    pub writing: f64,
}

/// The ends, which threads of each measurement use anew.
enum Threads {
    Raw(Vec<Shared<RawWriter>>, Region),
    Single([Shared<SingleBuffer>; 2]),
    Multi(Vec<(Shared<Sender>, Shared<Receiver>)>),
}

/// What the threads of one measurement after the other have.
type Shared<T> = Rc<RefCell<T>>;

fn shared<T>(value: T) -> Shared<T> {
    Rc::new(RefCell::new(value))
}

impl Units {
    /// Builds the testbed; everything random comes from `seed`.
    pub fn new(shape: Shape, seed: u64) -> Result<Self, ExperimentError> {
        let rack = testbed::rack(seed, ends::memory_of(&shape))?;
        let now = rack.now();
        let threads = match Ends::new(&rack, &shape, now, seed)? {
            Ends::Raw(writers, target) => {
                Threads::Raw(writers.into_iter().map(shared).collect(), target)
            }
            Ends::Single(ends) => Threads::Single((*ends).map(shared)),
            Ends::Multi(channels) => {
                let channels = channels.into_iter();
                Threads::Multi(channels.map(|(a, b)| (shared(a), shared(b))).collect())
            }
        };
        Ok(Self {
            rack,
            shape,
            threads,
            data: Data::none(seed),
            measured: 0,
        })
    }

    /// Sends `bytes` bytes once and returns what that took.
    pub fn measure(&mut self, run: &mut Run<'_>, bytes: u64) -> Result<Took, ExperimentError> {
        let data = self.data.series(self.measured, bytes);
        self.measured += 1;
        let begins = self.rack.now();
        let report = shared(Report::default());
        let before = self.packages();
        self.spawn(&data, &report);
        let failure = || report.borrow().failure.clone();
        drive(run, &mut self.rack, Until::Done(TIME_MAX), &failure)?;
        self.rack.run(self.rack.now() + REST);
        let report = report.borrow();
        if report.bytes != bytes {
            let found = report.bytes;
            return Err(failed("the data", format!("{found} of {bytes} bytes came")));
        }
        self.check(&data, &before)?;
        Ok(Took {
            all: report.ended.since(begins).as_secs_f64(),
            writing: report.written.since(begins).as_secs_f64(),
        })
    }

    fn spawn(&mut self, data: &Data, report: &Rc<RefCell<Report>>) {
        let shape = self.shape;
        let [storage, compute] = [STORAGE, COMPUTE].map(Core::new);
        let part = |thread: usize| shape.share(thread as u8, data.bytes());
        let sends = |thread: usize| {
            let area = shape.parts() * shape.bytes;
            let mut made = Thread::new(storage, data, part(thread), area, report);
            made.start = start(shape.threads, thread);
            made
        };
        let takes = |thread: usize| {
            let area = shape.receive_bytes();
            Thread::new(compute, data, part(thread), area, report)
        };
        match &self.threads {
            Threads::Raw(writers, _) => {
                for (at, writer) in writers.iter().enumerate() {
                    let task = RawSender {
                        writer: writer.clone(),
                        bytes: part(at).end - part(at).start,
                    };
                    spawn(&mut self.rack, STORAGE, sends(at), task);
                }
            }
            Threads::Single([near, far]) => {
                let (sender, taker) = (near.clone(), far.clone());
                spawn(&mut self.rack, STORAGE, sends(0), SingleSender::new(sender));
                spawn(&mut self.rack, COMPUTE, takes(0), SingleTaker::new(taker));
            }
            Threads::Multi(channels) => {
                for (at, (sender, receiver)) in channels.iter().enumerate() {
                    let words = u64::from(shape.buffers / shape.threads);
                    let sender = MultiSender::new(sender.clone(), words);
                    let taker = MultiTaker::new(receiver.clone(), part(at).start);
                    spawn(&mut self.rack, STORAGE, sends(at), sender);
                    spawn(&mut self.rack, COMPUTE, takes(at), taker);
                }
            }
        }
    }

    /// How many packages each raw writer has written.
    fn packages(&self) -> Vec<u64> {
        match &self.threads {
            Threads::Raw(writers, _) => {
                let writers = writers.iter();
                writers.map(|writer| writer.borrow().packages()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Demands that the receive buffers hold what raw writers wrote there last. In the other ways
    /// every byte was looked at when it was consumed.
    fn check(&self, data: &Data, before: &[u64]) -> Result<(), ExperimentError> {
        let Threads::Raw(writers, region) = &self.threads else {
            return Ok(());
        };
        for (at, writer) in writers.iter().enumerate() {
            let part = self.shape.share(at as u8, data.bytes());
            let first = before.get(at).copied().unwrap_or(0);
            let target = writer.borrow().target();
            let is_there = holds(region, &target, data, (part, self.shape.payload()), first);
            if !is_there {
                let what = format!("buffers of thread {at} hold something else");
                return Err(failed("the data", what));
            }
        }
        Ok(())
    }
}

fn spawn(rack: &mut SimulatedRack, node: NodeId, thread: Thread, task: impl Task + 'static) {
    rack.spawn(node, Box::new(Running { thread, task }));
}

/// When a thread of several begins to run: they are started one after the other.
fn start(threads: u8, thread: usize) -> Duration {
    match threads {
        1 => Duration::ZERO,
        _ => devices::THREAD_START * (thread as u64 + 1),
    }
}

/// Whether a raw writer's buffers hold the last packages of its part; `first` is the number of its
/// first package.
pub fn holds(
    region: &Region,
    target: &RawTarget,
    data: &Data,
    (part, payload): (Range<u64>, u64),
    first: u64,
) -> bool {
    let packages = (part.end - part.start).div_ceil(payload);
    let mut bytes = Vec::new();
    (packages.saturating_sub(target.own.1)..packages).all(|package| {
        let offset = part.start + package * payload;
        let len = payload.min(part.end - offset);
        bytes.resize(len as usize, 0);
        let buffer = target.buffer_of(first + package);
        let at = target.offset_of(buffer) as usize + HEADER_BYTES;
        region.block.read(at, &mut bytes);
        data.is(offset, &bytes)
    })
}
