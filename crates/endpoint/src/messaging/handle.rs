//! Blocking forms of the ends of a channel: they hold a node and drive it while they wait.

mod leaving;

use super::receiver::{Arrived, MessageInfo, Piece, Receiver, ReceiverCounters};
use super::sender::{SendError, Sender, SenderCounters};
use super::shared::Closed;
use crate::flow::wait_until;
pub use leaving::FAREWELL;
use leaving::go;
use rackweave_base::Instant;
use rackweave_verbs::{NodeAccess, Region, Verbs};
use rackweave_wire::fabric::message::CloseReason;
use std::sync::Arc;

/// Polls without news between two polls of the NIC. The events that a thread waits for show in
/// memory; only the end of a connection shows at the NIC.
const ROUNDS_PER_POLL: u32 = 8;

/// How often a waiting thread polls memory before it drives the rack.
const LOOKS_PER_ROUND: u32 = 2;

/// Sends messages, and waits while there is no space. It may move to any thread; dropping it closes
/// the connection unless it has finished.
pub struct MessageSender {
    node: Arc<dyn NodeAccess>,
    /// Present until it is dropped.
    sender: Option<Sender>,
}

/// Receives messages and waits for them. It may move to any thread; dropping it closes the
/// connection unless the sender has finished.
pub struct MessageReceiver {
    node: Arc<dyn NodeAccess>,
    /// Present until it is dropped.
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

    /// The sender's counters.
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

    /// Posts what is ready and drives the rack until `done` returns a result.
    fn wait<R>(
        &mut self,
        mut done: impl FnMut(&mut Sender) -> Result<Option<R>, SendError>,
    ) -> Result<R, SendError> {
        let Self { node, sender } = self;
        let sender = sender.as_mut().expect("it is not dropped");
        let mut rounds = 0_u32;
        wait_until(&**node, || {
            // The NIC may be busy with the awaited work: poll it only when that is useful.
            rounds += 1;
            if sender.could_post() || rounds.is_multiple_of(ROUNDS_PER_POLL) || rounds == 1 {
                let polled = try_with(&**node, |now, verbs| sender.poll(now, verbs));
                if let Some(Err(closed)) = polled {
                    // The awaited event may have happened before.
                    let done = done(sender).transpose();
                    return done.or(Some(Err(closed.into())));
                }
            }
            done(sender).transpose()
        })
    }

    /// Accepts a message if there is space for it; it is sent when polled. False: there is no space
    /// now.
    ///
    /// # Errors
    /// As for [`Sender::try_send`].
    pub fn try_send(&mut self, opcode: u32, payload: &[u8]) -> Result<bool, SendError> {
        self.machine().try_send(opcode, payload)
    }

    /// Sends a message of any length within the agreed limit, and waits until the NIC has it: as
    /// long as there is no space, and no longer. Many small messages are sent faster by
    /// [`Self::try_send`] and an occasional [`Self::poll`], since several then share a package.
    ///
    /// # Errors
    /// If it is too long, the previous message is unfinished, or the connection is closed.
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
    /// change until [`Self::flush_wait`] has returned.
    ///
    /// # Errors
    /// As for [`Self::send`].
    ///
    /// # Panics
    /// If the region is too short.
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

    /// Declares that nothing follows, and waits until the receiver has released everything.
    ///
    /// # Errors
    /// If a message is unfinished, or the connection is closed before.
    pub fn finish_wait(&mut self) -> Result<(), SendError> {
        self.machine().finish()?;
        self.consumed_wait()
    }

    /// Closes the connection for a reason, which is sent to the peer.
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

    /// The receiver's counters.
    pub fn counters(&self) -> ReceiverCounters {
        let receiver = self.receiver.as_ref();
        receiver.map(Receiver::counters).unwrap_or_default()
    }

    /// Reports free buffers to the sender. True if anything happened.
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

    /// Waits for the oldest piece that has not been released. `None`: the sender has finished.
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

    /// Releases the last peeked piece, and notifies the sender if that frees a buffer.
    ///
    /// # Errors
    /// If the connection is closed; the piece is released in any case.
    ///
    /// # Panics
    /// If no piece has been peeked since the last release.
    pub fn release(&mut self) -> Result<(), Closed> {
        self.machine().release();
        self.tell()
    }

    /// Reports free buffers. If there is more to receive, what cannot be reported at once, because
    /// another thread has the NIC or the peer has not acknowledged earlier reports, is left to the
    /// next call, which is certain to come. Otherwise the caller may turn to something else while
    /// the sender waits for the report.
    fn tell(&mut self) -> Result<(), Closed> {
        let Self { node, receiver } = self;
        let receiver = receiver.as_mut().expect("it is not dropped");
        if receiver.owes() {
            try_with(&**node, |now, verbs| receiver.poll(now, verbs)).transpose()?;
        }
        if !receiver.owes() || receiver.has_package() {
            return Ok(());
        }
        wait_until(&**node, || {
            let polled = with(&**node, |now, verbs| receiver.poll(now, verbs));
            let is_done = polled.is_err() || !receiver.owes() || receiver.has_package();
            is_done.then_some(polled.map(drop))
        })
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
                // The next look finds the reason of the close, behind everything that arrived
                // before it.
                let _ = try_with(&**node, |now, verbs| receiver.poll(now, verbs));
            }
            None
        })
    }

    /// Waits for a message and appends it to `target`. `None`: the sender has finished.
    ///
    /// # Errors
    /// If the connection is closed and the next message has not arrived completely.
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

    /// As `tell`, but a closed connection is no error: the message has already been received.
    fn tell_or_later(&mut self) {
        let _ = self.tell();
    }

    /// Closes the connection for a reason, which is sent to the peer.
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
            // The sender waits for the report that all is released.
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

/// The same, unless another thread has the node.
fn try_with<R>(node: &dyn NodeAccess, act: impl FnOnce(Instant, &mut dyn Verbs) -> R) -> Option<R> {
    let now = node.now();
    let (mut act, mut result) = (Some(act), None);
    node.try_act(&mut |verbs| result = act.take().map(|act| act(now, verbs)));
    result
}
