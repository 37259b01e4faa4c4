//! Messages of any length from the storage unit to the compute unit, which reads every byte; and
//! what all streams of messages share.

use super::rig::Rig;
use super::source::{Places, Source, sum};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use crate::perf::report::{per_second, ratio};
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender, Piece};
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
    pub packages: u64,
    /// From the first message's beginning until the sender knows that the last one is consumed.
    pub nanos: u64,
    /// Whether all came, each as it was sent.
    pub sound: bool,
}

/// What a sender has come to.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub messages: u64,
    pub packages: u64,
    pub nanos: u64,
}

/// What a receiver has come to.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub messages: u64,
    pub sound: bool,
}

impl Moved {
    /// What messages of `size` bytes come to.
    pub fn new((sent, received): (Sent, Received), size: usize) -> Self {
        let Sent {
            messages,
            packages,
            nanos,
        } = sent;
        Self {
            messages,
            bytes: messages * size as u64,
            packages,
            nanos,
            sound: received.sound && received.messages == messages,
        }
    }

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
    /// Sends for the span, one message at least.
    pub fn run(
        &self,
        rig: &mut Rig<'_>,
        source: &Source,
        interrupt: &Interrupt,
    ) -> Result<Moved, CliError> {
        let (sender, receiver) = (&mut rig.storage.sender, &mut rig.compute.receiver);
        let send = |sender: &mut MessageSender, number| {
            let (at, size) = (self.places.at(number) as u64, self.places.size as u64);
            let sent = match self.send {
                Send::Copied => sender.send(DATA, self.places.message(source, number)),
                Send::Region => sender.send_region(DATA, &source.region, at, size),
            };
            sent.map_err(CliError::run)?;
            match self.alone {
                true => sender.consumed_wait().map_err(CliError::run),
                false => Ok(()),
            }
        };
        let ends = both(
            || stream(sender, 1, (self.span, interrupt), send),
            || match self.take {
                Take::InPlace => self.read_in_place(receiver),
                Take::CopiedOut => self.copy_out(receiver),
            },
        )?;
        Ok(Moved::new(ends, self.places.size))
    }

    fn read_in_place(&self, receiver: &mut MessageReceiver) -> Result<Received, CliError> {
        let (mut read, mut total) = (0, 0u64);
        take_pieces(receiver, |message, piece| {
            let mut sound = piece.offset == read && piece.total == self.places.size as u64;
            piece.bytes.each_part(|at, part| {
                total = total.wrapping_add(sum(part, piece.offset + at as u64));
                true
            });
            read += piece.bytes.len() as u64;
            if piece.is_last() {
                sound &= total == self.places.sum_of(message);
                (read, total) = (0, 0);
            }
            sound
        })
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

/// Runs one end here and the other in a thread of its own; what both have come to.
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

/// Has `send` send messages, numbered from zero, for a while: `batch` of them at least, and between
/// two looks at the clock. Then says that there are no more for now.
pub fn stream(
    sender: &mut MessageSender,
    batch: u32,
    (span, interrupt): (Duration, &Interrupt),
    mut send: impl FnMut(&mut MessageSender, u64) -> Result<(), CliError>,
) -> Result<Sent, CliError> {
    let before = sender.counters().packages;
    let (started, mut messages) = (Instant::now(), 0);
    loop {
        for _ in 0..batch {
            send(sender, messages)?;
            messages += 1;
        }
        if started.elapsed() >= span || interrupt.is_set() {
            break;
        }
    }
    sender.consumed_wait().map_err(CliError::run)?;
    let nanos = started.elapsed().as_nanos() as u64;
    let packages = sender.counters().packages - before;
    end(sender)?;
    Ok(Sent {
        messages,
        packages,
        nanos,
    })
}

/// Takes pieces of messages where they lie until there are no more for now. `look` says of each,
/// given its message's number, whether it is as it was sent.
pub fn take_pieces(
    receiver: &mut MessageReceiver,
    mut look: impl FnMut(u64, &Piece<'_>) -> bool,
) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    loop {
        let piece = receiver.peek_wait().map_err(CliError::run)?;
        let piece = piece.ok_or_else(finished)?;
        let is_end = piece.opcode == END;
        if !is_end {
            sound &= look(messages, &piece);
            messages += u64::from(piece.is_last());
        }
        receiver.release().map_err(CliError::run)?;
        if is_end {
            tell(receiver)?;
            return Ok(Received { messages, sound });
        }
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
