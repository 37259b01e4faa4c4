//! One direction of a cable with the egress queue in front of it.
//!
//! The simulator holds both ends: `send` enters a packet into the egress queue at the near end,
//! `receive` takes it out at the far end when its last bit has arrived. A full queue drops arriving
//! packets. A long queue marks packets as RED does in the switches that DCQCN was designed for:
//! never below one length, always above another, in between with a probability that rises linearly
//! (Zhu et al., SIGCOMM 2015, section 3.1).

use crate::{devices, picos};
use rackweave_base::{Duration, Instant, Packet, Rng};
use rackweave_link::{Link, Properties};
use rackweave_wire::udp;
use std::collections::VecDeque;

/// When packets are marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EcnModel {
    /// Bytes in the queue up to which no packet is marked.
    pub bytes_min: usize,
    /// Bytes in the queue from which every packet is marked.
    pub bytes_max: usize,
    /// Probability of a mark just below `bytes_max`.
    pub probability_max: f64,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkModel {
    /// Bits per second, at least one.
    pub bits_per_second: u64,
    /// Propagation delay.
    pub propagation: Duration,
    /// Capacity of the egress queue in bytes.
    pub queue_bytes: usize,
    /// Whether the queue is unbounded, so that nothing is ever dropped.
    pub lossless: bool,
    /// When packets are marked, if ever.
    pub ecn: Option<EcnModel>,
    /// Maximum bytes after the Ethernet header.
    pub mtu: usize,
    /// Whether packets need an ICRC.
    pub check_needed: bool,
}

/// Counters of a direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Packets put on the wire.
    pub packets: u64,
    /// Their bytes as Ethernet counts them, without preamble, check sequence and gap.
    pub bytes: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Packets marked by this queue.
    pub marks: u64,
    /// Maximum bytes that waited.
    pub queue_bytes_max: u64,
    /// Picoseconds for which the wire was busy.
    pub busy_picos: u64,
}

/// One direction of a link, with both ends in one object.
#[derive(Debug)]
pub struct SimLink {
    model: LinkModel,
    rng: Rng,
    /// Packets between `send` and `receive`, in order.
    flight: VecDeque<Flight>,
    /// How many packets at the front of `flight` have begun to leave the queue.
    started: usize,
    /// Bytes of those that have not.
    queued_bytes: usize,
    /// Until when the wire is busy, in picoseconds.
    busy_until: u64,
    counters: LinkCounters,
}

#[derive(Debug)]
struct Flight {
    /// When its first bit is on the wire, in picoseconds.
    starts: u64,
    arrives: Instant,
    packet: Packet,
}

impl Default for EcnModel {
    fn default() -> Self {
        Self {
            bytes_min: devices::ECN_MARK_BYTES_MIN,
            bytes_max: devices::ECN_MARK_BYTES_MAX,
            probability_max: devices::ECN_MARK_PROBABILITY_MAX,
        }
    }
}

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            bits_per_second: devices::LINK_BITS_PER_SECOND,
            propagation: devices::CABLE_DELAY_PER_METRE * devices::CABLE_METRES,
            queue_bytes: devices::SWITCH_PORT_QUEUE_BYTES,
            lossless: false,
            ecn: Some(EcnModel::default()),
            mtu: rackweave_link::in_process::MTU,
            check_needed: true,
        }
    }
}

impl LinkModel {
    /// Picoseconds for which a packet of `wire_len` bytes occupies the wire, including all Ethernet
    /// overhead.
    #[inline]
    pub fn occupancy(&self, wire_len: usize) -> u64 {
        let packet = wire_len as u64 + devices::ETHERNET_CHECK_BYTES;
        let bytes = packet.max(devices::ETHERNET_PACKET_BYTES_MIN)
            + devices::ETHERNET_PREAMBLE_BYTES
            + devices::ETHERNET_GAP_BYTES;
        picos::transfer(bytes, self.bits_per_second)
    }
}

impl EcnModel {
    fn probability(&self, queued: usize) -> f64 {
        if queued <= self.bytes_min {
            0.0
        } else if queued >= self.bytes_max {
            1.0
        } else {
            let range = (self.bytes_max - self.bytes_min) as f64;
            self.probability_max * (queued - self.bytes_min) as f64 / range
        }
    }
}

impl SimLink {
    /// An idle link. Its random draws come from `rng`.
    pub fn new(model: LinkModel, rng: Rng) -> Self {
        let model = LinkModel {
            bits_per_second: model.bits_per_second.max(1),
            ..model
        };
        Self {
            model,
            rng,
            flight: VecDeque::with_capacity(64),
            started: 0,
            queued_bytes: 0,
            busy_until: 0,
            counters: LinkCounters::default(),
        }
    }

    /// The model.
    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    /// Its counters so far.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Bytes waiting in the egress queue at `now`, not counting the packet that is leaving it.
    pub fn queued_bytes(&mut self, now: Instant) -> usize {
        self.leave_queue(picos::since_start(now));
        self.queued_bytes
    }

    #[inline]
    fn leave_queue(&mut self, now: u64) {
        while let Some(flight) = self.flight.get(self.started)
            && flight.starts <= now
        {
            self.queued_bytes -= flight.packet.wire_len();
            self.started += 1;
        }
    }
}

impl Link for SimLink {
    #[inline]
    fn send(&mut self, now: Instant, mut packet: Packet) -> Result<(), Packet> {
        let enters = picos::since_start(now);
        self.leave_queue(enters);
        let (queued, len) = (self.queued_bytes, packet.wire_len());
        if !self.model.lossless && queued + len > self.model.queue_bytes {
            self.counters.drops += 1;
            return Ok(());
        }
        if let Some(ecn) = self.model.ecn
            && queued > ecn.bytes_min
            && self.rng.chance(ecn.probability(queued))
        {
            self.counters.marks += u64::from(mark(&mut packet));
        }
        let starts = self.busy_until.max(enters);
        let occupancy = self.model.occupancy(len);
        self.busy_until = starts + occupancy;
        let arrives = picos::instant(self.busy_until + picos::of(self.model.propagation));
        self.counters.packets += 1;
        self.counters.bytes += len as u64;
        self.counters.payload_bytes += packet.payload.len() as u64;
        self.counters.busy_picos += occupancy;
        self.queued_bytes += len;
        self.counters.queue_bytes_max = self.counters.queue_bytes_max.max(self.queued_bytes as u64);
        self.flight.push_back(Flight {
            starts,
            arrives,
            packet,
        });
        Ok(())
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<Packet> {
        if self.flight.front()?.arrives > now {
            return None;
        }
        let flight = self.flight.pop_front()?;
        match self.started.checked_sub(1) {
            Some(started) => self.started = started,
            None => self.queued_bytes -= flight.packet.wire_len(),
        }
        Some(flight.packet)
    }

    fn free(&self) -> usize {
        // The link accepts every packet; it drops those that do not fit in the queue, as switches
        // do.
        usize::MAX
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        self.flight.front().map(|flight| flight.arrives)
    }

    fn properties(&self) -> Properties {
        let LinkModel {
            mtu,
            lossless,
            check_needed,
            ..
        } = self.model;
        Properties {
            mtu,
            lossless,
            check_needed,
        }
    }
}

/// Offset of the IPv4 header of a packet, if it has one (IEEE 802.3, 802.1Q).
fn ipv4_at(header: &[u8]) -> Option<usize> {
    let kind = |at: usize| {
        header
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let at = match kind(12)? {
        0x0800 => 14,
        0x8100 if kind(16)? == 0x0800 => 18,
        _ => return None,
    };
    (header.len() >= at + 20).then_some(at)
}

/// Offset of the BTH of a RoCEv2 packet: it follows Ethernet, IPv4 without options, UDP. `None` if
/// the packet is for another UDP port than that of RoCEv2.
pub(crate) fn bth_at(header: &[u8]) -> Option<usize> {
    let at = ipv4_at(header)?;
    let port = header.get(at + 22..at + 24)?;
    (port == udp::ROCE_PORT.to_be_bytes()).then_some(at + 28)
}

/// Bytes that a packet carries: its payload, and for packets other than RoCEv2 also the header area
/// after the UDP header.
pub(crate) fn carried(packet: &Packet) -> usize {
    let header = packet.header();
    let ahead = match (bth_at(header), ipv4_at(header)) {
        (None, Some(at)) => header.len().saturating_sub(at + 28),
        _ => 0,
    };
    ahead + packet.payload.len()
}

/// The BTH opcode of a RoCEv2 packet, if it is one.
pub(crate) fn opcode(header: &[u8]) -> Option<u8> {
    header.get(bth_at(header)?).copied()
}

/// The source and target address of a packet's IPv4 header, if it has one.
pub(crate) fn addresses(header: &[u8]) -> Option<[[u8; 4]; 2]> {
    let at = ipv4_at(header)?;
    Some([12, 16].map(|field| core::array::from_fn(|byte| header[at + field + byte])))
}

/// Sets "congestion experienced" in a packet that supports it (RFC 3168) and corrects the header's
/// checksum. The ICRC masks this field, so it needs no change. Returns false if the packet does not
/// support a mark or has one already.
fn mark(packet: &mut Packet) -> bool {
    let header = packet.header_mut();
    let Some(at) = ipv4_at(header) else {
        return false;
    };
    let ip = &mut header[at..at + 20];
    if !matches!(ip[1] & 3, 1 | 2) {
        return false;
    }
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] |= 3;
    let new = u16::from_be_bytes([ip[0], ip[1]]);
    // RFC 1624, equation 3: the new sum is ~(~sum + ~old + new) in one's complement.
    let sum = u32::from(!u16::from_be_bytes([ip[10], ip[11]])) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());
    true
}

#[cfg(test)]
#[path = "wire_link_tests.rs"]
mod tests;
