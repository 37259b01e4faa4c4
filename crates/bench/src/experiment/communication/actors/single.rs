//! The two threads of the single buffer.

use super::{Thread, spend, step, wait};
use crate::baseline::single_buffer::{
    HEADER_BYTES, PackageHeader, SingleBuffer, SingleBufferError,
};
use crate::experiment::communication::testbed::Core;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_sim::Category;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// Sends the data through the single buffer.
pub struct SingleSender {
    /// What it has.
    pub thread: Thread,
    /// Its end.
    pub end: Rc<RefCell<SingleBuffer>>,
    /// Whether a package is filled in and is to be posted.
    pub filled: bool,
    /// Whether the last WRITE has ended.
    pub written: bool,
}

impl SingleSender {
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut end, data) = (self.end.borrow_mut(), self.thread.data.clone());
        let filled = core::mem::take(&mut self.filled);
        let (_, spent) = self.thread.act(context, |verbs| {
            if filled {
                end.post(verbs)?;
            } else if end.poll(verbs)? {
                verbs.pay(Core::news);
            }
            Ok::<_, SingleBufferError>(())
        })?;
        let rest = self.thread.rest();
        if rest == 0 && !filled && !self.written && end.is_settled() {
            self.written = true;
            self.thread.written(context.now() + spent);
        }
        if spent > Duration::ZERO {
            return Ok(spend(context, spent));
        }
        if !end.is_free() {
            return Ok(wait(context, &self.thread.core, 1));
        }
        if rest == 0 {
            return Ok(Step::Done);
        }
        let len = rest.min(end.payload_max() as u64);
        let offset = self.thread.part.start;
        let header = PackageHeader {
            code: 1,
            length: len,
            total: data.bytes(),
            offset,
        };
        end.fill(header, data.pieces(offset, len as usize));
        self.thread.part.start += len;
        self.filled = true;
        let copied = len + HEADER_BYTES as u64;
        let copy = self.thread.core.copy_in(copied, self.thread.area);
        Ok(spend(context, copy))
    }
}

impl Actor for SingleSender {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        step(self, context, |this| &mut this.thread, Self::go_on)
    }
}

/// Takes the data out of the single buffer.
pub struct SingleTaker {
    /// What it has.
    pub thread: Thread,
    /// Its end.
    pub end: Rc<RefCell<SingleBuffer>>,
    /// Bytes copied out in the step before.
    pub taken: u64,
    /// Where they were copied to.
    pub target: Vec<u8>,
}

impl SingleTaker {
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Step, String> {
        let mut end = self.end.borrow_mut();
        let taken = core::mem::take(&mut self.taken);
        let (found, spent) = self.thread.act(context, |verbs| {
            if taken > 0 {
                end.release(verbs)?;
                return Ok(None);
            }
            end.poll(verbs)?;
            end.look()
        })?;
        if taken > 0 {
            self.thread.part.start += taken;
            self.thread.arrived(context.now(), taken);
            return Ok(spend(context, spent));
        }
        if self.thread.rest() == 0 {
            return Ok(Step::Done);
        }
        let Some(header) = found else {
            context.charge(Category::Communication, spent);
            return Ok(wait(context, &self.thread.core, 1));
        };
        self.target.resize(header.length as usize, 0);
        end.copy_out(&mut self.target);
        let is_right = header.offset == self.thread.part.start
            && header.total == self.thread.data.bytes()
            && self.thread.data.is(header.offset, &self.target);
        if !is_right {
            return Err(format!("{header:?}: not what was sent"));
        }
        self.taken = header.length;
        let core = self.thread.core;
        let bytes = header.length + HEADER_BYTES as u64;
        let copy = core.news() + core.copy_out(bytes, self.thread.area) + core.clear(bytes);
        Ok(spend(context, spent + copy))
    }
}

impl Actor for SingleTaker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        step(self, context, |this| &mut this.thread, Self::go_on)
    }
}
