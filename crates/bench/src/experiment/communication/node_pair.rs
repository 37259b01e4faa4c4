//! Both nodes with their ends, and successive measurements on them.

use super::actors::{Report, Sending, Taking, Thread};
use super::data::Data;
use super::ends::{self, Ends};
use super::shape::{Shape, Way};
use super::testbed::{self, Core};
use super::ways::{Inlet, Outlet};
use crate::baseline::raw_writer::RawWriter;
use crate::baseline::single_buffer::{HEADER_BYTES, SingleBuffer};
use crate::harness::drive::{Testbed, Until, failed};
use crate::harness::metered::Outbox;
use crate::harness::{Result, Run};
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::messaging::{Receiver, Sender};
use rackweave_sim::devices;
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use rackweave_verbs::Region;
use std::rc::Rc;

/// Time after which a measurement has failed: 4 GiB at 10 MB/s.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Pause between two measurements, in which pending acknowledgements arrive.
const REST: Duration = Duration::from_micros(20);

/// A rack with the ends of a shape.
pub struct NodePair {
    rack: Testbed,
    shape: Shape,
    threads: Threads,
    data: Data,
    measured: usize,
}

/// Seconds since the storage node had the data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Took {
    /// Until all bytes were in their final place: consumed, if they are consumed.
    pub all: f64,
    /// Until the storage node learned that the last WRITE had ended.
    pub writing: f64,
}

/// The ends, which are reused by the threads of each measurement.
enum Threads {
    Raw(Vec<Shared<RawWriter>>, Region),
    Single([Shared<SingleBuffer>; 2]),
    Multi(Vec<(Shared<Sender>, Shared<Receiver>)>),
}

/// State passed from the threads of one measurement to those of the next.
type Shared<T> = Rc<RefCell<T>>;

fn shared<T>(value: T) -> Shared<T> {
    Rc::new(RefCell::new(value))
}

impl NodePair {
    /// Builds the testbed; `seed` determines everything random.
    pub fn new(shape: Shape, seed: u64) -> Result<Self> {
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

    /// Sends `bytes` bytes once and returns the times it took.
    pub fn measure(&mut self, run: &mut Run<'_>, bytes: u64) -> Result<Took> {
        let data = self.data.series(self.measured, bytes);
        self.measured += 1;
        let begins = self.rack.now();
        let report = shared(Report::default());
        self.spawn(&data, &report);
        self.rack.drive(run, Until::Done(TIME_MAX))?;
        let rested = self.rack.now() + REST;
        self.rack.run(rested);
        let report = report.borrow();
        if report.bytes != bytes {
            let found = report.bytes;
            return Err(failed("the data", format!("{found} of {bytes} bytes came")));
        }
        self.check(&data)?;
        Ok(Took {
            all: report.ended.since(begins).as_secs_f64(),
            writing: report.written.since(begins).as_secs_f64(),
        })
    }

    fn spawn(&mut self, data: &Data, report: &Shared<Report>) {
        let rack = &mut self.rack;
        let measurement = Measurement {
            shape: self.shape,
            data,
            report,
        };
        match &self.threads {
            Threads::Raw(writers, _) => {
                for (at, writer) in writers.iter().enumerate() {
                    measurement.send(rack, at, writer);
                }
            }
            Threads::Single([near, far]) => {
                measurement.send(rack, 0, near);
                measurement.take(rack, 0, far);
            }
            Threads::Multi(channels) => {
                for (at, (sender, receiver)) in channels.iter().enumerate() {
                    measurement.send(rack, at, sender);
                    measurement.take(rack, at, receiver);
                }
            }
        }
    }

    /// Asserts that the receive buffers hold what raw writers wrote there last. In the other ways
    /// every byte was checked when it was consumed.
    fn check(&self, data: &Data) -> Result<()> {
        let Threads::Raw(writers, region) = &self.threads else {
            return Ok(());
        };
        for (at, writer) in writers.iter().enumerate() {
            let part = self.shape.share(at as u8, data.bytes());
            if !holds(region, &writer.borrow(), data, part) {
                let what = format!("buffers of thread {at} hold something else");
                return Err(failed("the data", what));
            }
        }
        Ok(())
    }
}

/// The input of all threads of a measurement.
struct Measurement<'a> {
    shape: Shape,
    data: &'a Data,
    report: &'a Shared<Report>,
}

impl Measurement<'_> {
    fn thread(&self, node: NodeId, at: usize, area: u64) -> Thread {
        let part = self.shape.share(at as u8, self.data.bytes());
        Thread {
            core: Core::new(node),
            data: self.data.clone(),
            begin: part.start,
            part,
            area,
            report: self.report.clone(),
            outbox: Outbox::default(),
        }
    }

    fn send(&self, rack: &mut Testbed, at: usize, end: &Shared<impl Outlet + 'static>) {
        let shape = self.shape;
        let thread = Sending {
            thread: self.thread(STORAGE, at, shape.parts() * shape.bytes),
            end: end.clone(),
            start: start(shape.threads, at),
            words: match shape.way {
                Way::Multi => u64::from(shape.buffers / shape.threads),
                Way::Raw | Way::Single => 1,
            },
            begun: false,
            filled: false,
            written: false,
        };
        rack.spawn(STORAGE, thread);
    }

    fn take(&self, rack: &mut Testbed, at: usize, end: &Shared<impl Inlet + 'static>) {
        let thread = Taking {
            thread: self.thread(COMPUTE, at, self.shape.receive_bytes()),
            end: end.clone(),
            taken: Vec::new(),
        };
        rack.spawn(COMPUTE, thread);
    }
}

/// When one of several threads starts to run: they are started one after another.
fn start(threads: u8, thread: usize) -> Duration {
    match threads {
        1 => Duration::ZERO,
        _ => devices::THREAD_START * (thread as u64 + 1),
    }
}

/// Whether a raw writer's buffers hold the last packages of the part of the data that it has just
/// written.
pub fn holds(region: &Region, writer: &RawWriter, data: &Data, part: Range<u64>) -> bool {
    let (target, payload) = (writer.target(), writer.payload_max() as u64);
    let packages = (part.end - part.start).div_ceil(payload);
    let first = writer.packages() - packages;
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
