//! The two threads of a channel of the multi-buffer protocol.

use super::{Task, Thread, spend, wait};
use crate::experiment::communication::testbed::Core;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_endpoint::messaging::{Arrived, Closed, Receiver, Sender};
use rackweave_sim::world::{Context, Step};
use rackweave_wire::fabric::message::PIECE_HEADER_LEN;
use std::rc::Rc;

/// Sends its part of the data as a message on a channel.
pub struct MultiSender {
    /// Its end.
    sender: Rc<RefCell<Sender>>,
    /// Whether the message has been begun.
    begun: bool,
    /// Whether the last WRITE has ended.
    written: bool,
    /// Words that say which receive buffers are free.
    words: u64,
}

impl MultiSender {
    /// Nothing is sent yet; so many words say which receive buffers are free.
    pub fn new(sender: Rc<RefCell<Sender>>, words: u64) -> Self {
        Self {
            sender,
            begun: false,
            written: false,
            words,
        }
    }
}

impl Task for MultiSender {
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut sender, now) = (self.sender.borrow_mut(), context.now());
        let (_, spent) = thread.act(context, |verbs| {
            let happened = sender.poll(now, verbs)?;
            if happened {
                verbs.pay(Core::news);
            }
            Ok::<_, Closed>(())
        })?;
        let rest = thread.rest();
        if rest == 0 && self.begun && !self.written && sender.is_delivered() {
            self.written = true;
            thread.written(now + spent);
        }
        if spent > Duration::ZERO {
            return Ok(spend(context, spent));
        }
        if !self.begun {
            self.begun = true;
            if rest == 0 {
                return Ok(Step::Done);
            }
            let begun = sender.begin(1, rest);
            begun.map_err(|error| error.to_string())?;
        }
        if rest == 0 && sender.is_consumed() {
            return Ok(Step::Done);
        }
        let mut space = sender.space();
        if space.is_empty() {
            return Ok(wait(context, &thread.core, self.words));
        }
        let len = space.len();
        let mut bytes = vec![0; len];
        thread.data.copy(thread.part.start, &mut bytes);
        space.copy_from(&bytes);
        sender.commit(len);
        thread.part.start += len as u64;
        if thread.rest() == 0 {
            sender.flush();
        }
        let copied = (len + PIECE_HEADER_LEN) as u64;
        let copy = thread.core.copy_in(copied, thread.area);
        Ok(spend(context, copy))
    }
}

/// Takes a part of the data from a channel.
pub struct MultiTaker {
    /// Its end.
    receiver: Rc<RefCell<Receiver>>,
    /// Bytes copied out in the step before.
    taken: u64,
    /// Where its part begins.
    begin: u64,
}

impl MultiTaker {
    /// Nothing is taken yet of the part that begins there.
    pub fn new(receiver: Rc<RefCell<Receiver>>, begin: u64) -> Self {
        Self {
            receiver,
            taken: 0,
            begin,
        }
    }
}

impl Task for MultiTaker {
    fn go_on(&mut self, thread: &mut Thread, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut receiver, now) = (self.receiver.borrow_mut(), context.now());
        let taken = core::mem::take(&mut self.taken);
        let (_, spent) = thread.act(context, |verbs| {
            if taken > 0 {
                receiver.release();
                receiver.poll(now, verbs)?;
            }
            Ok::<_, Closed>(())
        })?;
        if taken > 0 {
            thread.part.start += taken;
            thread.arrived(now, taken);
            return Ok(spend(context, spent));
        }
        if thread.rest() == 0 {
            return Ok(Step::Done);
        }
        let arrived = receiver.peek().map_err(|error| error.to_string())?;
        let Arrived::Piece(piece) = arrived else {
            return Ok(wait(context, &thread.core, 1));
        };
        let is_right = piece.offset == thread.part.start - self.begin
            && piece.total == thread.part.end - self.begin
            && thread.data.is(thread.part.start, &piece.bytes.to_vec());
        if !is_right {
            let (offset, total) = (piece.offset, piece.total);
            return Err(format!("bytes {offset} of {total}: not what was sent"));
        }
        self.taken = piece.bytes.len() as u64;
        let core = thread.core;
        let bytes = self.taken + PIECE_HEADER_LEN as u64;
        let copy = core.news() + core.copy_out(bytes, thread.area) + core.clear(bytes);
        Ok(spend(context, copy))
    }
}
