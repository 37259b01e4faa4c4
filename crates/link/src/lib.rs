//! Links that carry packets between NICs and the switch, and the wrappers around them.
//!
//! The crate carries a packet from one end of a cable to the other and does not interpret it: no
//! protocol field is checked here. Faults and captures are links wrapped around links, so protocol
//! code never has to ask whether a fault is injected or a capture is running.
//!
//! * [`in_process`]: two rings of packets, for racks inside one process.
//! * [`doorbell`]: which machines have something to do.
//! * [`fault`]: loses, duplicates, reorders and corrupts the packets sent through it.
//! * [`capture`]: writes passing packets to a [`pcapng`] file, which Wireshark reads.
//! * `shared_memory`: rings between two processes on one host.
//! * [`unix`]: Unix datagrams, between processes on one machine or to QEMU.
//! * [`udp`]: UDP with VXLAN framing, between machines.
//! * [`packet_socket`]: AF_PACKET on a network interface.
//! * `conformance`: the suite that every pair of links must pass.
//!
//! Start with [`Link`].

mod bytes;
pub mod capture;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod doorbell;
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
mod send_many;
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
pub use doorbell::{Doorbell, Doorbells};
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

/// The capabilities and guarantees of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// Maximum Ethernet payload of a packet in bytes: everything after the Ethernet header.
    pub mtu: usize,
    /// Whether every accepted packet arrives, once and in order. A lossless link that is full
    /// returns the packet.
    pub lossless: bool,
    /// Whether packets need their ICRC. False only if the link guarantees integrity.
    pub check_needed: bool,
}

/// One end of a full-duplex link.
pub trait Link: Send {
    /// Sends `packet` towards the other end.
    ///
    /// # Errors
    /// Returns the packet if the link is full. A lossy link may instead drop it and return `Ok`.
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet>;

    /// Announces that several packets are about to be sent. Until [`Self::uncork`] the link may
    /// delay them, so that it can pass several to the system at once.
    fn cork(&mut self) {}

    /// Announces that no more packets follow at once.
    fn uncork(&mut self, _now: Instant) {}

    /// The next packet from the other end.
    fn receive(&mut self, now: Instant) -> Option<Packet>;

    /// Number of packets that `send` is guaranteed to accept now. It may read state of the other
    /// end, which costs more than sending: call it once per batch.
    fn free(&self) -> usize;

    /// The time at which `receive` or `send` will have something to do without any other event.
    /// `None` for a link that delays nothing.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The capabilities and guarantees of the link.
    fn properties(&self) -> Properties;

    /// A descriptor that is readable when something may have arrived, or `None` if a thread cannot
    /// sleep on the link. Use it between [`Self::prepare_sleep`] and [`Self::end_sleep`], with
    /// [`wait::sleep`].
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether [`Self::receive`] asks the system each time that nothing has arrived, which takes a
    /// microsecond instead of nanoseconds.
    fn asks_system(&self) -> bool {
        false
    }

    /// Announces that the caller is about to sleep on [`Self::wake_fd`]. Returns false if there is
    /// something to do already: a packet has arrived, or there is space after a failed `send`. Then
    /// the caller must not sleep.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    /// Announces that the caller is awake again, for any reason.
    fn end_sleep(&mut self) {}

    /// Whether the other end is known to have left: it neither sends nor receives any more. Packets
    /// that it sent before can still be received.
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

    fn cork(&mut self) {
        (**self).cork();
    }

    fn uncork(&mut self, now: Instant) {
        (**self).uncork(now);
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<Packet> {
        (**self).receive(now)
    }

    fn free(&self) -> usize {
        (**self).free()
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

    fn asks_system(&self) -> bool {
        (**self).asks_system()
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

/// Gives a RoCEv2 packet without check value its ICRC, as a NIC does whose link guarantees nothing.
/// Other packets have no ICRC, and it cannot be computed for a payload that no longer exists.
fn seal_if_missing(packet: &mut Packet, memory: &Memory) {
    if packet.check.is_none() && Headers::parse(packet.header()).is_ok() {
        let _gone = !icrc::seal(packet, memory);
    }
}
