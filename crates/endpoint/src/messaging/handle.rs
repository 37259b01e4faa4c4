//! The ends of a channel for those who wait: they have a node and drive it meanwhile.

use super::receiver::{Arrived, MessageInfo, Piece, Receiver, ReceiverCounters};
use super::sender::{SendError, Sender, SenderCounters};
use super::shared::Closed;
use crate::flow::wait_until;
use rackweave_base::Instant;
use rackweave_verbs::{NodeAccess, Region, Verbs};
use rackweave_wire::fabric::message::CloseReason;
use std::sync::Arc;

/// How long an end that goes away tries to tell the peer why.
const FAREWELL: rackweave_base::Duration = rackweave_base::Duration::from_millis(100);

/// Polls without news between two polls of the NIC. What a thread waits for shows in memory; only
/// the end of a connection shows at the NIC.
const ROUNDS_PER_POLL: u32 = 8;

/// How often a waiting thread polls memory before it drives the rack.
const LOOKS_PER_ROUND: u32 = 2;

/// Sends messages and waits where there is no room. Goes to any thread; dropped, it closes the
/// connection unless it has finished.
pub struct MessageSender {
    node: Arc<dyn NodeAccess>,
    /// There until it is dropped.
    sender: Option<Sender>,
}

/// Receives messages and waits for them. Goes to any thread; dropped, it closes the connection
/// unless the sender has finished.
pub struct MessageReceiver {
    node: Arc<dyn NodeAccess>,
    /// There until it is dropped.
    receiver: Option<Receiver>,
}

impl MessageSender {
    /// Sends on this channel end of `node`.
    pub fn new(node: Arc<dyn NodeAccess>, sender: Sender) -> Self {
        Self {
            node,
            sender: Some(sender),
        }
    }

    /// The machine, to be polled with [`Self::poll`].
    pub fn machine(&mut self) -> &mut Sender {
        self.sender.as_mut().expect("it is not dropped")
    }

    /// What it has done.
    pub fn counters(&self) -> SenderCounters {
        let sender = self.sender.as_ref();
        sender.map(Sender::counters).unwrap_or_default()
    }

    /// Posts what is ready. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self) -> Result<bool, Closed> {
        let Self { node, sender } = self;
        let sender = sender.as_mut().expect("it is not dropped");
        with(&**node, |now, verbs| sender.poll(now, verbs))
    }

    /// Posts what is ready and drives the rack until `done` says so.
    fn wait<R>(
        &mut self,
        mut done: impl FnMut(&mut Sender) -> Result<Option<R>, SendError>,
    ) -> Result<R, SendError> {
        let Self { node, sender } = self;
        let sender = sender.as_mut().expect("it is not dropped");
        let mut rounds = 0_u32;
        wait_until(&**node, || {
            // The NIC may be busy with what is waited for: it is asked when that is of use.
            rounds += 1;
            if sender.could_post() || rounds.is_multiple_of(ROUNDS_PER_POLL) || rounds == 1 {
                let polled = try_with(&**node, |now, verbs| sender.poll(now, verbs));
                if let Some(Err(closed)) = polled {
                    // What is waited for may have happened before.
                    let done = done(sender).transpose();
                    return done.or(Some(Err(closed.into())));
                }
            }
            done(sender).transpose()
        })
    }

    /// Takes a message if there is room for it; sent when polled. False: there is none now.
    ///
    /// # Errors
    /// As for [`Sender::try_send`].
    pub fn try_send(&mut self, opcode: u32, payload: &[u8]) -> Result<bool, SendError> {
        self.machine().try_send(opcode, payload)
    }

    /// Sends a message of any length that was agreed on, and waits until the NIC has it: as long as
    /// there is no room, and no longer. Small messages in great number go faster by
    /// [`Self::try_send`] and a [`Self::poll`] now and then, when many share a package.
    ///
    /// # Errors
    /// If it is too long, the message before unfinished, or the connection closed.
    pub fn send(&mut self, opcode: u32, payload: &[u8]) -> Result<(), SendError> {
        if payload.len() <= self.machine().piece_max() {
            while !self.machine().try_send(opcode, payload)? {
                self.wait(|sender| Ok(sender.has_room().then_some(())))?;
            }
        } else {
            self.machine().begin(opcode, payload.len() as u64)?;
            let mut written = 0;
            self.wait(|sender| {
                written += sender.write(&payload[written..]);
                Ok((written == payload.len()).then_some(()))
            })?;
        }
        self.posted_wait()
    }

    /// Nothing may be left to later polls: there may be none.
    fn posted_wait(&mut self) -> Result<(), SendError> {
        self.machine().flush();
        self.wait(|sender| Ok(sender.is_posted().then_some(())))
    }

    /// Sends `len` bytes at `offset` of a region as a message, without copying them: they must not
    /// change until [`Self::flush_wait`] has come back.
    ///
    /// # Errors
    /// As for [`Self::send`].
    ///
    /// # Panics
    /// If the region does not reach that far.
    pub fn send_region(
        &mut self,
        opcode: u32,
        region: &Region,
        offset: u64,
        len: u64,
    ) -> Result<(), SendError> {
        self.machine().begin(opcode, len)?;
        let mut written = 0;
        self.wait(|sender| {
            written += sender.write_region(region, offset + written, len - written);
            Ok((written == len && !sender.is_writing()).then_some(()))
        })?;
        self.posted_wait()
    }

    /// Waits until everything sent is in the peer's memory.
    ///
    /// # Errors
    /// If the connection is closed before.
    pub fn flush_wait(&mut self) -> Result<(), SendError> {
        self.machine().flush();
        self.wait(|sender| Ok(sender.is_delivered().then_some(())))
    }

    /// Waits until the receiver has released everything sent.
    ///
    /// # Errors
    /// If the connection is closed before.
    pub fn consumed_wait(&mut self) -> Result<(), SendError> {
        self.machine().flush();
        self.wait(|sender| Ok(sender.is_consumed().then_some(())))
    }

    /// Says that nothing follows, and waits until the receiver has released everything.
    ///
    /// # Errors
    /// If a message is unfinished, or the connection is closed before.
    pub fn finish_wait(&mut self) -> Result<(), SendError> {
        self.machine().finish()?;
        self.consumed_wait()
    }

    /// Closes the connection for a reason, which the peer is told.
    pub fn close(mut self, reason: CloseReason) {
        let sender = self.sender.take().expect("it is not dropped");
        go(&*self.node, sender, Some(reason));
    }
}

impl MessageReceiver {
    /// Receives on this channel end of `node`.
    pub fn new(node: Arc<dyn NodeAccess>, receiver: Receiver) -> Self {
        Self {
            node,
            receiver: Some(receiver),
        }
    }

    /// The machine, to be polled with [`Self::poll`].
    pub fn machine(&mut self) -> &mut Receiver {
        self.receiver.as_mut().expect("it is not dropped")
    }

    /// What it has taken.
    pub fn counters(&self) -> ReceiverCounters {
        let receiver = self.receiver.as_ref();
        receiver.map(Receiver::counters).unwrap_or_default()
    }

    /// Tells the sender what is free. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self) -> Result<bool, Closed> {
        let Self { node, receiver } = self;
        let receiver = receiver.as_mut().expect("it is not dropped");
        with(&**node, |now, verbs| receiver.poll(now, verbs))
    }

    /// The oldest piece that has not been released.
    ///
    /// # Errors
    /// As for [`Receiver::peek`].
    pub fn peek(&mut self) -> Result<Arrived<'_>, Closed> {
        self.machine().peek()
    }

    /// The oldest piece that has not been released; waits for one. Nothing: the sender has
    /// finished.
    ///
    /// # Errors
    /// As for [`Receiver::peek`].
    pub fn peek_wait(&mut self) -> Result<Option<Piece<'_>>, Closed> {
        self.wait_for_piece()?;
        match self.machine().peek()? {
            Arrived::Piece(piece) => Ok(Some(piece)),
            Arrived::Finished => Ok(None),
            Arrived::Empty => unreachable!("what has been waited for is there"),
        }
    }

    /// Frees the piece last peeked at, and tells the sender if a buffer is free by that.
    ///
    /// # Errors
    /// If the connection is closed; the piece is released in any case.
    ///
    /// # Panics
    /// If none has been peeked at since the last one.
    pub fn release(&mut self) -> Result<(), Closed> {
        self.machine().release();
        self.tell()
    }

    /// Tells of free buffers. If somebody has the NIC and there is more to receive, it is left to
    /// the next call: there will be one.
    fn tell(&mut self) -> Result<(), Closed> {
        let Self { node, receiver } = self;
        let receiver = receiver.as_mut().expect("it is not dropped");
        if receiver.owes() {
            let polled = try_with(&**node, |now, verbs| receiver.poll(now, verbs));
            match polled {
                Some(polled) => polled?,
                None if receiver.has_package() => false,
                None => with(&**node, |now, verbs| receiver.poll(now, verbs))?,
            };
        }
        Ok(())
    }

    fn wait_for_piece(&mut self) -> Result<(), Closed> {
        let Self { node, receiver } = self;
        let receiver = receiver.as_mut().expect("it is not dropped");
        let mut rounds = 0_u32;
        wait_until(&**node, || {
            // The sending thread may be driving its packets right into this memory. Driving them
            // here would only move them through this core on their way.
            for _ in 0..LOOKS_PER_ROUND {
                match receiver.peek() {
                    Ok(Arrived::Empty) => core::hint::spin_loop(),
                    Ok(_) => return Some(Ok(())),
                    Err(closed) => return Some(Err(closed)),
                }
            }
            rounds += 1;
            if receiver.owes() || rounds.is_multiple_of(ROUNDS_PER_POLL) {
                // Why it is closed is what the next look finds, behind what has come before.
                let _ = try_with(&**node, |now, verbs| receiver.poll(now, verbs));
            }
            None
        })
    }

    /// Waits for a message and copies it behind what is in `target`. Nothing: the sender has
    /// finished.
    ///
    /// # Errors
    /// If the connection is closed and the next message has not arrived whole.
    pub fn receive(&mut self, target: &mut Vec<u8>) -> Result<Option<MessageInfo>, Closed> {
        loop {
            if let Some(info) = self.machine().receive_into(target)? {
                self.tell_or_later();
                return Ok(Some(info));
            }
            if self.machine().is_finished() {
                self.tell_or_later();
                return Ok(None);
            }
            self.tell_or_later();
            self.wait_for_piece()?;
        }
    }

    /// What has been received is received even if the connection is closed by now.
    fn tell_or_later(&mut self) {
        let _ = self.tell();
    }

    /// Closes the connection for a reason, which the peer is told.
    pub fn close(mut self, reason: CloseReason) {
        let receiver = self.receiver.take().expect("it is not dropped");
        go(&*self.node, receiver, Some(reason));
    }
}

impl Drop for MessageSender {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let done = sender.is_finished() && sender.is_consumed();
            go(&*self.node, sender, (!done).then_some(CloseReason::Normal));
        }
    }
}

impl Drop for MessageReceiver {
    fn drop(&mut self) {
        if let Some(mut receiver) = self.receiver.take() {
            // The sender waits to hear that all is released.
            let done = receiver.is_finished() && receiver.closed().is_none();
            if done && receiver.owes() {
                let _ = with(&*self.node, |now, verbs| receiver.poll(now, verbs));
            }
            go(
                &*self.node,
                receiver,
                (!done).then_some(CloseReason::Normal),
            );
        }
    }
}

fn with<R>(node: &dyn NodeAccess, act: impl FnOnce(Instant, &mut dyn Verbs) -> R) -> R {
    let now = node.now();
    let (mut act, mut result) = (Some(act), None);
    node.act(&mut |verbs| result = act.take().map(|act| act(now, verbs)));
    result.expect("a node acts at once")
}

/// The same, unless somebody else has the node.
fn try_with<R>(node: &dyn NodeAccess, act: impl FnOnce(Instant, &mut dyn Verbs) -> R) -> Option<R> {
    let now = node.now();
    let (mut act, mut result) = (Some(act), None);
    node.try_act(&mut |verbs| result = act.take().map(|act| act(now, verbs)));
    result
}

/// What both ends do when they go.
trait Leaving {
    fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason);
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs);
    fn is_settled(&self) -> bool;
    fn destroy(self, verbs: &mut dyn Verbs);
}

macro_rules! leaving {
    ($end:ty) => {
        impl Leaving for $end {
            fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason) {
                <$end>::close(self, now, verbs, reason);
            }

            fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) {
                // That it is closed is known.
                let _ = <$end>::poll(self, now, verbs);
            }

            fn is_settled(&self) -> bool {
                <$end>::is_settled(self)
            }

            fn destroy(self, verbs: &mut dyn Verbs) {
                <$end>::destroy(self, verbs);
            }
        }
    };
}

leaving!(Sender);
leaving!(Receiver);

/// An end goes: tells the peer why if there is a reason, waits a little until that has arrived, and
/// gives back what it has.
fn go<E: Leaving>(node: &dyn NodeAccess, mut end: E, reason: Option<CloseReason>) {
    if let Some(reason) = reason {
        with(node, |now, verbs| end.close(now, verbs, reason));
    }
    let until = node.now() + FAREWELL;
    wait_until(node, || {
        with(node, |now, verbs| end.poll(now, verbs));
        (end.is_settled() || node.now() >= until).then_some(())
    });
    with(node, |_, verbs| end.destroy(verbs));
}
