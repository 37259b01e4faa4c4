//! The packets of one end of a link on their way to the system, and the counts of those that it has
//! taken or refused. Each end of a link over the system has one.
//!
//! A packet is passed on at once, except between [`Outbox::cork`] and [`Outbox::uncork`]: then
//! packets are gathered, so that the carrier can pass several on in one call. Packets that the
//! system does not accept at the moment wait here.

mod batch;

pub(crate) use batch::Datagrams;

use crate::bytes;
use batch::Batch;
use rackweave_base::{Duration, Instant, Memory, Packet};
use rustix::io::Errno;
use std::io;

/// Packets in the queue from which on no more are accepted.
pub(crate) const QUEUE_MAX: usize = 64;

/// Gathered packets are passed on from so many bytes on: about what one call can carry.
const GATHERED_BYTES: usize = 62 << 10;

/// Time before a packet that the system refused is offered again. No descriptor reports free space
/// for all kinds of sockets.
const RETRY: Duration = Duration::from_micros(100);

/// Counts of packets sent at one end of a link, and of packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendCounters {
    /// Packets passed to the system.
    pub sent: u64,
    /// Packets dropped because the other end does not exist.
    pub peer_gone: u64,
    /// Packets dropped because the system refused them: no route, interface down, not permitted.
    pub refused: u64,
    /// Packets dropped because they exceed the link's MTU or the path MTU.
    pub too_long: u64,
    /// Packets dropped because their payload's memory block no longer exists.
    pub payload_gone: u64,
}

/// Passes packets to the system.
pub(crate) trait Carrier {
    /// Bytes before each packet.
    fn head(&self) -> &[u8] {
        &[]
    }

    /// Appends what belongs after the packet that is at the end of `bytes`, from `at` on.
    fn finish(&mut self, _bytes: &mut Vec<u8>, _at: usize) {}

    /// Passes datagrams to the system, in order, and returns how many it has taken: at least one.
    ///
    /// # Errors
    /// What the system says of the first datagram, which it has not taken.
    fn offer(&mut self, datagrams: Datagrams<'_>) -> io::Result<usize>;
}

/// Packets on their way to the system, in order.
#[derive(Debug)]
pub(crate) struct Outbox {
    mtu: usize,
    memory: Memory,
    batch: Batch,
    /// Whether packets are gathered.
    is_corked: bool,
    /// The time of the next attempt, if the system has refused the first packet temporarily.
    retry_at: Option<Instant>,
}

impl Outbox {
    /// An empty queue for packets with at most `mtu` bytes of Ethernet payload; `memory` resolves
    /// their payloads.
    pub(crate) fn new(mtu: usize, memory: Memory) -> Self {
        Self {
            mtu,
            memory,
            batch: Batch::default(),
            is_corked: false,
            retry_at: None,
        }
    }

    /// Number of packets that [`Outbox::send`] is guaranteed to accept. A train takes one slot per
    /// fragment.
    pub(crate) fn free(&self) -> usize {
        QUEUE_MAX.saturating_sub(self.batch.len())
    }

    /// Whether nothing waits.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The time to call [`Outbox::flush`] again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Begins to gather packets.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn cork(&mut self) {
        self.is_corked = true;
    }

    /// Ends gathering. Packets may be waiting: call [`Outbox::flush`].
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn uncork(&mut self) {
        self.is_corked = false;
    }

    /// Sends `packet` through `carrier`, or queues it.
    ///
    /// # Errors
    /// Returns the packet if the queue is full.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        packet: Packet,
        counters: &mut SendCounters,
        carrier: &mut impl Carrier,
    ) -> Result<(), Packet> {
        if self.free() == 0 || !self.is_corked {
            self.flush(now, counters, carrier);
        }
        if self.free() == 0 {
            return Err(packet);
        }
        let (memory, mtu) = (&self.memory, self.mtu);
        let (batch, retry_at) = (&mut self.batch, &mut self.retry_at);
        let gone = bytes::for_each_packet(packet, memory, |packet| {
            let mut is_whole = true;
            batch.add(|bytes| {
                bytes.extend_from_slice(carrier.head());
                let at = bytes.len();
                is_whole = packet.serialise(memory, bytes);
                let fits = bytes::fits(&bytes[at..], mtu);
                if is_whole && fits {
                    carrier.finish(bytes, at);
                }
                counters.too_long += u64::from(is_whole && !fits);
                is_whole && fits
            });
            let is_full = batch.bytes() >= GATHERED_BYTES || batch.len() >= QUEUE_MAX;
            // What the system has just refused it would refuse again.
            if is_full && retry_at.is_none() {
                *retry_at = pass_on(batch, now, counters, carrier);
            }
            is_whole
        });
        counters.payload_gone += gone;
        if !self.is_corked && self.retry_at.is_none() {
            self.flush(now, counters, carrier);
        }
        Ok(())
    }

    /// Passes on what waits.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        counters: &mut SendCounters,
        carrier: &mut impl Carrier,
    ) {
        self.retry_at = pass_on(&mut self.batch, now, counters, carrier);
    }
}

/// Passes on all packets of a batch. Returns the time of the next attempt, if the system refuses
/// one temporarily.
fn pass_on(
    batch: &mut Batch,
    now: Instant,
    counters: &mut SendCounters,
    carrier: &mut impl Carrier,
) -> Option<Instant> {
    while let Some(waiting) = batch.waiting() {
        match carrier.offer(waiting) {
            Ok(taken) => {
                counters.sent += taken as u64;
                batch.remove(taken);
            }
            Err(error) if is_temporary(&error) => return Some(now + RETRY),
            Err(error) => {
                *counters.of(&error) += 1;
                batch.remove(1);
            }
        }
    }
    None
}

/// Whether the system may accept later what it has refused now.
pub(crate) fn is_temporary(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM)
    )
}

impl SendCounters {
    /// The counter of packets that the system refuses with this error.
    fn of(&mut self, error: &io::Error) -> &mut u64 {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT | Errno::CONNREFUSED) => &mut self.peer_gone,
            Some(Errno::MSGSIZE) => &mut self.too_long,
            _ => &mut self.refused,
        }
    }
}

#[cfg(test)]
mod tests;
