//! A link over a network interface: AF_PACKET, which receives and sends whole Ethernet packets
//! (`packet(7)`).
//!
//! The interface is made promiscuous while the link lives, by a membership of its socket, so that
//! the setting is removed however the process ends. The interface should be used by the link only:
//!
//! * The system's own IP stack receives the same packets as the link. Give the interface no address
//!   that a node uses, otherwise the system answers the node's packets with "port unreachable".
//! * Packets with a VLAN tag are not received: the system removes the tag before the link gets the
//!   packet, which would then look untagged. Tagged packets can be sent.
//! * Receive offloads that merge packets (GRO, LRO) must not be applied to RoCEv2. They do not
//!   apply to UDP unless so configured (`ethtool -k`, `rx-udp-gro-forwarding`). Merged packets of
//!   other protocols exceed the MTU, and is dropped and counted.
//! * Senders on the same machine may leave checksums to a device that does not exist. RoCEv2 has no
//!   UDP checksum, so this affects only packets of other protocols, which are passed unchanged.

mod error;
mod ring;
mod system;
#[cfg(test)]
mod tests;

pub use error::PacketSocketError;

use crate::bytes::ReceiveCounters;
use crate::outbox::{Carrier, Datagrams, Outbox, SendCounters};
use crate::send_many;
use crate::{Link, Properties};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use ring::Ring;
use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The shortest Ethernet packet in bytes, without frame check sequence (IEEE 802.3 4A.4.2).
const LEN_MIN: usize = 60;

/// A link over a network interface. It is lossy, like any network.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    ring: Ring,
    mtu: usize,
    pool: Pool,
    outbox: Outbox,
    counters: PacketSocketCounters,
    /// Packets dropped as far as the system was asked, which then counts from zero.
    system_drops: AtomicU64,
}

/// Event counts of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketSocketCounters {
    /// Counts of packets sent.
    pub send: SendCounters,
    /// Counts of packets received.
    pub receive: ReceiveCounters,
    /// Packets that the system dropped because the link was not polled for too long.
    pub system_drops: u64,
}

impl PacketSocket {
    /// Opens an interface. Its MTU becomes that of the link. `memory` resolves payloads to send,
    /// `pool` holds received ones.
    ///
    /// # Errors
    /// If there is no such interface, it is down or not Ethernet, its MTU is too small for any RDMA
    /// MTU, or the process may not open it.
    pub fn open(interface: &str, memory: Memory, pool: Pool) -> Result<Self, PacketSocketError> {
        let found = system::interface(interface)
            .map_err(|source| error::not_found(interface, source, &system::interfaces()))?;
        let (socket, ring) = system::open(found.index, found.mtu)
            .map_err(|source| error::not_opened(interface, source))?;
        error::check(interface, &found)?;
        Ok(Self {
            socket,
            ring,
            mtu: found.mtu,
            pool,
            outbox: Outbox::new(found.mtu, memory),
            counters: PacketSocketCounters::default(),
            system_drops: AtomicU64::new(0),
        })
    }

    /// The event counts.
    pub fn counters(&self) -> PacketSocketCounters {
        let new = u64::from(system::ring_drops(&self.socket));
        let before = self.system_drops.fetch_add(new, Ordering::Relaxed);
        PacketSocketCounters {
            system_drops: before + new,
            ..self.counters
        }
    }
}

/// The way to the interface.
struct Way<'a>(&'a OwnedFd);

impl Carrier for Way<'_> {
    /// Pads a packet to the minimum length of Ethernet.
    fn finish(&mut self, bytes: &mut Vec<u8>, at: usize) {
        bytes.resize(bytes.len().max(at + LEN_MIN), 0);
    }

    fn offer(&mut self, datagrams: Datagrams<'_>) -> io::Result<usize> {
        let send = || send_many::send(self.0, None, datagrams, &mut false);
        match send() {
            // The interface is down, or has been since the socket was last asked.
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {
                forget_error(self.0);
                send()
            }
            result => result,
        }
    }
}

/// Clears the pending error of a socket, which the system sets when the interface goes down, and
/// which may be over.
fn forget_error(socket: &OwnedFd) {
    let _error = sockopt::socket_error(socket);
}

impl PacketSocket {
    fn flush(&mut self, now: Instant) {
        if !self.outbox.is_empty() {
            let way = &mut Way(&self.socket);
            self.outbox.flush(now, &mut self.counters.send, way);
        }
    }
}

impl Link for PacketSocket {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let way = &mut Way(&self.socket);
        self.outbox.send(now, packet, &mut self.counters.send, way)
    }

    fn cork(&mut self) {
        self.outbox.cork();
    }

    fn uncork(&mut self, now: Instant) {
        self.outbox.uncork();
        self.flush(now);
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        self.flush(now);
        let (mtu, pool, counters) = (self.mtu, &self.pool, &mut self.counters.receive);
        loop {
            let taken = self.ring.take(|bytes| counters.take(bytes, mtu, pool));
            if let Some(packet) = taken? {
                return Some(packet);
            }
        }
    }

    fn free(&self) -> usize {
        self.outbox.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.outbox.retry_at()
    }

    fn properties(&self) -> Properties {
        Properties {
            mtu: self.mtu,
            lossless: false,
            check_needed: true,
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn asks_system(&self) -> bool {
        // Not to receive; but what others send arrives only if their threads run.
        true
    }

    fn prepare_sleep(&mut self) -> bool {
        // A socket with an error wakes its thread at once.
        forget_error(&self.socket);
        true
    }
}
