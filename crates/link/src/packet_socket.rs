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
mod system;
#[cfg(test)]
mod tests;

pub use error::PacketSocketError;
pub(crate) use system::system_drops;

use crate::bytes::{ETHERNET_MAX, ReceiveCounters};
use crate::outbox::{Carrier, Datagrams, Outbox, SendCounters};
use crate::{Link, Properties};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The shortest Ethernet packet in bytes, without frame check sequence (IEEE 802.3 4A.4.2).
const LEN_MIN: usize = 60;

/// A link over a network interface. It is lossy, like any network.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    mtu: usize,
    pool: Pool,
    outbox: Outbox,
    /// The receive buffer: one byte more than the longest accepted packet, so that a longer one is
    /// detected.
    buffer: Vec<u8>,
    counters: PacketSocketCounters,
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
        let socket =
            system::open(found.index).map_err(|source| error::not_opened(interface, source))?;
        error::check(interface, &found)?;
        Ok(Self {
            socket,
            mtu: found.mtu,
            pool,
            outbox: Outbox::new(found.mtu, memory),
            buffer: vec![0; ETHERNET_MAX + found.mtu + 1],
            counters: PacketSocketCounters::default(),
        })
    }

    /// The event counts.
    pub fn counters(&self) -> PacketSocketCounters {
        PacketSocketCounters {
            system_drops: u64::from(system_drops(&self.socket)),
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
        rustix::net::send(self.0, datagrams.first(), SendFlags::empty())?;
        Ok(1)
    }
}

impl Link for PacketSocket {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let way = &mut Way(&self.socket);
        self.outbox.send(now, packet, &mut self.counters.send, way)
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let socket = &self.socket;
        let way = &mut Way(socket);
        self.outbox.flush(now, &mut self.counters.send, way);
        loop {
            match rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((len, _)) => {
                    let frame = &self.buffer[..len];
                    let packet = self.counters.receive.take(frame, self.mtu, &self.pool);
                    if packet.is_some() {
                        return packet;
                    }
                }
                Err(Errno::INTR) => {}
                // Nothing was received; or the interface went down, which is reported once and may
                // be temporary.
                Err(_) => return None,
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
        true
    }
}
