//! Messages of any length from the storage unit to the compute unit, which reads every byte.

use super::rig::Rig;
use super::source::{Places, Source, sum};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender};
use std::time::{Duration, Instant};

/// A message that counts.
pub const DATA: u32 = 1;
/// What says that there are no more for now; it is empty.
pub const END: u32 = 2;

/// How messages get into packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// Copied into the send buffer.
    Copied,
    /// Named by work requests where they lie in a region.
    Region,
}

/// What the receiver does with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Reads them in the receive buffers.
    InPlace,
    /// Copies them to memory of its own and reads them there.
    CopiedOut,
}

/// A measurement.
pub struct Bulk {
    pub places: Places,
    pub send: Send,
    pub take: Take,
    /// Whether a message waits until the one before is consumed.
    pub alone: bool,
    pub span: Duration,
}

/// What a measurement found.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub messages: u64,
    pub bytes: u64,
    /// From the first message's beginning until the sender knows that the last one is consumed.
    pub nanos: u64,
    /// Whether all came, each as it was sent.
    pub sound: bool,
}

/// What a receiver has come to.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub messages: u64,
    pub sound: bool,
}

impl Moved {
    /// What `messages` of `size` bytes that took `nanos` come to, with what the receiver says.
    pub fn new(messages: u64, size: usize, nanos: u64, received: Received) -> Self {
        Self {
            messages,
            bytes: messages * size as u64,
            nanos,
            sound: received.sound && received.messages == messages,
        }
    }

    pub fn gigabytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.nanos.max(1) as f64
    }

    /// The faster of both.
    pub fn or(self, other: Self) -> Self {
        if self.gigabytes_per_s() < other.gigabytes_per_s() {
            other
        } else {
            self
        }
    }
}

impl Bulk {
    /// Sends for the span, one message at least.
    pub fn run(
        &self,
        rig: &mut Rig<'_>,
        source: &Source,
        interrupt: &Interrupt,
    ) -> Result<Moved, CliError> {
        let (sender, receiver) = (&mut rig.storage.sender, &mut rig.compute.receiver);
        let (sent, received) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| match self.take {
                Take::InPlace => self.read_in_place(receiver),
                Take::CopiedOut => self.copy_out(receiver),
            });
            let sent = self.send(sender, source, interrupt);
            (sent, receiving.join())
        });
        let received = received.map_err(|_| CliError::run("the receiving thread panicked"))?;
        let (messages, nanos) = sent?;
        Ok(Moved::new(messages, self.places.size, nanos, received?))
    }

    fn send(
        &self,
        sender: &mut MessageSender,
        source: &Source,
        interrupt: &Interrupt,
    ) -> Result<(u64, u64), CliError> {
        let (started, mut number) = (Instant::now(), 0);
        loop {
            let (at, size) = (self.places.at(number), self.places.size);
            let sent = match self.send {
                Send::Copied => sender.send(DATA, &source.bytes[at..at + size]),
                Send::Region => sender.send_region(DATA, &source.region, at as u64, size as u64),
            };
            sent.map_err(CliError::run)?;
            number += 1;
            if self.alone {
                sender.consumed_wait().map_err(CliError::run)?;
            }
            if started.elapsed() >= self.span || interrupt.is_set() {
                break;
            }
        }
        sender.consumed_wait().map_err(CliError::run)?;
        let nanos = started.elapsed().as_nanos() as u64;
        end(sender)?;
        Ok((number, nanos))
    }

    fn read_in_place(&self, receiver: &mut MessageReceiver) -> Result<Received, CliError> {
        let (mut messages, mut sound) = (0, true);
        let (mut read, mut total) = (0, 0u64);
        loop {
            let piece = receiver.peek_wait().map_err(CliError::run)?;
            let piece = piece.ok_or_else(finished)?;
            if piece.opcode == END {
                break;
            }
            sound &= piece.offset == read && piece.total == self.places.size as u64;
            piece.bytes.each_part(|at, part| {
                total = total.wrapping_add(sum(part, piece.offset + at as u64));
                true
            });
            read += piece.bytes.len() as u64;
            if piece.is_last() {
                sound &= total == self.places.sum_of(messages);
                (messages, read, total) = (messages + 1, 0, 0);
            }
            receiver.release().map_err(CliError::run)?;
        }
        receiver.release().map_err(CliError::run)?;
        tell(receiver)?;
        Ok(Received { messages, sound })
    }

    fn copy_out(&self, receiver: &mut MessageReceiver) -> Result<Received, CliError> {
        let (mut messages, mut sound) = (0, true);
        let mut target = Vec::with_capacity(self.places.size);
        loop {
            target.clear();
            let message = receiver.receive(&mut target).map_err(CliError::run)?;
            let message = message.ok_or_else(finished)?;
            if message.opcode == END {
                break;
            }
            sound &= message.length == self.places.size as u64
                && sum(&target, 0) == self.places.sum_of(messages);
            messages += 1;
        }
        tell(receiver)?;
        Ok(Received { messages, sound })
    }
}

/// Tells the receiver that there are no more for now, and waits until it knows.
pub fn end(sender: &mut MessageSender) -> Result<(), CliError> {
    sender.send(END, &[]).map_err(CliError::run)?;
    sender.consumed_wait().map_err(CliError::run)
}

/// Sees to it that the sender will hear of everything that was released: nobody polls this end for
/// a while.
pub fn tell(receiver: &mut MessageReceiver) -> Result<(), CliError> {
    while receiver.machine().owes() {
        receiver.poll().map_err(CliError::run)?;
    }
    Ok(())
}

/// Nobody finishes here.
pub fn finished() -> CliError {
    CliError::run("the sender has finished too early")
}
