//! Both nodes with their ends, and successive measurements on them in virtual time. Each thread has
//! its own core.
//!
//! A step of a thread uses the verbs or copies a package, and its time passes afterwards: what it
//! posts reaches the NIC at the beginning of the next step.

use super::ends::{self, Core};
use super::sweep::{Shape, Way};
use super::ways::{Data, Inlet, Outlet};
use crate::harness::metered::Outbox;
use crate::harness::prelude::*;
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};

/// Time after which a measurement has failed: 4 GiB at 10 MB/s.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Pause between two measurements, in which pending acknowledgements arrive.
const REST: Duration = Duration::from_micros(20);

pub struct NodePair {
    rack: Testbed,
    shape: Shape,
    /// The ends of each thread, which are reused by those of each measurement.
    ends: Vec<SharedEnds>,
    data: Data,
    measured: usize,
}

/// State passed from the threads of one measurement to those of the next.
type Shared<T> = Rc<RefCell<Box<T>>>;

/// The ends of a thread, as in [`ends::Ends`].
type SharedEnds = (Shared<dyn Outlet>, Option<Shared<dyn Inlet>>);

impl NodePair {
    /// Builds the testbed; `seed` determines everything random.
    pub fn new(shape: Shape, seed: u64) -> Result<Self> {
        let rack = ends::rack(seed, ends::memory_of(&shape))?;
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

    /// Sends `bytes` bytes once. Returns the seconds since the storage node had the data, until all
    /// bytes were in their final place (consumed, if they are consumed), and until the storage node
    /// learned that the last WRITE had ended.
    pub fn measure(&mut self, run: &mut Run<'_>, bytes: u64) -> Result<[f64; 2]> {
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
        Ok([report.ended, report.written].map(|at| at.since(begins).as_secs_f64()))
    }

    fn spawn(&mut self, data: &Data, report: &Rc<RefCell<Report>>) {
        let shape = self.shape;
        let thread = |node: NodeId, part: Range<u64>, area: u64| Thread {
            core: Core::new(node),
            data: data.clone(),
            begin: part.start,
            part,
            area,
            header: shape.header(),
            report: report.clone(),
            outbox: Outbox::default(),
        };
        let words = match shape.way {
            Way::Multi => u64::from(shape.buffers / shape.threads),
            Way::Raw | Way::Single => 1,
        };
        for (at, (near, far)) in (0..).zip(&self.ends) {
            let part = shape.share(at, data.bytes);
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

/// The results that the threads of a measurement report.
#[derive(Debug, Default)]
struct Report {
    /// When the last byte was in its final place.
    ended: Instant,
    /// When the sender learned that its last WRITE had ended.
    written: Instant,
    /// The number of bytes in their final place.
    bytes: u64,
}

struct Thread {
    core: Core,
    data: Data,
    /// Its part of the data that is still to be sent or taken.
    part: Range<u64>,
    begin: u64,
    /// Bytes of the buffers that it reuses.
    area: u64,
    /// Bytes of a package's header.
    header: u64,
    report: Rc<RefCell<Report>>,
    outbox: Outbox,
}

impl Thread {
    fn rest(&self) -> u64 {
        self.part.end - self.part.start
    }

    /// Records that `bytes` more bytes are in their final place.
    fn arrived(&self, at: Instant, bytes: u64) {
        let mut report = self.report.borrow_mut();
        report.ended = report.ended.max(at);
        report.bytes += bytes;
    }

    fn written(&self, at: Instant) {
        let mut report = self.report.borrow_mut();
        report.written = report.written.max(at);
    }

    /// Passes the work posted in the preceding step to the NIC, and runs `act` on the verbs.
    /// Returns the cost.
    fn act<R>(
        &mut self,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut Metered<'_, Core>) -> Result<R, String>,
    ) -> Result<(R, Duration), String> {
        self.outbox.flush(context.nic())?;
        let mut verbs = Metered::with(context.nic(), Some(&mut self.outbox), self.core);
        let result = act(&mut verbs)?;
        Ok((result, verbs.spent()))
    }
}

fn spend(context: &mut Context<'_>, time: Duration) -> Step {
    context.charge(Category::Communication, time);
    Step::Compute(Duration::ZERO)
}

/// Waits for a packet after polling this many words without news.
fn wait(context: &mut Context<'_>, core: &Core, words: u64) -> Step {
    context.charge(Category::Communication, core.look(words));
    Step::WaitForPacket
}

/// Sends its part of the data. It begins to run after `start`, and polls this many words for the
/// receiver's progress.
fn sending(
    mut thread: Thread,
    end: Rc<RefCell<Box<dyn Outlet>>>,
    is_consumed: bool,
    mut start: Duration,
    words: u64,
) -> impl Program {
    // Whether the transfer has begun, a package is filled and ready to post, the last WRITE has
    // ended.
    let (mut begun, mut filled, mut written) = (false, false, false);
    move |context: &mut Context<'_>| -> Turn {
        let start = core::mem::take(&mut start);
        if start > Duration::ZERO {
            return Ok(Step::Sleep(start));
        }
        let (now, mut end) = (context.now(), end.borrow_mut());
        let was_filled = core::mem::take(&mut filled);
        let (_, spent) = thread.act(context, |verbs| {
            if end.act(now, verbs, was_filled)? {
                verbs.pay(Core::news);
            }
            Ok(())
        })?;
        let rest = thread.rest();
        if rest == 0 && begun && !written && end.is_written() {
            written = true;
            thread.written(now + spent);
        }
        if spent > Duration::ZERO {
            // The posted package must leave before the next one is copied.
            return Ok(spend(context, spent));
        }
        if !core::mem::replace(&mut begun, true) && rest > 0 {
            end.begin(rest)?;
        }
        if rest == 0 && end.is_over() {
            if !is_consumed {
                thread.arrived(now, thread.part.end - thread.begin);
            }
            return Ok(Step::Done);
        }
        let len = rest.min(end.free() as u64);
        if len == 0 {
            return Ok(wait(context, &thread.core, words));
        }
        let next = thread.part.start + len;
        let at = core::mem::replace(&mut thread.part.start, next)..next;
        end.fill(&thread.data, at, len == rest);
        filled = true;
        let bytes = len + thread.header;
        let copy = thread.core.copy_in(bytes, thread.area);
        Ok(spend(context, copy))
    }
}

/// Takes its part of the data.
fn taking(mut thread: Thread, end: Rc<RefCell<Box<dyn Inlet>>>) -> impl Program {
    // The bytes copied out in the preceding step.
    let mut taken = Vec::new();
    move |context: &mut Context<'_>| -> Turn {
        let (now, mut end) = (context.now(), end.borrow_mut());
        let before = core::mem::take(&mut taken);
        let (found, spent) = thread.act(context, |verbs| {
            if before.is_empty() {
                return end.take(verbs, &mut taken);
            }
            end.release(now, verbs)?;
            Ok(None)
        })?;
        if !before.is_empty() {
            thread.part.start += before.len() as u64;
            thread.arrived(now, before.len() as u64);
            return Ok(spend(context, spent));
        }
        if thread.rest() == 0 {
            return Ok(Step::Done);
        }
        let Some((offset, total)) = found else {
            context.charge(Category::Communication, spent);
            return Ok(wait(context, &thread.core, 1));
        };
        let part = &thread.part;
        let is_right = offset == part.start - thread.begin
            && total == part.end - thread.begin
            && thread.data.is(part.start, &taken);
        if !is_right {
            return Err(format!("bytes {offset} of {total}: not what was sent"));
        }
        let (core, bytes) = (thread.core, taken.len() as u64 + thread.header);
        let copy = core.news() + core.copy_out(bytes, thread.area) + core.clear(bytes);
        Ok(spend(context, spent + copy))
    }
}
