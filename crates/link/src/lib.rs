//! Links that carry packets between NICs and the switch, and the wrappers around them.
//!
//! Knows how a packet gets from one end of a cable to the other, and nothing of what it says: no
//! protocol field is judged here. Faults and captures are links wrapped around links, so no
//! protocol code ever asks whether a fault is planned or somebody listens (DESIGN section 2).
//!
//! * [`in_process`]: two rings of packets, for racks inside one process.
//! * [`fault`]: loses, duplicates, reorders and corrupts what is sent through it.
//! * [`capture`]: writes what passes to a [`pcapng`] file, which Wireshark opens.
//! * `conformance`: the suite that every pair of links must pass.
//!
//! Start reading at [`Link`].

pub mod capture;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod fault;
pub mod in_process;
pub mod pcapng;
pub mod ring;
mod sync;

use rackweave_base::{Instant, Memory, Packet};
use rackweave_wire::{Headers, icrc};

pub use capture::{Capture, CaptureError, CaptureOptions, CaptureSummary, SharedCapture};
pub use fault::{Fault, FaultConfig, FaultCounters, FaultError, FaultHandle};
pub use in_process::InProcess;
pub use pcapng::Direction;

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
}

/// Gives a RoCEv2 packet without check value its ICRC, as a NIC does whose link promises nothing.
/// Other packets have none, and one whose payload is gone cannot get it.
fn seal_if_missing(packet: &mut Packet, memory: &Memory) {
    if packet.check.is_none() && Headers::parse(packet.header()).is_ok() {
        let _gone = !icrc::seal(packet, memory);
    }
}
