//! The queue of packets for a socket that accepts no more at the moment, and the counts of all
//! others. Each end of a link over the system has one.

use crate::bytes;
use rackweave_base::{Duration, Instant, Memory, Packet};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;

/// Maximum packets in the queue.
pub(crate) const QUEUE_MAX: usize = 64;

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

/// Packets that the system refused temporarily, in order, and the time of the next attempt.
#[derive(Debug)]
pub(crate) struct Outbox {
    mtu: usize,
    memory: Memory,
    queue: VecDeque<Vec<u8>>,
    retry_at: Option<Instant>,
    scratch: Vec<u8>,
}

impl Outbox {
    /// An empty queue for packets with at most `mtu` bytes of Ethernet payload; `memory` resolves
    /// their payloads.
    pub(crate) fn new(mtu: usize, memory: Memory) -> Self {
        Self {
            mtu,
            memory,
            queue: VecDeque::with_capacity(QUEUE_MAX),
            retry_at: None,
            scratch: Vec::new(),
        }
    }

    /// Number of packets that [`Outbox::send`] is guaranteed to accept. A train takes one slot per
    /// fragment.
    pub(crate) fn free(&self) -> usize {
        QUEUE_MAX.saturating_sub(self.queue.len())
    }

    /// The time to call [`Outbox::flush`] again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Sends `packet` through `offer`, which passes bytes to the system, or queues it.
    ///
    /// # Errors
    /// Returns the packet if the queue is full.
    #[expect(clippy::result_large_err, reason = "as in `Link::send`")]
    pub(crate) fn send(
        &mut self,
        now: Instant,
        packet: Packet,
        counters: &mut SendCounters,
        mut offer: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Packet> {
        if !self.queue.is_empty() {
            self.flush(now, counters, &mut offer);
        }
        if self.free() == 0 {
            return Err(packet);
        }
        let (queue, retry_at, mtu) = (&mut self.queue, &mut self.retry_at, self.mtu);
        let gone = bytes::for_each_frame(packet, &self.memory, &mut self.scratch, |frame| {
            if !bytes::fits(frame, mtu) {
                counters.too_long += 1;
            } else if !queue.is_empty() {
                queue.push_back(frame.to_vec());
            } else if !is_done(offer(frame), counters) {
                queue.push_back(frame.to_vec());
                *retry_at = Some(now + RETRY);
            }
        });
        counters.payload_gone += gone;
        Ok(())
    }

    /// Offers the queued packets again.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        counters: &mut SendCounters,
        mut offer: impl FnMut(&[u8]) -> io::Result<()>,
    ) {
        while let Some(frame) = self.queue.front() {
            if !is_done(offer(frame), counters) {
                self.retry_at = Some(now + RETRY);
                return;
            }
            self.queue.pop_front();
        }
        self.retry_at = None;
    }
}

/// Counts the result of sending a packet. Returns false if the system may accept it later.
fn is_done(result: io::Result<()>, counters: &mut SendCounters) -> bool {
    let counter = match result.map_err(|error| Errno::from_io_error(&error)) {
        Ok(()) => &mut counters.sent,
        Err(Some(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM)) => return false,
        Err(Some(Errno::NOENT | Errno::CONNREFUSED)) => &mut counters.peer_gone,
        Err(Some(Errno::MSGSIZE)) => &mut counters.too_long,
        Err(_) => &mut counters.refused,
    };
    *counter += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use rackweave_base::Payload;

    /// Sends a packet through a system that returns `answer`; returns the counters.
    fn check(answer: Errno) -> SendCounters {
        let memory = Memory::new(1 << 16);
        let mut outbox = Outbox::new(1500, memory.clone());
        let mut counters = SendCounters::default();
        let packet = conformance::packet(&memory, 1, Payload::Empty);
        let answer = |_: &[u8]| Err(answer.into());
        assert!(
            outbox
                .send(Instant::ZERO, packet, &mut counters, answer)
                .is_ok()
        );
        assert_eq!(outbox.free() < QUEUE_MAX, outbox.retry_at().is_some());
        counters
    }

    #[test]
    fn what_cannot_be_sent_is_counted_and_what_may_go_later_is_kept() {
        let none = SendCounters::default();
        for errno in [Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM, Errno::INTR] {
            assert_eq!(check(errno), none);
        }
        for errno in [
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::PERM,
            Errno::ACCESS,
        ] {
            assert_eq!(check(errno), SendCounters { refused: 1, ..none });
        }
        for errno in [Errno::CONNREFUSED, Errno::NOENT] {
            assert_eq!(
                check(errno),
                SendCounters {
                    peer_gone: 1,
                    ..none
                }
            );
        }
        assert_eq!(
            check(Errno::MSGSIZE),
            SendCounters {
                too_long: 1,
                ..none
            }
        );
    }

    #[test]
    fn what_waited_goes_first() {
        let memory = Memory::new(1 << 16);
        let mut outbox = Outbox::new(1500, memory.clone());
        let mut counters = SendCounters::default();
        let mut arrived = Vec::new();
        for number in 0..=QUEUE_MAX as u32 {
            let packet = conformance::packet(&memory, number, Payload::Empty);
            let full = |_: &[u8]| Err(Errno::AGAIN.into());
            let taken = outbox.send(Instant::ZERO, packet, &mut counters, full);
            assert_eq!(taken.is_ok(), number < QUEUE_MAX as u32);
        }
        let due = outbox.retry_at().expect("packets wait");
        // The next packet can be sent again.
        let packet = conformance::packet(&memory, 99, Payload::Empty);
        let free = |bytes: &[u8]| {
            let packet = rackweave_wire::parse_bytes(bytes).unwrap();
            arrived.push(conformance::sequence(&packet));
            Ok(())
        };
        assert!(outbox.send(due, packet, &mut counters, free).is_ok());
        let expect: Vec<u32> = (0..QUEUE_MAX as u32).chain([99]).collect();
        assert_eq!(arrived, expect);
        assert_eq!((outbox.retry_at(), outbox.free()), (None, QUEUE_MAX));
    }
}
