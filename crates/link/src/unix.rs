//! A link over Unix datagrams: one Ethernet packet per datagram, between two processes of a
//! machine. QEMU's `-netdev dgram` uses the same format.
//!
//! The link is lossless while the peer lives: the system queues few datagrams and refuses more, and
//! refused packets are queued here. With the usual limit of ten, two processes alternate every ten
//! packets; `sysctl net.unix.max_dgram_qlen=512` avoids that. While no socket is bound at the other
//! end, packets are dropped and counted, so a dead peer blocks no sender; a peer that returns is
//! served again at once.
//!
//! The other end is identified by its socket's path, which must be spelled the same on both sides.

mod bind;
#[cfg(test)]
mod tests;

pub use bind::UnixError;

use crate::bytes::{ETHERNET_MAX, ReceiveCounters};
use crate::outbox::{Carrier, Datagrams, Outbox, SendCounters};
use crate::{Link, Properties};
use bind::Bound;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net;
use std::path::{Path, PathBuf};

/// One end of a link over Unix datagrams. Its socket file is removed when it is dropped.
#[derive(Debug)]
pub struct UnixDatagram {
    bound: Bound,
    peer: PathBuf,
    mtu: usize,
    pool: Pool,
    outbox: Outbox,
    /// The receive buffer: one byte more than the longest accepted datagram, so that a longer one
    /// is detected.
    buffer: Vec<u8>,
    counters: UnixCounters,
}

/// Event counts of one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnixCounters {
    /// Counts of packets sent to the peer. While no socket is bound to its path, the peer counts as
    /// absent.
    pub send: SendCounters,
    /// Counts of packets received from the peer.
    pub receive: ReceiveCounters,
    /// Datagrams dropped because their sender is not the peer.
    pub strangers: u64,
}

impl UnixDatagram {
    /// Binds a socket at `own` that exchanges packets with the one at `peer`, which need not exist
    /// yet. The socket file of a process that died is replaced. `memory` resolves payloads to send,
    /// `pool` holds received ones.
    ///
    /// # Errors
    /// If the MTU is too small for any RDMA MTU, or `own` is in use or cannot be bound.
    pub fn bind(
        own: &Path,
        peer: &Path,
        mtu: usize,
        memory: Memory,
        pool: Pool,
    ) -> Result<Self, UnixError> {
        if crate::rdma_mtu(mtu).is_none() {
            return Err(UnixError::MtuTooSmall { mtu });
        }
        bind::check_path(peer)?;
        Ok(Self {
            bound: Bound::at(own)?,
            peer: peer.to_owned(),
            mtu,
            pool,
            outbox: Outbox::new(mtu, memory),
            buffer: vec![0; ETHERNET_MAX + mtu + 1],
            counters: UnixCounters::default(),
        })
    }

    /// The event counts.
    pub fn counters(&self) -> UnixCounters {
        self.counters
    }
}

/// The way to the peer.
struct Way<'a> {
    socket: &'a net::UnixDatagram,
    peer: &'a Path,
}

impl Carrier for Way<'_> {
    fn offer(&mut self, datagrams: Datagrams<'_>) -> io::Result<usize> {
        self.socket.send_to(datagrams.first(), self.peer)?;
        Ok(1)
    }
}

impl Link for UnixDatagram {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let (socket, peer) = (&self.bound.socket, &self.peer);
        let way = &mut Way { socket, peer };
        self.outbox.send(now, packet, &mut self.counters.send, way)
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let (socket, peer) = (&self.bound.socket, &self.peer);
        let way = &mut Way { socket, peer };
        self.outbox.flush(now, &mut self.counters.send, way);
        loop {
            match socket.recv_from(&mut self.buffer) {
                Ok((len, from)) if from.as_pathname() == Some(peer) => {
                    let frame = &self.buffer[..len];
                    let packet = self.counters.receive.take(frame, self.mtu, &self.pool);
                    if packet.is_some() {
                        return packet;
                    }
                }
                Ok(_) => self.counters.strangers += 1,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A bound, unconnected socket has no error other than an empty queue.
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
            lossless: true,
            check_needed: true,
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bound.socket.as_fd())
    }

    fn asks_system(&self) -> bool {
        true
    }
}
