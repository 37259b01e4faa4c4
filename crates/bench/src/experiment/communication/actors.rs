//! The threads of a measurement in virtual time, each on its own core.
//!
//! A step uses the verbs or copies a package, and its time passes afterwards: what it posts reaches
//! the NIC at the beginning of the next step.

use super::data::Data;
use super::testbed::Core;
use super::ways::{Inlet, Outlet};
use crate::harness::drive::{Program, Turn};
use crate::harness::metered::{Metered, Outbox};
use core::cell::RefCell;
use core::ops::Range;
use rackweave_base::{Duration, Instant};
use rackweave_sim::Category;
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

/// The results that the threads of a measurement report.
#[derive(Debug, Default)]
pub struct Report {
    /// When the last byte was in its final place.
    pub ended: Instant,
    /// When the sender learned that its last WRITE had ended.
    pub written: Instant,
    /// The number of bytes in their final place.
    pub bytes: u64,
}

/// State that every thread has.
pub struct Thread {
    /// Its core, which is charged.
    pub core: Core,
    /// The data that is sent.
    pub data: Data,
    /// Its part of the data that is still to be sent or taken.
    pub part: Range<u64>,
    /// Where its part began.
    pub begin: u64,
    /// Bytes of the buffers that it reuses.
    pub area: u64,
    /// Where it reports.
    pub report: Rc<RefCell<Report>>,
    /// What it has posted in this step.
    pub outbox: Outbox,
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

    /// The thread's last WRITE has ended.
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
pub fn sending(
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
        let bytes = len + end.header_bytes() as u64;
        let copy = thread.core.copy_in(bytes, thread.area);
        Ok(spend(context, copy))
    }
}

/// Takes its part of the data.
pub fn taking(mut thread: Thread, end: Rc<RefCell<Box<dyn Inlet>>>) -> impl Program {
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
        let (core, bytes) = (thread.core, (taken.len() + end.header_bytes()) as u64);
        let copy = core.news() + core.copy_out(bytes, thread.area) + core.clear(bytes);
        Ok(spend(context, spent + copy))
    }
}
