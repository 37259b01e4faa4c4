//! A link over a network interface: AF_PACKET, whole Ethernet packets in and out (`packet(7)`).
//!
//! The interface is made promiscuous while the link lives, by a membership of its socket, so that
//! nothing is left behind however the process ends. It should belong to the link alone:
//!
//! * The system's own IP stack hears what the link hears. Give the interface no address that a
//!   node uses, or the system answers the node's packets with "port unreachable".
//! * Packets with a VLAN tag are not received: the system takes the tag off before the link sees
//!   the packet, which would then pass for one without. Tagged packets can be sent.
//! * Receive offloads that merge packets (GRO, LRO) must not touch RoCEv2. They leave UDP alone
//!   unless told otherwise (`ethtool -k`, `rx-udp-gro-forwarding`). What they merge of other
//!   protocols exceeds the MTU, and is dropped and counted.
//! * Senders on the same machine may leave checksums to a device that does not exist. RoCEv2 has
//!   no UDP checksum, so that only others' packets are concerned, which pass as they are.

mod error;
mod system;
#[cfg(test)]
mod tests;

pub use error::PacketSocketError;

use crate::bytes::{ETHERNET_MAX, ReceiveCounters};
use crate::outbox::{Outbox, SendCounters};
use crate::{Link, Properties};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The shortest Ethernet packet in bytes, without frame check sequence (IEEE 802.3 4A.4.2).
const LEN_MIN: usize = 60;

/// A link over a network interface. It is lossy, as networks are.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    mtu: usize,
    pool: Pool,
    outbox: Outbox,
    /// Where a packet is received: one byte more than the longest that is taken, so that a longer
    /// one shows.
    buffer: Vec<u8>,
    counters: PacketSocketCounters,
}

/// How often what happened at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketSocketCounters {
    /// What was sent.
    pub send: SendCounters,
    /// What was received. Packets that the system dropped because the link did not look are not
    /// among them.
    pub receive: ReceiveCounters,
}

impl PacketSocket {
    /// Opens an interface. Its MTU becomes that of the link. `memory` resolves payloads that are
    /// sent, `pool` holds those received.
    ///
    /// # Errors
    /// If there is no such interface, it is down or no Ethernet, its MTU carries no RDMA MTU, or
    /// the process may not open it.
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

    /// How often what happened so far.
    pub fn counters(&self) -> PacketSocketCounters {
        self.counters
    }
}

/// Hands a packet to the system, filled up to the shortest that Ethernet knows.
fn offer(socket: &OwnedFd, frame: &[u8]) -> io::Result<()> {
    let mut padded = [0; LEN_MIN];
    let frame = match padded.get_mut(..frame.len()) {
        Some(start) => {
            start.copy_from_slice(frame);
            &padded
        }
        None => frame,
    };
    rustix::net::send(socket, frame, SendFlags::empty())?;
    Ok(())
}

impl Link for PacketSocket {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let socket = &self.socket;
        self.outbox
            .send(now, packet, &mut self.counters.send, |frame| {
                offer(socket, frame)
            })
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let socket = &self.socket;
        self.outbox
            .flush(now, &mut self.counters.send, |frame| offer(socket, frame));
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
                // Nothing there; or the interface went down, which is said once and may pass.
                Err(_) => return None,
            }
        }
    }

    fn room(&self) -> usize {
        self.outbox.room()
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
}
