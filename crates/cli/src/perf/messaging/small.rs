//! Messages of 64 bytes: as many as possible, and one at a time in a ping-pong.

use super::bulk::{
    DATA, END, Moved, Received, both, end, finished, moved, stream, take_pieces, tell,
};
use super::rig::{ConnectionEnd, Rig};
use super::source::Messages;
use crate::globals::Interrupt;
use crate::measure::histogram;
use crate::outcome::CliError;
use hdrhistogram::Histogram;
use rackweave_base::memory::SharedBytes;
use rackweave_endpoint::messaging::{Arrived, MessageSender};
use rackweave_rack::Node;
use rackweave_verbs::Progress as _;
use std::time::{Duration, Instant};

/// Bytes of a message.
pub const SMALL_BYTES: usize = 64;

/// Messages that are written between two polls.
const BATCH: u32 = 64;

/// Batches between two readings of the clock.
const BATCHES_PER_LOOK: u32 = 16;

/// Memory polls between two rounds of driving the rack, as waiting receivers do.
const LOOKS_PER_ROUND: u32 = 16;

/// Idle rounds after which a polling thread yields, for machines with fewer cores than threads: far
/// longer than a round trip between two cores.
const ROUNDS_PER_YIELD: u32 = 64;

/// What a waiting thread does when nothing progresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Polls, and occasionally yields to other threads.
    Polls,
    /// Rests for increasing times, as waiting ends of a channel do.
    Rests,
}

/// Sends as many as possible from the storage to the compute node, for a while.
pub fn rate(rig: &mut Rig<'_>, span: Duration) -> Result<Moved, CliError> {
    let messages = &Messages::new(&rig.source, SMALL_BYTES);
    let ConnectionEnd { node, sender, .. } = &mut rig.storage;
    let receiver = &mut rig.compute.receiver;
    let send = |sender: &mut MessageSender, number: u64| {
        push(node, sender, messages.get(number))?;
        if (number + 1).is_multiple_of(BATCH.into()) {
            sender.poll()?;
        }
        Ok(())
    };
    let batch = BATCH * BATCHES_PER_LOOK;
    moved(
        || stream((sender, SMALL_BYTES), batch, (span, rig.interrupt), send),
        || {
            take_pieces(receiver, |number, piece| {
                piece.bytes == *messages.get(number)
            })
        },
    )
}

/// Writes a message into the send buffer, as soon as it has space.
fn push(node: &Node, sender: &mut MessageSender, message: &[u8]) -> Result<(), CliError> {
    while !sender.try_send(DATA, message)? {
        sender.poll()?;
        node.drive();
    }
    Ok(())
}

/// The compute node sends one and waits for the storage node to return it, for a while. Returns the
/// round trip times, and whether everything arrived unchanged.
pub fn ping_pong(
    rig: &mut Rig<'_>,
    patience: Patience,
    span: Duration,
) -> Result<(Histogram<u64>, bool), CliError> {
    let messages = &Messages::new(&rig.source, SMALL_BYTES);
    let (storage, compute) = (&mut rig.storage, &mut rig.compute);
    let ((round_trips, sound), echoed) = both(
        || ask(compute, messages, patience, (span, rig.interrupt)),
        || {
            let is_right = |number, bytes: &SharedBytes<'_>| *bytes == *messages.get(number);
            echo(storage, patience, is_right)
        },
    )?;
    let all = echoed.messages == round_trips.len();
    Ok((round_trips, sound && echoed.sound && all))
}

/// Sends one message and waits until it is returned, again and again for a while. Returns the round
/// trip times, and whether everything came back unchanged.
pub fn ask(
    side: &mut ConnectionEnd,
    messages: &Messages<'_>,
    patience: Patience,
    (span, interrupt): (Duration, &Interrupt),
) -> Result<(Histogram<u64>, bool), CliError> {
    let mut round_trips = histogram();
    let started = Instant::now();
    let (mut before, mut number, mut sound) = (started, 0, true);
    loop {
        let message = messages.get(number);
        side.post(message)?;
        sound &= side.next(patience, |opcode, bytes| {
            opcode == DATA && bytes == *message
        })?;
        number += 1;
        // The end of a round trip is the beginning of the next one.
        let now = Instant::now();
        round_trips.saturating_record(now.duration_since(before).as_nanos() as u64);
        before = now;
        if now.duration_since(started) >= span || interrupt.is_set() {
            break;
        }
    }
    tell(&mut side.receiver)?;
    end(&mut side.sender)?;
    Ok((round_trips, sound))
}

/// Returns what is sent until its end, and checks each message.
pub fn echo(
    side: &mut ConnectionEnd,
    patience: Patience,
    is_right: impl Fn(u64, &SharedBytes<'_>) -> bool,
) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    loop {
        let mut copy = [0; SMALL_BYTES];
        let is_end = side.next(patience, |opcode, bytes| {
            // The received bytes are returned, not the expected ones.
            if bytes.len() == SMALL_BYTES {
                bytes.copy_to(&mut copy);
            }
            sound &= opcode == END || is_right(messages, &bytes);
            opcode == END
        })?;
        if is_end {
            tell(&mut side.receiver)?;
            return Ok(Received { messages, sound });
        }
        side.post(&copy)?;
        messages += 1;
    }
}

impl ConnectionEnd {
    /// Posts a message at once: no other message will be combined with it.
    pub fn post(&mut self, message: &[u8]) -> Result<(), CliError> {
        let Self { node, sender, .. } = self;
        push(node, sender, message)?;
        sender.machine().flush();
        sender.poll()?;
        Ok(())
    }

    /// Waits for a message of one piece, passes it to `look`, and releases it.
    fn next<R>(
        &mut self,
        patience: Patience,
        look: impl FnOnce(u32, SharedBytes<'_>) -> R,
    ) -> Result<R, CliError> {
        let Self {
            node,
            sender,
            receiver,
        } = self;
        let mut idle_rounds = 1;
        'wait: loop {
            for _ in 0..LOOKS_PER_ROUND {
                match receiver.peek()? {
                    Arrived::Empty => core::hint::spin_loop(),
                    _ => break 'wait,
                }
            }
            // A posted message may have had to wait for a receive buffer.
            if sender.machine().could_post() {
                sender.poll()?;
            }
            if receiver.machine().owes() {
                receiver.poll()?;
            }
            if node.drive() {
                idle_rounds = 1;
                continue;
            }
            match patience {
                Patience::Rests => node.relax(idle_rounds),
                Patience::Polls if idle_rounds.is_multiple_of(ROUNDS_PER_YIELD) => {
                    std::thread::yield_now();
                }
                Patience::Polls => {}
            }
            idle_rounds = idle_rounds.saturating_add(1);
        }
        let Arrived::Piece(piece) = receiver.peek()? else {
            return Err(finished());
        };
        let seen = look(piece.opcode, piece.bytes);
        receiver.release()?;
        Ok(seen)
    }
}
