//! The two threads of a channel of the multi-buffer protocol.

use super::{Thread, spend, step, wait};
use crate::experiment::communication::testbed::Core;
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_endpoint::messaging::{Arrived, Closed, Receiver, Sender};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::fabric::message::PIECE_HEADER_LEN;
use std::rc::Rc;

/// Sends its part of the data as a message on a channel.
pub struct MultiSender {
    /// What it has.
    pub thread: Thread,
    /// Its end.
    pub sender: Rc<RefCell<Sender>>,
    /// Whether the message has been begun.
    pub begun: bool,
    /// Whether the last WRITE has ended.
    pub written: bool,
    /// Words that say which receive buffers are free.
    pub words: u64,
}

impl MultiSender {
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut sender, now) = (self.sender.borrow_mut(), context.now());
        let (_, spent) = self.thread.act(context, |verbs| {
            let happened = sender.poll(now, verbs)?;
            if happened {
                verbs.pay(Core::news);
            }
            Ok::<_, Closed>(())
        })?;
        let rest = self.thread.rest();
        if rest == 0 && self.begun && !self.written && sender.is_delivered() {
            self.written = true;
            self.thread.written(now + spent);
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
            return Ok(wait(context, &self.thread.core, self.words));
        }
        let len = space.len();
        let mut bytes = vec![0; len];
        self.thread.data.copy(self.thread.part.start, &mut bytes);
        space.copy_from(&bytes);
        sender.commit(len);
        self.thread.part.start += len as u64;
        if self.thread.rest() == 0 {
            sender.flush();
        }
        let copied = (len + PIECE_HEADER_LEN) as u64;
        let copy = self.thread.core.copy_in(copied, self.thread.area);
        Ok(spend(context, copy))
    }
}

impl Actor for MultiSender {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        step(self, context, |this| &mut this.thread, Self::go_on)
    }
}

/// Takes a part of the data from a channel.
pub struct MultiTaker {
    /// What it has.
    pub thread: Thread,
    /// Its end.
    pub receiver: Rc<RefCell<Receiver>>,
    /// Bytes copied out in the step before.
    pub taken: u64,
    /// Where its part begins.
    pub begin: u64,
}

impl MultiTaker {
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Step, String> {
        let (mut receiver, now) = (self.receiver.borrow_mut(), context.now());
        let taken = core::mem::take(&mut self.taken);
        let (_, spent) = self.thread.act(context, |verbs| {
            if taken > 0 {
                receiver.release();
                receiver.poll(now, verbs)?;
            }
            Ok::<_, Closed>(())
        })?;
        if taken > 0 {
            self.thread.part.start += taken;
            self.thread.arrived(now, taken);
            return Ok(spend(context, spent));
        }
        if self.thread.rest() == 0 {
            return Ok(Step::Done);
        }
        let arrived = receiver.peek().map_err(|error| error.to_string())?;
        let Arrived::Piece(piece) = arrived else {
            return Ok(wait(context, &self.thread.core, 1));
        };
        let is_right = piece.offset == self.thread.part.start - self.begin
            && piece.total == self.thread.part.end - self.begin
            && self
                .thread
                .data
                .is(self.thread.part.start, &piece.bytes.to_vec());
        if !is_right {
            let (offset, total) = (piece.offset, piece.total);
            return Err(format!("bytes {offset} of {total}: not what was sent"));
        }
        self.taken = piece.bytes.len() as u64;
        let core = self.thread.core;
        let bytes = self.taken + PIECE_HEADER_LEN as u64;
        let copy = core.news() + core.copy_out(bytes, self.thread.area) + core.clear(bytes);
        Ok(spend(context, copy))
    }
}

impl Actor for MultiTaker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        step(self, context, |this| &mut this.thread, Self::go_on)
    }
}
