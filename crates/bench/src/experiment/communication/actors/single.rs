//! The two threads of the single buffer.

use super::{Task, Thread, spend, wait};
use crate::baseline::single_buffer::{
    HEADER_BYTES, PackageHeader, SingleBuffer, SingleBufferError,
};
use crate::experiment::communication::testbed::Core;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_sim::Category;
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

/// Sends the data through the single buffer.
pub struct SingleSender {
    /// Its end.
    end: Rc<RefCell<SingleBuffer>>,
    /// Whether a package is filled in and is to be posted.
    filled: bool,
    /// Whether the last WRITE has ended.
    written: bool,
}

impl SingleSender {
    /// Nothing is sent yet.
    pub fn new(end: Rc<RefCell<SingleBuffer>>) -> Self {
        Self {
            end,
            filled: false,
            written: false,
        }
    }
}

impl Task for SingleSender {
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut end, data) = (self.end.borrow_mut(), thread.data.clone());
        let filled = core::mem::take(&mut self.filled);
        let (_, spent) = thread.act(context, |verbs| {
            if filled {
                end.post(verbs)?;
            } else if end.poll(verbs)? {
                verbs.pay(Core::news);
            }
            Ok::<_, SingleBufferError>(())
        })?;
        let rest = thread.rest();
        if rest == 0 && !filled && !self.written && end.is_settled() {
            self.written = true;
            thread.written(context.now() + spent);
        }
        if spent > Duration::ZERO {
            return Ok(spend(context, spent));
        }
        if !end.is_free() {
            return Ok(wait(context, &thread.core, 1));
        }
        if rest == 0 {
            return Ok(Step::Done);
        }
        let len = rest.min(end.payload_max() as u64);
        let offset = thread.part.start;
        let header = PackageHeader {
            code: 1,
            length: len,
            total: data.bytes(),
            offset,
        };
        end.fill(header, data.pieces(offset, len as usize));
        thread.part.start += len;
        self.filled = true;
        let copied = len + HEADER_BYTES as u64;
        let copy = thread.core.copy_in(copied, thread.area);
        Ok(spend(context, copy))
    }
}

/// Takes the data out of the single buffer.
pub struct SingleTaker {
    /// Its end.
    end: Rc<RefCell<SingleBuffer>>,
    /// Bytes copied out in the step before.
    taken: u64,
    /// Where they were copied to.
    target: Vec<u8>,
}

impl SingleTaker {
    /// Nothing is taken yet.
    pub fn new(end: Rc<RefCell<SingleBuffer>>) -> Self {
        Self {
            end,
            taken: 0,
            target: Vec::new(),
        }
    }
}

impl Task for SingleTaker {
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String> {
        let mut end = self.end.borrow_mut();
        let taken = core::mem::take(&mut self.taken);
        let (found, spent) = thread.act(context, |verbs| {
            if taken > 0 {
                end.release(verbs)?;
                return Ok(None);
            }
            end.poll(verbs)?;
            end.look()
        })?;
        if taken > 0 {
            thread.part.start += taken;
            thread.arrived(context.now(), taken);
            return Ok(spend(context, spent));
        }
        if thread.rest() == 0 {
            return Ok(Step::Done);
        }
        let Some(header) = found else {
            context.charge(Category::Communication, spent);
            return Ok(wait(context, &thread.core, 1));
        };
        self.target.resize(header.length as usize, 0);
        end.copy_out(&mut self.target);
        let is_right = header.offset == thread.part.start
            && header.total == thread.data.bytes()
            && thread.data.is(header.offset, &self.target);
        if !is_right {
            return Err(format!("{header:?}: not what was sent"));
        }
        self.taken = header.length;
        let core = thread.core;
        let bytes = header.length + HEADER_BYTES as u64;
        let copy = core.news() + core.copy_out(bytes, thread.area) + core.clear(bytes);
        Ok(spend(context, spent + copy))
    }
}
