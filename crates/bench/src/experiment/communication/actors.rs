//! The threads of a measurement in virtual time, and what their cores spend.
//!
//! What a step has posted reaches the NIC when its time has passed, in the next step. Bytes are
//! there at the beginning of the step that copies them, and nobody is told before its end.

mod multi;
mod raw;
mod single;

pub use multi::{MultiSender, MultiTaker};
pub use raw::RawSender;
pub use single::{SingleSender, SingleTaker};

use super::data::Data;
use super::testbed::Core;
use crate::experiment::metered::{Metered, Outbox};
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::{Duration, Instant};
use rackweave_sim::Category;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// What the threads of a measurement have to tell.
#[derive(Debug, Default)]
pub struct Report {
    /// When the last byte was where it should be.
    pub ended: Instant,
    /// When the sender knew that its last WRITE had ended.
    pub written: Instant,
    /// The bytes that are there.
    pub bytes: u64,
    /// What went wrong first.
    pub failure: Option<String>,
}

/// What every thread has.
pub struct Thread {
    /// What it pays.
    pub core: Core,
    /// The data that is sent.
    pub data: Data,
    /// Its part of it.
    pub part: Range<u64>,
    /// Bytes of the buffers that it uses over and over.
    pub area: u64,
    /// When it begins to run.
    pub start: Duration,
    /// Where it reports.
    pub report: Rc<RefCell<Report>>,
    outbox: Outbox,
}

impl Thread {
    /// A thread of its own core.
    pub fn new(
        core: Core,
        data: &Data,
        part: Range<u64>,
        area: u64,
        report: &Rc<RefCell<Report>>,
    ) -> Self {
        Self {
            core,
            data: data.clone(),
            part,
            area,
            start: Duration::ZERO,
            report: report.clone(),
            outbox: Outbox::default(),
        }
    }

    fn rest(&self) -> u64 {
        self.part.end - self.part.start
    }

    /// So many bytes more are where they should be.
    fn arrived(&self, at: Instant, bytes: u64) {
        let mut report = self.report.borrow_mut();
        report.ended = report.ended.max(at);
        report.bytes += bytes;
    }

    /// The thread's last WRITE has ended.
    fn written(&self, at: Instant) {
        let mut report = self.report.borrow_mut();
        report.written = report.written.max(at);
    }

    fn fail(&self, error: impl core::fmt::Display) -> Step {
        let mut report = self.report.borrow_mut();
        report.failure.get_or_insert(error.to_string());
        Step::Done
    }

    /// Hands to the NIC what the step before has posted, and has `act` use the verbs; what that
    /// costs.
    fn act<R, E: core::fmt::Display>(
        &mut self,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut Metered<'_, Core>) -> Result<R, E>,
    ) -> Result<(R, Duration), String> {
        self.outbox.flush(context.nic())?;
        let mut verbs = Metered::with(context.nic(), Some(&mut self.outbox), self.core);
        let result = act(&mut verbs).map_err(|error| error.to_string())?;
        Ok((result, verbs.spent()))
    }
}

fn spend(context: &mut Context<'_>, time: Duration) -> Step {
    context.charge(Category::Communication, time);
    Step::Compute(Duration::ZERO)
}

/// Waits for a packet after a look at so many words in vain.
fn wait(context: &mut Context<'_>, core: &Core, words: u64) -> Step {
    context.charge(Category::Communication, core.look(words));
    Step::WaitForPacket
}

/// What a thread does.
pub trait Task {
    /// A step of it.
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String>;
}

/// A thread that does something, from its start on.
pub struct Running<T> {
    /// What every thread has.
    pub thread: Thread,
    /// What it does.
    pub task: T,
}

impl<T: Task> Actor for Running<T> {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let start = core::mem::take(&mut self.thread.start);
        if start > Duration::ZERO {
            return Step::Sleep(start);
        }
        let result = self.task.go_on(&mut self.thread, context);
        result.unwrap_or_else(|error| self.thread.fail(error))
    }
}
