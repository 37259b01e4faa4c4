//! Messages of any length from the storage node to the compute node, which reads every byte; and
//! code shared by all streams of messages.

use super::rig::Rig;
use super::source::{Messages, sum};
use crate::globals::Interrupt;
use crate::measure::{per_second, ratio};
use crate::outcome::CliError;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender, Piece};
use std::time::{Duration, Instant};

/// Code of a message that counts.
pub const DATA: u32 = 1;
/// Code of the empty message that ends a stream for now.
pub const END: u32 = 2;

/// How messages get into packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// Copied into the send buffer.
    Copied,
    /// Gathered by work requests from a region.
    Region,
}

/// How the receiver processes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Reads them in the receive buffers.
    InPlace,
    /// Copies them to its own memory and reads them there.
    CopiedOut,
}

/// The parameters of a measurement.
pub struct Bulk {
    /// Bytes of a message.
    pub size: usize,
    pub send: Send,
    pub take: Take,
    /// Whether a message waits until the preceding one is consumed.
    pub alone: bool,
    pub span: Duration,
}

/// The results of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub messages: u64,
    pub bytes: u64,
    pub packages: u64,
    /// From the start of the first message until the sender knows that the last one is consumed.
    pub nanos: u64,
    /// Whether all messages arrived unchanged.
    pub sound: bool,
}

/// The results of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub messages: u64,
    pub sound: bool,
}

impl Moved {
    pub fn gigabytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.nanos.max(1) as f64
    }

    /// Messages per second.
    pub fn per_second(&self) -> f64 {
        per_second(self.messages, self.nanos)
    }

    /// Messages in a package.
    pub fn per_package(&self) -> f64 {
        ratio(self.messages as f64, self.packages as f64)
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
    /// Sends for the span, at least one message.
    pub fn run(&self, rig: &mut Rig<'_>) -> Result<Moved, CliError> {
        let messages = &Messages::new(&rig.source, self.size);
        let (sender, receiver) = (&mut rig.storage.sender, &mut rig.compute.receiver);
        let send = |sender: &mut MessageSender, number| {
            match self.send {
                Send::Copied => sender.send(DATA, messages.get(number))?,
                Send::Region => {
                    let (at, size) = (messages.at(number) as u64, self.size as u64);
                    sender.send_region(DATA, &messages.source.region, at, size)?;
                }
            }
            if self.alone {
                sender.consumed_wait()?;
            }
            Ok(())
        };
        moved(
            || stream((sender, self.size), 1, (self.span, rig.interrupt), send),
            || match self.take {
                Take::InPlace => read_in_place(receiver, messages),
                Take::CopiedOut => copy_out(receiver, messages),
            },
        )
    }
}

fn read_in_place(
    receiver: &mut MessageReceiver,
    messages: &Messages<'_>,
) -> Result<Received, CliError> {
    let (mut read, mut total) = (0, 0u64);
    take_pieces(receiver, |message, piece| {
        let mut sound = piece.offset == read && piece.total == messages.size as u64;
        piece.bytes.each_part(|at, part| {
            total = total.wrapping_add(sum(part, piece.offset + at as u64));
            true
        });
        read += piece.bytes.len() as u64;
        if piece.is_last() {
            sound &= total == messages.sum_of(message);
            (read, total) = (0, 0);
        }
        sound
    })
}

fn copy_out(receiver: &mut MessageReceiver, sent: &Messages<'_>) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    let mut target = Vec::with_capacity(sent.size);
    loop {
        target.clear();
        let message = receiver.receive(&mut target)?.ok_or_else(finished)?;
        if message.opcode == END {
            break;
        }
        sound &= message.length == sent.size as u64 && sum(&target, 0) == sent.sum_of(messages);
        messages += 1;
    }
    tell(receiver)?;
    Ok(Received { messages, sound })
}

/// Runs one end here and the other in its own thread; returns the results of both.
pub fn both<S, R: std::marker::Send>(
    here: impl FnOnce() -> Result<S, CliError>,
    there: impl FnOnce() -> Result<R, CliError> + std::marker::Send,
) -> Result<(S, R), CliError> {
    let (here, there) = std::thread::scope(|scope| {
        let there = scope.spawn(there);
        (here(), there.join())
    });
    let there = there.map_err(|_| CliError::run("the thread of the other end panicked"))?;
    Ok((here?, there?))
}

/// As [`both`], for a sender here and a receiver there.
pub fn moved(
    here: impl FnOnce() -> Result<Moved, CliError>,
    there: impl FnOnce() -> Result<Received, CliError> + std::marker::Send,
) -> Result<Moved, CliError> {
    let (sent, received) = both(here, there)?;
    let sound = received.sound && received.messages == sent.messages;
    Ok(Moved { sound, ..sent })
}

/// Calls `send` with the numbers from zero on, for a while: at least `batch` times, and `batch`
/// times between two readings of the clock. Returns how often.
pub fn repeat(
    batch: u32,
    (span, interrupt): (Duration, &Interrupt),
    mut send: impl FnMut(u64) -> Result<(), CliError>,
) -> Result<u64, CliError> {
    let (started, mut messages) = (Instant::now(), 0);
    while messages == 0 || started.elapsed() < span && !interrupt.is_set() {
        for _ in 0..batch {
            send(messages)?;
            messages += 1;
        }
    }
    Ok(messages)
}

/// Sends messages of `size` bytes with `send` as [`repeat`] says, then ends the stream for now.
pub fn stream(
    (sender, size): (&mut MessageSender, usize),
    batch: u32,
    limits: (Duration, &Interrupt),
    mut send: impl FnMut(&mut MessageSender, u64) -> Result<(), CliError>,
) -> Result<Moved, CliError> {
    let before = sender.counters().packages;
    let started = Instant::now();
    let messages = repeat(batch, limits, |number| send(sender, number))?;
    sender.consumed_wait()?;
    let nanos = started.elapsed().as_nanos() as u64;
    let packages = sender.counters().packages - before;
    end(sender)?;
    Ok(Moved {
        messages,
        bytes: messages * size as u64,
        packages,
        nanos,
        sound: true,
    })
}

/// Takes pieces of messages in place until the stream ends for now. `look` returns for each piece,
/// given its message's number, whether it is unchanged.
pub fn take_pieces(
    receiver: &mut MessageReceiver,
    mut look: impl FnMut(u64, &Piece<'_>) -> bool,
) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    loop {
        let piece = receiver.peek_wait()?.ok_or_else(finished)?;
        let is_end = piece.opcode == END;
        if !is_end {
            sound &= look(messages, &piece);
            messages += u64::from(piece.is_last());
        }
        receiver.release()?;
        if is_end {
            tell(receiver)?;
            return Ok(Received { messages, sound });
        }
    }
}

/// Ends the stream for now, and waits until the receiver knows.
pub fn end(sender: &mut MessageSender) -> Result<(), CliError> {
    sender.send(END, &[])?;
    Ok(sender.consumed_wait()?)
}

/// Makes sure that the sender learns of all released buffers, because this end will not be polled
/// for a while.
pub fn tell(receiver: &mut MessageReceiver) -> Result<(), CliError> {
    while receiver.machine().owes() {
        receiver.poll()?;
    }
    Ok(())
}

/// The error if the sender finishes, which is not expected here.
pub fn finished() -> CliError {
    CliError::run("the sender has finished too early")
}
