//! The thread of the throughput test.

use super::{Task, Thread, spend, wait};
use crate::baseline::raw_writer::{RawWriter, RawWriterError};
use crate::baseline::single_buffer::{HEADER_BYTES, PackageHeader};
use crate::experiment::communication::testbed::Core;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

/// Writes its part of the data to receive buffers that nobody reads.
pub struct RawSender {
    /// Its writer.
    pub writer: Rc<RefCell<RawWriter>>,
    /// Bytes of its part.
    pub bytes: u64,
}

impl Task for RawSender {
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut writer, data) = (self.writer.borrow_mut(), thread.data.clone());
        let (_, spent) = thread.act(context, |verbs| {
            if writer.poll(verbs)? {
                verbs.pay(Core::news);
            }
            if writer.is_filled() {
                writer.post(verbs)?;
            }
            Ok::<_, RawWriterError>(())
        })?;
        if spent > Duration::ZERO {
            // What was posted is to go before the next package is copied.
            return Ok(spend(context, spent));
        }
        let rest = thread.rest();
        if rest == 0 && writer.is_idle() {
            thread.arrived(context.now(), self.bytes);
            thread.written(context.now());
            return Ok(Step::Done);
        }
        if rest == 0 || !writer.has_room() {
            return Ok(wait(context, &thread.core, 1));
        }
        let len = rest.min(writer.payload_max() as u64);
        let offset = thread.part.start;
        let header = PackageHeader {
            code: 1,
            length: len,
            total: data.bytes(),
            offset,
        };
        writer.fill(header, data.pieces(offset, len as usize));
        thread.part.start += len;
        let copied = len + HEADER_BYTES as u64;
        let copy = thread.core.copy_in(copied, thread.area);
        Ok(spend(context, copy))
    }
}
