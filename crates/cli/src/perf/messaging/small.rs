//! Messages of 64 bytes: as many as go, and one at a time there and back.

use super::bulk::{DATA, END, Received, end, finished, tell};
use super::rig::{Rig, Unit};
use super::source::{Places, Source};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use crate::perf::report::{per_second, ratio};
use hdrhistogram::Histogram;
use rackweave_base::memory::SharedBytes;
use rackweave_endpoint::messaging::{Arrived, MessageReceiver, MessageSender};
use rackweave_rack::Node;
use rackweave_verbs::Progress as _;
use std::time::{Duration, Instant};

/// Bytes of a message.
pub const SMALL_BYTES: usize = 64;

/// Messages that are written between two polls.
const BATCH: u32 = 64;

/// Batches between two looks at the clock.
const BATCHES_PER_LOOK: u32 = 16;

/// Looks into memory between two rounds of driving the rack, as those who wait for a message do.
const LOOKS_PER_ROUND: u32 = 16;

/// Rounds in which nothing moved after which one who polls gives way, for machines with fewer cores
/// than threads: far longer than a round trip between two cores.
const ROUNDS_PER_YIELD: u32 = 64;

/// Nanoseconds beyond which round trips are not told apart.
const LATENCY_MAX: u64 = 60_000_000_000;

/// What one who waits does when nothing moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Looks again, and gives way to other threads now and then.
    Polls,
    /// Rests, ever longer, as the ends of a channel do that wait.
    Rests,
}

/// Small messages one way.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    pub messages: u64,
    pub nanos: u64,
    pub packages: u64,
    pub sound: bool,
}

impl Small {
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
        if self.per_second() < other.per_second() {
            other
        } else {
            self
        }
    }
}

/// Sends as many as go from the storage to the compute unit, for a while.
pub fn rate(
    rig: &mut Rig<'_>,
    source: &Source,
    span: Duration,
    interrupt: &Interrupt,
) -> Result<Small, CliError> {
    let places = &Places::new(source, SMALL_BYTES);
    let Unit { node, sender, .. } = &mut rig.storage;
    let receiver = &mut rig.compute.receiver;
    let packages = sender.counters().packages;
    let (sent, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| take(receiver, source, places));
        let sent = send(node, sender, source, places, (span, interrupt));
        (sent, receiving.join())
    });
    let received = received.map_err(|_| CliError::run("the receiving thread panicked"))?;
    let (messages, nanos, packages_sent) = sent?;
    let received = received?;
    Ok(Small {
        messages,
        nanos,
        packages: packages_sent - packages,
        sound: received.sound && received.messages == messages,
    })
}

fn send(
    node: &Node,
    sender: &mut MessageSender,
    source: &Source,
    places: &Places,
    (span, interrupt): (Duration, &Interrupt),
) -> Result<(u64, u64, u64), CliError> {
    let (started, mut number) = (Instant::now(), 0);
    while started.elapsed() < span || number == 0 {
        for _ in 0..BATCHES_PER_LOOK {
            for _ in 0..BATCH {
                let at = places.at(number);
                let message = &source.bytes[at..at + SMALL_BYTES];
                while !sender.try_send(DATA, message).map_err(CliError::run)? {
                    sender.poll().map_err(CliError::run)?;
                    node.drive();
                }
                number += 1;
            }
            sender.poll().map_err(CliError::run)?;
        }
        if interrupt.is_set() {
            break;
        }
    }
    sender.consumed_wait().map_err(CliError::run)?;
    let nanos = started.elapsed().as_nanos() as u64;
    let packages = sender.counters().packages;
    end(sender)?;
    Ok((number, nanos, packages))
}

fn take(
    receiver: &mut MessageReceiver,
    source: &Source,
    places: &Places,
) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    loop {
        let piece = receiver.peek_wait().map_err(CliError::run)?;
        let piece = piece.ok_or_else(finished)?;
        let is_end = piece.opcode == END;
        if !is_end {
            let at = places.at(messages);
            sound &= piece.bytes == source.bytes[at..at + SMALL_BYTES];
            messages += 1;
        }
        receiver.release().map_err(CliError::run)?;
        if is_end {
            tell(receiver)?;
            return Ok(Received { messages, sound });
        }
    }
}

/// The compute unit sends one and waits for the storage unit to send it back, for a while. The
/// round trips, and whether everything came as it was sent.
pub fn ping_pong(
    rig: &mut Rig<'_>,
    source: &Source,
    patience: Patience,
    (span, interrupt): (Duration, &Interrupt),
) -> Result<(Histogram<u64>, bool), CliError> {
    let places = &Places::new(source, SMALL_BYTES);
    let (storage, compute) = (&mut rig.storage, &mut rig.compute);
    let (found, echoed) = std::thread::scope(|scope| {
        let echoing = scope.spawn(|| echo(storage, source, places, patience));
        let found = ask(compute, source, (places, patience), (span, interrupt));
        (found, echoing.join())
    });
    let echoed = echoed.map_err(|_| CliError::run("the echoing thread panicked"))?;
    let (round_trips, sound) = found?;
    let echoed = echoed?;
    let all = echoed.messages == round_trips.len();
    Ok((round_trips, sound && echoed.sound && all))
}

fn ask(
    unit: &mut Unit,
    source: &Source,
    (places, patience): (&Places, Patience),
    (span, interrupt): (Duration, &Interrupt),
) -> Result<(Histogram<u64>, bool), CliError> {
    let mut round_trips = Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("sound bounds");
    let started = Instant::now();
    let (mut before, mut number, mut sound) = (started, 0, true);
    loop {
        let at = places.at(number);
        let message = &source.bytes[at..at + SMALL_BYTES];
        unit.post(message)?;
        sound &= unit.next(patience, |opcode, bytes| {
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
    tell(&mut unit.receiver)?;
    end(&mut unit.sender)?;
    Ok((round_trips, sound))
}

fn echo(
    unit: &mut Unit,
    source: &Source,
    places: &Places,
    patience: Patience,
) -> Result<Received, CliError> {
    let (mut messages, mut sound) = (0, true);
    loop {
        let at = places.at(messages);
        let expected = &source.bytes[at..at + SMALL_BYTES];
        let mut copy = [0; SMALL_BYTES];
        let is_end = unit.next(patience, |opcode, bytes| {
            // What came is sent back, not what should have come.
            if bytes.len() == SMALL_BYTES {
                bytes.copy_to(&mut copy);
            }
            sound &= opcode == END || bytes == *expected;
            opcode == END
        })?;
        if is_end {
            tell(&mut unit.receiver)?;
            return Ok(Received { messages, sound });
        }
        unit.post(&copy)?;
        messages += 1;
    }
}

impl Unit {
    /// Posts a message at once: nothing that could join it will follow.
    fn post(&mut self, message: &[u8]) -> Result<(), CliError> {
        let Self { node, sender, .. } = self;
        while !sender.try_send(DATA, message).map_err(CliError::run)? {
            sender.poll().map_err(CliError::run)?;
            node.drive();
        }
        sender.machine().flush();
        sender.poll().map_err(CliError::run)?;
        Ok(())
    }

    /// Waits for a message of one piece, looks at it with `look`, and releases it.
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
                match receiver.peek().map_err(CliError::run)? {
                    Arrived::Empty => core::hint::spin_loop(),
                    _ => break 'wait,
                }
            }
            // What was posted may have had to wait for a receive buffer.
            if sender.machine().could_post() {
                sender.poll().map_err(CliError::run)?;
            }
            if receiver.machine().owes() {
                receiver.poll().map_err(CliError::run)?;
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
        let Arrived::Piece(piece) = receiver.peek().map_err(CliError::run)? else {
            return Err(finished());
        };
        let seen = look(piece.opcode, piece.bytes);
        receiver.release().map_err(CliError::run)?;
        Ok(seen)
    }
}
