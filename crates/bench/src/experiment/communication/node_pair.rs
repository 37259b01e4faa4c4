//! Both nodes with their ends, and successive measurements on them.

use super::actors::{Report, Thread, sending, taking};
use super::data::Data;
use super::ends;
use super::shape::{Shape, Way};
use super::testbed::{self, Core};
use super::ways::{Inlet, Outlet};
use crate::harness::drive::{Testbed, Until, failed};
use crate::harness::metered::Outbox;
use crate::harness::{Result, Run};
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::{Duration, NodeId};
use rackweave_sim::devices;
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use std::rc::Rc;

/// Time after which a measurement has failed: 4 GiB at 10 MB/s.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Pause between two measurements, in which pending acknowledgements arrive.
const REST: Duration = Duration::from_micros(20);

/// A rack with the ends of a shape.
pub struct NodePair {
    rack: Testbed,
    shape: Shape,
    /// The ends of each thread, which are reused by those of each measurement.
    ends: Vec<SharedEnds>,
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

/// State passed from the threads of one measurement to those of the next.
type Shared<T> = Rc<RefCell<Box<T>>>;

/// The ends of a thread, as in [`ends::Ends`].
type SharedEnds = (Shared<dyn Outlet>, Option<Shared<dyn Inlet>>);

impl NodePair {
    /// Builds the testbed; `seed` determines everything random.
    pub fn new(shape: Shape, seed: u64) -> Result<Self> {
        let rack = testbed::rack(seed, ends::memory_of(&shape))?;
        let now = rack.now();
        let ends = ends::connect(&rack, &shape, now, seed)?.into_iter();
        let shared = |(near, far): ends::Ends| {
            let far = far.map(|end| Rc::new(RefCell::new(end)));
            (Rc::new(RefCell::new(near)), far)
        };
        let ends = ends.map(shared).collect();
        Ok(Self {
            rack,
            shape,
            ends,
            data: Data::none(seed),
            measured: 0,
        })
    }

    /// Sends `bytes` bytes once and returns the times it took.
    pub fn measure(&mut self, run: &mut Run<'_>, bytes: u64) -> Result<Took> {
        let data = self.data.series(self.measured, bytes);
        self.measured += 1;
        let begins = self.rack.now();
        let report = Rc::<RefCell<Report>>::default();
        self.spawn(&data, &report);
        self.rack.drive(run, Until::Done(TIME_MAX))?;
        let rested = self.rack.now() + REST;
        self.rack.run(rested);
        let report = report.borrow();
        if report.bytes != bytes {
            let found = report.bytes;
            return Err(failed("the data", format!("{found} of {bytes} bytes came")));
        }
        for (at, (near, _)) in self.ends.iter().enumerate() {
            let part = self.shape.share(at as u8, bytes);
            if !near.borrow().holds(&data, &part) {
                let what = format!("buffers of thread {at} hold something else");
                return Err(failed("the data", what));
            }
        }
        Ok(Took {
            all: report.ended.since(begins).as_secs_f64(),
            writing: report.written.since(begins).as_secs_f64(),
        })
    }

    fn spawn(&mut self, data: &Data, report: &Rc<RefCell<Report>>) {
        let shape = self.shape;
        let thread = |node: NodeId, part: Range<u64>, area: u64| Thread {
            core: Core::new(node),
            data: data.clone(),
            begin: part.start,
            part,
            area,
            report: report.clone(),
            outbox: Outbox::default(),
        };
        let words = match shape.way {
            Way::Multi => u64::from(shape.buffers / shape.threads),
            Way::Raw | Way::Single => 1,
        };
        for (at, (near, far)) in (0..).zip(&self.ends) {
            let part = shape.share(at, data.bytes());
            let sender = thread(STORAGE, part.clone(), shape.parts() * shape.bytes);
            let start = start(shape.threads, at);
            let sending = sending(sender, near.clone(), far.is_some(), start, words);
            self.rack.spawn(STORAGE, sending);
            if let Some(far) = far {
                let taker = thread(COMPUTE, part, shape.receive_bytes());
                self.rack.spawn(COMPUTE, taking(taker, far.clone()));
            }
        }
    }
}

/// When one of several threads starts to run: they are started one after another.
fn start(threads: u8, thread: u8) -> Duration {
    match threads {
        1 => Duration::ZERO,
        _ => devices::THREAD_START * (u64::from(thread) + 1),
    }
}
