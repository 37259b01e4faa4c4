//! A link between two processes of one host: two rings in a segment that both processes map.
//!
//! The creator of the segment (the switch) passes its descriptors to the other process
//! ([`handover`]), which attaches. Payloads that are references into region memory are passed as
//! references: both processes have [imported](Memory::import) each other's arenas, so the receiving
//! NIC copies directly from the sender's memory. Payloads from a pool are copied, into the segment
//! and out of it.
//!
//! The link is lossless and guarantees integrity. An end that dies, at any point, leaves no packet
//! half sent: a packet exists once the head has passed it. The link cannot detect that the other
//! process has died; the code that learns of it calls [`SharedMemory::mark_peer_gone`]. An end that
//! leaves in an orderly way announces it. Data from the other end is not trusted: an end that
//! writes [`Nonsense`] is treated as closed.
//!
//! An end is woken by a datagram on a socket pair, one pair per direction. Every call passes its
//! own non-blocking flag: the flags of an open file are shared by all holders of a descriptor,
//! including the other end.
//!
//! Read in this order: [`protocol`] (counters and waking), `descriptor` (packets), `segment`
//! (bytes).

mod descriptor;
mod error;
pub mod handover;
pub mod protocol;
mod segment;

use crate::in_process::MTU;
use crate::{Link, Properties};
use protocol::{Nonsense, ReceiveEnd, SendEnd};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socketpair};
use segment::{RingWords, Segment, Way};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

pub use descriptor::TRAIN_MAX;
pub use error::{AttachError, CreateError};
pub use handover::Handover;
pub use segment::CAPACITY_MAX;

/// Maximum datagrams read after a sleep: more than a correct peer sends in that time.
const WAKES_MAX: usize = 16;

/// One end of a link in shared memory.
pub struct SharedMemory {
    segment: Arc<Segment>,
    way: Way,
    out: SendEnd<RingWords>,
    back: ReceiveEnd<RingWords>,
    memory: Memory,
    pool: Pool,
    /// The socket that this end sleeps on.
    wake: OwnedFd,
    /// The socket that the other end sleeps on.
    wake_peer: OwnedFd,
    is_marked_gone: bool,
    nonsense: Option<Nonsense>,
    oversized: u64,
}

impl SharedMemory {
    /// Creates the segment and returns the creator's end, and what the other end attaches with. The
    /// link holds `capacity` packets per direction, rounded up to a power of two of at most
    /// [`CAPACITY_MAX`].
    ///
    /// `memory` translates references, for which it needs a name; `pool` provides the buffers for
    /// payloads that arrive as copies.
    ///
    /// # Errors
    /// If the arena is not shared or has no name, or the system refuses.
    pub fn create(
        capacity: usize,
        memory: Memory,
        pool: Pool,
    ) -> Result<(Self, Handover), CreateError> {
        if !can_export(&memory) {
            return Err(CreateError::ArenaNotShared);
        }
        let capacity = capacity.clamp(1, CAPACITY_MAX).next_power_of_two() as u32;
        let make = || {
            let (fd, segment) = Segment::create(capacity)?;
            let (ours, to_us) = wake_sockets()?;
            let (theirs, to_them) = wake_sockets()?;
            let own = [ours, to_them];
            let wake = [to_us, theirs];
            let handover = Handover { segment: fd, wake };
            Ok((Self::new(segment, Way::Out, own, memory, pool), handover))
        };
        make().map_err(|source| CreateError::System { capacity, source })
    }

    /// Attaches the other end of the link that `handover` came from.
    ///
    /// # Errors
    /// If the arena is not shared or has no name, or the segment is not that of a new link.
    pub fn attach(handover: Handover, memory: Memory, pool: Pool) -> Result<Self, AttachError> {
        if !can_export(&memory) {
            return Err(AttachError::ArenaNotShared);
        }
        let segment = Segment::open(&handover.segment)?;
        if !segment.take() || segment.words(Way::Out).is_closed() {
            return Err(AttachError::Used);
        }
        let [theirs, ours] = handover.wake;
        Ok(Self::new(segment, Way::Back, [ours, theirs], memory, pool))
    }

    fn new(
        segment: Arc<Segment>,
        way: Way,
        [wake, wake_peer]: [OwnedFd; 2],
        memory: Memory,
        pool: Pool,
    ) -> Self {
        let capacity = segment.capacity();
        Self {
            way,
            out: SendEnd::new(segment.words(way), capacity),
            back: ReceiveEnd::new(segment.words(way.other()), capacity),
            segment,
            memory,
            pool,
            wake,
            wake_peer,
            is_marked_gone: false,
            nonsense: None,
            oversized: 0,
        }
    }

    /// Records that the process at the other end no longer exists. From now on nothing waits for
    /// it: packets sent to it are discarded. Packets that it sent before can still be received.
    pub fn mark_peer_gone(&mut self) {
        self.is_marked_gone = true;
    }

    /// The invalid data because of which the other end is treated as closed, if any.
    pub fn nonsense(&self) -> Option<Nonsense> {
        self.nonsense
    }

    /// Packets dropped because a slot cannot describe a packet of their size.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Number of packets that the link holds per direction.
    pub fn capacity(&self) -> usize {
        self.segment.capacity() as usize
    }

    /// A number that both ends of this link share and that is unlikely to be that of another link.
    pub fn epoch(&self) -> u64 {
        self.segment.epoch()
    }

    /// Treats the other end as closed and reads nothing more from it.
    #[cold]
    fn give_up(&mut self, nonsense: Nonsense) {
        self.nonsense.get_or_insert(nonsense);
    }

    /// Makes the other end's descriptor readable.
    #[cold]
    fn wake_peer(&self) {
        // This fails only if many datagrams are unread, which also wakes the other end, or if the
        // other end is closed.
        let _full = send(
            &self.wake_peer,
            &[0],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
    }

    /// Removes the oldest packet from the ring; `None` if there is none, or the pool is empty.
    #[inline]
    fn take(&mut self) -> Result<Option<Packet>, Nonsense> {
        let Some(index) = self.back.peek()? else {
            return Ok(None);
        };
        let (segment, way) = (&self.segment, self.way.other());
        let copy = |target: &mut [u8]| segment.read_payload(way, index, target);
        let descriptor = segment.read(way, index);
        let packet = descriptor.packet(&self.memory, &self.pool, copy)?;
        if packet.is_some() && self.back.release() {
            self.wake_peer();
        }
        Ok(packet)
    }
}

/// A socket pair: the one that an end sleeps on, and the one that wakes it.
fn wake_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    // Datagrams: a pair of streams would stay readable once the peer has closed its end.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// Whether other processes can resolve references into `memory`.
fn can_export(memory: &Memory) -> bool {
    memory.descriptor().is_some() && memory.origin().is_name()
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Out => Self::Back,
            Self::Back => Self::Out,
        }
    }
}

impl Link for SharedMemory {
    #[inline]
    fn send(&mut self, _now: Instant, packet: Packet) -> Result<(), Packet> {
        if self.is_peer_gone() {
            // No slot would ever become free again, and a sender must not wait for a dead peer.
            return Ok(());
        }
        let index = match self.out.reserve() {
            Ok(Some(index)) => index,
            Ok(None) => return Err(packet),
            Err(nonsense) => {
                self.give_up(nonsense);
                return Ok(());
            }
        };
        if !descriptor::fits(&packet) {
            self.oversized += 1;
            return Ok(());
        }
        let (bytes, len) = descriptor::encode(&packet, &self.memory);
        let copied = descriptor::copied(&packet);
        self.segment.write(self.way, index, &bytes.0[..len], copied);
        if self.out.publish() {
            self.wake_peer();
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, _now: Instant) -> Option<Packet> {
        if self.nonsense.is_some() {
            return None;
        }
        match self.take() {
            Ok(Some(packet)) => return Some(packet),
            Ok(None) if self.back.settle() => self.wake_peer(),
            Ok(None) => {}
            Err(nonsense) => self.give_up(nonsense),
        }
        None
    }

    fn free(&self) -> usize {
        if self.is_peer_gone() {
            return self.capacity();
        }
        // An end that writes invalid data counts as closed: every packet to it is accepted.
        self.out.free().unwrap_or(self.segment.capacity()) as usize
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn properties(&self) -> Properties {
        Properties {
            mtu: MTU,
            lossless: true,
            check_needed: false,
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn prepare_sleep(&mut self) -> bool {
        if self.nonsense.is_some() {
            return true;
        }
        // A sender whose peer has left does not wait for space.
        let is_peer_gone = self.is_peer_gone();
        let prepared = self.back.prepare_sleep().and_then(|receiver_may| {
            Ok(receiver_may && (is_peer_gone || self.out.prepare_sleep()?))
        });
        let may_sleep = match prepared {
            Ok(may_sleep) => may_sleep,
            Err(nonsense) => {
                // The caller has something to do: to learn that its peer has left.
                self.give_up(nonsense);
                false
            }
        };
        if !may_sleep {
            self.back.end_sleep();
            self.out.end_sleep();
        }
        may_sleep
    }

    fn end_sleep(&mut self) {
        self.back.end_sleep();
        self.out.end_sleep();
        // It does not matter whether there is anything to read. A peer that sends more wakes this
        // end again.
        for _ in 0..WAKES_MAX {
            if recv(&self.wake, &mut [0; 1], RecvFlags::DONTWAIT).is_err() {
                break;
            }
        }
    }

    #[inline]
    fn is_peer_gone(&self) -> bool {
        self.is_marked_gone || self.nonsense.is_some() || self.back.words().is_closed()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.out.words().close();
        self.wake_peer();
    }
}

impl core::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "SharedMemory({:016x}, room {} of {})",
            self.epoch(),
            self.free(),
            self.capacity()
        )
    }
}

#[cfg(test)]
mod tests;
