//! A link between two processes of one host: two rings in a segment that both map.
//!
//! The maker of the segment (the switch) hands its descriptors over ([`handover`]), the other end
//! attaches. Payloads that are references into region memory pass as references: both processes
//! have [imported](Memory::import) each other's arenas, so the receiving NIC copies straight out of
//! the memory of the sender. Payloads from a pool are copied, into the segment and out of it.
//!
//! The link is lossless and promises integrity. An end that dies, at whatever point, leaves nothing
//! half sent: a packet is there when the head has passed it. That the other end has died the link
//! cannot see; whoever learns it says so with [`SharedMemory::mark_peer_gone`]. An end that leaves
//! in an orderly way says so itself. What the other end writes is not trusted: an end that writes
//! [`Nonsense`] is taken for gone.
//!
//! An end is woken by a datagram on a pair of sockets, one pair each way. Every call says that it
//! must not wait: flags of an open file belong to whoever has a descriptor of it, and the other end
//! has one.
//!
//! Reading order: [`protocol`] (counters and waking), `descriptor` (packets), `segment` (bytes).

mod descriptor;
pub mod handover;
pub mod protocol;
mod segment;

use crate::in_process::MTU;
use crate::{Link, Properties};
use protocol::{Nonsense, ReceiveEnd, SendEnd};
use rackweave_base::memory::mapping::OpenError;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socketpair};
use segment::{RingWords, Segment, Way};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

pub use descriptor::TRAIN_MAX;
pub use handover::Handover;
pub use segment::CAPACITY_MAX;

/// The most datagrams read after a sleep: more than a sound peer sends meanwhile.
const WAKES_MAX: usize = 16;

/// One end of a link in shared memory.
pub struct SharedMemory {
    segment: Arc<Segment>,
    way: Way,
    out: SendEnd<RingWords>,
    back: ReceiveEnd<RingWords>,
    memory: Memory,
    pool: Pool,
    /// What this end sleeps on.
    wake: OwnedFd,
    /// What the other end sleeps on.
    wake_peer: OwnedFd,
    is_marked_gone: bool,
    nonsense: Option<Nonsense>,
    oversized: u64,
}

/// Why a link could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Others could not resolve references into the arena.
    #[error(
        "the arena of this process cannot be read by others; make it with Memory::shared and name \
         it with set_origin"
    )]
    ArenaNotShared,
    /// The system refused.
    #[error(
        "no shared memory for a link of {capacity} packets: {source}; ask for fewer, or raise \
         the limit of open files"
    )]
    System {
        /// Packets each way.
        capacity: u32,
        /// Why not.
        source: io::Error,
    },
}

/// Why an end could not attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Others could not resolve references into the arena.
    #[error(
        "the arena of this process cannot be read by others; make it with Memory::shared and name \
         it with set_origin"
    )]
    ArenaNotShared,
    /// The descriptor could not be mapped.
    #[error("stale or foreign shared-memory segment: {0}; join the rack again")]
    Open(OpenError),
    /// The descriptor leads to something else.
    #[error("stale or foreign shared-memory segment: it is no link; join the rack again")]
    NoLink,
    /// It is a link of another version.
    #[error(
        "stale or foreign shared-memory segment: it has layout version {found}; run the same \
         version of Rackweave in every process"
    )]
    Version {
        /// What the header says.
        found: u32,
    },
    /// It is not what its header says.
    #[error(
        "stale or foreign shared-memory segment: its header says {said} bytes for {capacity} \
         packets, but it has {found} bytes; join the rack again"
    )]
    Sizes {
        /// Its length by the header.
        said: u64,
        /// Its packets each way by the header.
        capacity: u32,
        /// Its length.
        found: usize,
    },
    /// Some end has attached before, or its maker has left.
    #[error("stale or foreign shared-memory segment: it was used before; join the rack again")]
    Used,
}

impl SharedMemory {
    /// The end of whoever makes the segment, and what the other end attaches with. The link holds
    /// `capacity` packets each way, rounded up to a power of two of at most [`CAPACITY_MAX`].
    ///
    /// `memory` translates references, which needs its name; `pool` gives the buffers for payloads
    /// that come as copies.
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

    /// The other end of the link that `handover` came from.
    ///
    /// # Errors
    /// If the arena is not shared or has no name, or the segment is not that of a fresh link.
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

    /// Says that the process at the other end is no more. From now on nothing waits for it: what is
    /// sent goes nowhere. What it sent before can still be received.
    pub fn mark_peer_gone(&mut self) {
        self.is_marked_gone = true;
    }

    /// What the other end wrote that made it count as gone, if anything.
    pub fn nonsense(&self) -> Option<Nonsense> {
        self.nonsense
    }

    /// Packets dropped because no slot describes one of their size.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// How many packets the link holds each way.
    pub fn capacity(&self) -> usize {
        self.segment.capacity() as usize
    }

    /// A number that both ends of this link see and no other link is likely to have.
    pub fn epoch(&self) -> u64 {
        self.segment.epoch()
    }

    /// Takes the other end for gone, and reads nothing more from it.
    #[cold]
    fn give_up(&mut self, nonsense: Nonsense) {
        self.nonsense.get_or_insert(nonsense);
    }

    /// Makes the other end's descriptor readable.
    #[cold]
    fn wake_peer(&self) {
        // It can only fail if much lies unread, which wakes too, or if nobody is there.
        let _full = send(
            &self.wake_peer,
            &[0],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
    }

    /// Takes the oldest packet out of the ring; nothing if there is none, or the pool is empty.
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

/// What an end sleeps on, and what wakes it.
fn wake_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    // Datagrams: a pair of streams would be readable for good once the peer has closed its end.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// Whether others can resolve references into `memory`.
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
            // Nobody would ever make room again, and a sender must not wait for a dead peer.
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

    fn room(&self) -> usize {
        if self.is_peer_gone() {
            return self.capacity();
        }
        // An end that writes nonsense is gone: sending to it takes all.
        self.out.room().unwrap_or(self.segment.capacity()) as usize
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
        // A sender whose peer is gone waits for no room.
        let is_peer_gone = self.is_peer_gone();
        let prepared = self.back.prepare_sleep().and_then(|receiver_may| {
            Ok(receiver_may && (is_peer_gone || self.out.prepare_sleep()?))
        });
        let may_sleep = match prepared {
            Ok(may_sleep) => may_sleep,
            Err(nonsense) => {
                // The caller has something to do: to learn that its peer is gone.
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
        // Nothing to read is as good as something. A peer that sends more wakes us once more.
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
            self.room(),
            self.capacity()
        )
    }
}

#[cfg(test)]
mod tests;
