//! Links that carry packets between NICs and the switch, and the wrappers around them.
//!
//! Knows how a packet gets from one end of a cable to the other, and nothing of what it says: no
//! protocol field is judged here. Faults and captures are links wrapped around links, so no
//! protocol code ever asks whether a fault is planned or a capture is running.
//!
//! * [`in_process`]: two rings of packets, for racks inside one process.
//! * [`fault`]: loses, duplicates, reorders and corrupts what is sent through it.
//! * [`capture`]: writes what passes to a [`pcapng`] file, which Wireshark opens.
//! * `shared_memory`: rings between two processes of one host.
//! * [`unix`]: Unix datagrams, between processes of a machine or to QEMU.
//! * [`udp`]: UDP with VXLAN framing, between machines.
//! * [`packet_socket`]: AF_PACKET on a network interface.
//! * `conformance`: the suite that every pair of links must pass.
//!
//! Start reading at [`Link`].

mod bytes;
pub mod capture;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod fault;
pub mod in_process;
mod mtu;
#[cfg(all(test, target_os = "linux"))]
mod namespace;
mod outbox;
#[cfg(target_os = "linux")]
pub mod packet_socket;
pub mod pcapng;
pub mod ring;
#[cfg(target_os = "linux")]
pub mod shared_memory;
mod sync;
#[cfg(all(target_os = "linux", feature = "udp"))]
pub mod udp;
pub mod unix;
pub mod wait;

use rackweave_base::{Instant, Memory, Packet};
use rackweave_wire::{Headers, icrc};
use std::os::fd::BorrowedFd;

pub use bytes::ReceiveCounters;
pub use capture::{Capture, CaptureError, CaptureOptions, CaptureSummary, SharedCapture};
pub use fault::{Fault, FaultConfig, FaultCounters, FaultError, FaultHandle};
pub use in_process::InProcess;
pub use mtu::{MTU_MIN, rdma_mtu};
pub use outbox::SendCounters;
#[cfg(target_os = "linux")]
pub use packet_socket::{PacketSocket, PacketSocketCounters, PacketSocketError};
pub use pcapng::Direction;
#[cfg(target_os = "linux")]
pub use shared_memory::{AttachError, SharedMemory};
#[cfg(all(target_os = "linux", feature = "udp"))]
pub use udp::{Hub, HubConfig, PeerRule, UdpCounters, UdpError};
pub use unix::{UnixCounters, UnixDatagram, UnixError};

/// What a link can do and promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// The most bytes of Ethernet payload that a packet may have: everything behind the Ethernet
    /// header.
    pub mtu: usize,
    /// Whether every packet taken arrives, once and in order. A lossless link without room gives
    /// the packet back.
    pub lossless: bool,
    /// Whether packets need their ICRC. False only if the link promises integrity.
    pub check_needed: bool,
}

/// One end of a full-duplex link.
pub trait Link: Send {
    /// Sends `packet` towards the other end.
    ///
    /// # Errors
    /// Gives the packet back if there is no room. A lossy link may instead drop it and say `Ok`.
    #[expect(
        clippy::result_large_err,
        reason = "boxing the packet would cost an allocation"
    )]
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet>;

    /// The next packet from the other end.
    fn receive(&mut self, now: Instant) -> Option<Packet>;

    /// How many packets `send` surely takes now. It may look at what the other end last did, which
    /// is dearer than sending: ask once per batch.
    fn room(&self) -> usize;

    /// When the passing of time alone will give `receive` or `send` something to do. A link that
    /// delays nothing says `None`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What the link can do and promises.
    fn properties(&self) -> Properties;

    /// Readable when something may have arrived, if a thread can sleep on the link at all: between
    /// [`Self::prepare_sleep`] and [`Self::end_sleep`], with [`wait::sleep`].
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Says that the caller is about to sleep on [`Self::wake_fd`]. False if there is something to
    /// do already: a packet has come, or room for which `send` asked in vain. Then it must not.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    /// Says that the caller is awake again, whatever woke it.
    fn end_sleep(&mut self) {}

    /// Whether the other end is known to be gone: it sends no more and takes no more. What it sent
    /// before can still be received.
    fn is_peer_gone(&self) -> bool {
        false
    }
}

/// Boxed links are links, so that a rack may choose the kind at run time.
impl<L: Link + ?Sized> Link for Box<L> {
    #[inline]
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        (**self).send(now, packet)
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<Packet> {
        (**self).receive(now)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }

    fn properties(&self) -> Properties {
        (**self).properties()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).wake_fd()
    }

    fn prepare_sleep(&mut self) -> bool {
        (**self).prepare_sleep()
    }

    fn end_sleep(&mut self) {
        (**self).end_sleep();
    }

    fn is_peer_gone(&self) -> bool {
        (**self).is_peer_gone()
    }
}

/// Gives a RoCEv2 packet without check value its ICRC, as a NIC does whose link promises nothing.
/// Other packets have none, and one whose payload is gone cannot get it.
fn seal_if_missing(packet: &mut Packet, memory: &Memory) {
    if packet.check.is_none() && Headers::parse(packet.header()).is_ok() {
        let _gone = !icrc::seal(packet, memory);
    }
}
