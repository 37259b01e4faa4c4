//! Both units with their ends, and the measurements that are made on them one after the other.

use super::actors::{
    MultiSender, MultiTaker, RawThread, Report, SingleSender, SingleTaker, Thread,
};
use super::data::Data;
use super::ends::{self, Ends};
use super::shape::Shape;
use super::testbed::{self, Core};
use crate::baseline::raw_writer::{RawTarget, RawWriter};
use crate::baseline::single_buffer::{HEADER_BYTES, SingleBuffer};
use crate::experiment::ExperimentError;
use crate::experiment::drive::failed;
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::Duration;
use rackweave_endpoint::messaging::{Receiver, Sender};
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::devices;
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use rackweave_verbs::Region;
use std::rc::Rc;

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_millis(2);

/// After which a measurement has failed: 4 GiB at 10 MB/s.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Between two measurements, so that what is under way ends: acknowledgements.
const REST: Duration = Duration::from_micros(20);

/// A rack with the ends of a shape.
pub struct Stage {
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

impl Stage {
    /// Builds the testbed; everything random comes from `seed`.
    ///
    /// # Errors
    /// If the rack cannot be built.
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

    /// Sends `bytes` bytes once and returns what that took; `go_on` says whether to go on.
    ///
    /// # Errors
    /// If other bytes arrive than were sent, nothing moves, or the user wishes to stop.
    pub fn measure(
        &mut self,
        bytes: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Took, ExperimentError> {
        let data = self.data.series(self.measured, bytes);
        self.measured += 1;
        let begins = self.rack.now();
        let report = shared(Report::default());
        let before = self.packages();
        self.spawn(&data, &report);
        self.drive(&report, go_on)?;
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

    fn drive(
        &mut self,
        report: &RefCell<Report>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), ExperimentError> {
        let until = self.rack.now() + TIME_MAX;
        loop {
            let end = self.rack.run(self.rack.now() + SLICE);
            if let Some(failure) = &report.borrow().failure {
                return Err(ExperimentError::Run(failure.clone()));
            }
            if !go_on() {
                return Err(ExperimentError::Interrupted);
            }
            match end {
                RunEnd::Done => break,
                RunEnd::Deadline | RunEnd::Control(_) if self.rack.now() < until => {}
                _ => return Err(ExperimentError::Run("nothing moves any more".into())),
            }
        }
        self.rack.run(self.rack.now() + REST);
        Ok(())
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
                    let actor = RawThread {
                        thread: sends(at),
                        writer: writer.clone(),
                        bytes: part(at).end - part(at).start,
                    };
                    self.rack.spawn(STORAGE, Box::new(actor));
                }
            }
            Threads::Single([near, far]) => {
                let sender = SingleSender {
                    thread: sends(0),
                    end: near.clone(),
                    filled: false,
                    written: false,
                };
                let taker = SingleTaker {
                    thread: takes(0),
                    end: far.clone(),
                    taken: 0,
                    target: Vec::new(),
                };
                self.rack.spawn(STORAGE, Box::new(sender));
                self.rack.spawn(COMPUTE, Box::new(taker));
            }
            Threads::Multi(channels) => {
                for (at, (sender, receiver)) in channels.iter().enumerate() {
                    let sender = MultiSender {
                        thread: sends(at),
                        sender: sender.clone(),
                        begun: false,
                        written: false,
                        words: u64::from(shape.buffers / shape.threads),
                    };
                    let taker = MultiTaker {
                        thread: takes(at),
                        receiver: receiver.clone(),
                        taken: 0,
                        begin: part(at).start,
                    };
                    self.rack.spawn(STORAGE, Box::new(sender));
                    self.rack.spawn(COMPUTE, Box::new(taker));
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
