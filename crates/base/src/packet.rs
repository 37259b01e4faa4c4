//! The packet: the data that travels on links between NICs and the switch.
//!
//! A packet is a header area, owned and inline, and a payload. The header bytes are those of the
//! wire, Ethernet first. The payload is empty, a few bytes inline, a buffer from a [`Pool`], or a
//! reference to bytes of a region, which lets an in-process link move data without copying it.
//!
//! **Trains.** Where every link is in this process, one `Packet` may represent several adjacent
//! fragments of a message that differ only in their PSN: all are full and in the middle of the
//! message. It has the header of the first fragment and the payload of all. NICs do the same
//! between driver and hardware (segmentation and receive offload), for the same reason: a step of
//! the machinery costs the same for one fragment as for many. `rackweave_wire::train` splits a
//! train.

mod payload;
mod pool;
mod slot;

pub use payload::{INLINE_MAX, InlineBytes, Payload};
pub use pool::{Pool, PoolBuffer};

use crate::memory::Memory;
use slot::Slot;

/// Maximum header bytes of a packet: Ethernet with VLAN tag 18, IPv4 20, UDP 8, BTH 12, AtomicETH
/// 28 add up to 86.
pub const HEADER_MAX: usize = 88;

/// The largest payload of one packet in bytes: the largest RDMA MTU.
pub const PAYLOAD_MAX: usize = 4096;

/// One Ethernet packet: a pointer to its [`Parts`], so that links, queues and tables move eight
/// bytes.
pub struct Packet(Slot);

/// The parts of a packet.
#[derive(Debug)]
pub struct Parts {
    header: [u8; HEADER_MAX],
    header_len: u8,
    pad_len: u8,
    pad: [u8; 3],
    /// The end-to-end check value after payload and pad, in wire order. `None` where the packet has
    /// no such trailer or where every link on the path promises integrity.
    pub check: Option<[u8; 4]>,
    /// What the packet carries after its headers, without pad bytes.
    pub payload: Payload,
    /// Payload bytes of one fragment, if this is a train; zero otherwise.
    fragment_len: u16,
}

impl Packet {
    /// Bytes of a packet that is queued, without its payload: those of its place and of its parts.
    pub const BYTES: usize = size_of::<Self>() + size_of::<Parts>();

    /// A packet with the given header bytes and payload, no pad and no check value.
    ///
    /// # Panics
    /// If there are more than [`HEADER_MAX`] header bytes.
    #[inline]
    pub fn new(header: &[u8], payload: Payload) -> Self {
        let mut packet = Self::with_payload(payload);
        packet.set_header(header);
        packet
    }

    /// A packet whose header is yet to be written.
    #[inline]
    pub fn with_payload(payload: Payload) -> Self {
        let mut packet = Self(Slot::take());
        packet.payload.replace(payload);
        packet
    }
}

impl Clone for Packet {
    #[inline]
    fn clone(&self) -> Self {
        let mut packet = Self::with_payload(self.payload.clone());
        // Whole areas, whatever counts of them: copies of a fixed length take a few instructions.
        packet.header = self.header;
        packet.header_len = self.header_len;
        packet.pad = self.pad;
        packet.pad_len = self.pad_len;
        packet.check = self.check;
        packet.fragment_len = self.fragment_len;
        packet
    }
}

impl core::fmt::Debug for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}

impl core::ops::Deref for Packet {
    type Target = Parts;

    #[inline]
    fn deref(&self) -> &Parts {
        self.0.parts()
    }
}

impl core::ops::DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Parts {
        self.0.parts_mut()
    }
}

impl Parts {
    /// Without header, payload, pad and check value.
    const fn empty() -> Self {
        Self {
            header: [0; HEADER_MAX],
            header_len: 0,
            pad_len: 0,
            pad: [0; 3],
            check: None,
            payload: Payload::Empty,
            fragment_len: 0,
        }
    }

    /// Makes them empty, and frees the payload. Bytes that count for nothing stay.
    #[inline]
    fn clear(&mut self) {
        self.header_len = 0;
        self.pad_len = 0;
        self.check = None;
        self.payload.replace(Payload::Empty);
        self.fragment_len = 0;
    }

    /// Turns this packet into a train of fragments of `fragment_len` payload bytes each.
    ///
    /// # Panics
    /// If the payload is not at least two whole fragments.
    pub fn make_train(&mut self, fragment_len: u32) {
        let len = self.payload.len() as u32;
        assert!(len >= 2 * fragment_len && len.is_multiple_of(fragment_len));
        self.fragment_len = fragment_len as u16;
    }

    /// Payload bytes of the first fragment: of the only one, unless this is a train.
    #[inline]
    pub fn fragment_len(&self) -> usize {
        match self.fragment_len {
            0 => self.payload.len(),
            len => usize::from(len),
        }
    }

    /// Number of fragments in this packet: one, unless it is a train.
    #[inline]
    pub fn fragments(&self) -> u32 {
        match self.fragment_len {
            0 => 1,
            len => self.payload.len() as u32 / u32::from(len),
        }
    }

    /// The header bytes, from the Ethernet header to the last byte before the payload.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.header[..self.header_len as usize]
    }

    /// The header bytes, mutable in place.
    #[inline]
    pub fn header_mut(&mut self) -> &mut [u8] {
        &mut self.header[..self.header_len as usize]
    }

    /// Replaces the header bytes.
    ///
    /// # Panics
    /// If there are more than [`HEADER_MAX`].
    #[inline]
    pub fn set_header(&mut self, header: &[u8]) {
        self.header[..header.len()].copy_from_slice(header);
        self.header_len = header.len() as u8;
    }

    /// Lets `emit` write the header into the whole header area and keeps the number of bytes that
    /// it returns.
    #[inline]
    pub fn emit_header(&mut self, emit: impl FnOnce(&mut [u8; HEADER_MAX]) -> usize) {
        let len = emit(&mut self.header);
        assert!(len <= HEADER_MAX);
        self.header_len = len as u8;
    }

    /// The pad bytes between payload and check value, at most three.
    #[inline]
    pub fn pad(&self) -> &[u8] {
        &self.pad[..self.pad_len as usize]
    }

    /// Sets the pad bytes.
    ///
    /// # Panics
    /// If there are more than three.
    #[inline]
    pub fn set_pad(&mut self, pad: &[u8]) {
        self.pad[..pad.len()].copy_from_slice(pad);
        self.pad_len = pad.len() as u8;
    }

    /// Bytes on the wire as Ethernet counts them, without preamble and frame check sequence. A
    /// check value is counted whether the packet has it or it is omitted by agreement.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.header_len as usize + self.payload.len() + self.pad_len as usize + 4
    }

    /// Bytes on the wire of all fragments in this packet: each has its own headers and check value.
    #[inline]
    pub fn wire_len_total(&self) -> u64 {
        let around = self.header_len as usize + self.pad_len as usize + 4;
        u64::from(self.fragments()) * around as u64 + self.payload.len() as u64
    }

    /// Appends the packet's bytes to `bytes`. The check value is appended if the packet has one.
    /// Returns false if the payload refers to a block that no longer exists.
    pub fn serialise(&self, memory: &Memory, bytes: &mut Vec<u8>) -> bool {
        bytes.extend_from_slice(self.header());
        match self.payload.as_slice() {
            Some(payload) => bytes.extend_from_slice(payload),
            None => {
                let at = bytes.len();
                bytes.resize(at + self.payload.len(), 0);
                if !self.payload.copy_to(memory, &mut bytes[at..]) {
                    return false;
                }
            }
        }
        bytes.extend_from_slice(self.pad());
        if let Some(check) = self.check {
            bytes.extend_from_slice(&check);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_pointer() {
        assert_eq!(size_of::<Packet>(), size_of::<usize>());
    }

    #[test]
    fn every_kind_of_payload_serialises_alike() {
        let memory = Memory::new(1 << 20);
        let block = memory.allocate(64).unwrap();
        block.write(0, b"0123456789");
        let pool = Pool::new(1);
        let pooled = pool.take(10, |b| {
            block.memory().read(block.reference(0, 10).unwrap(), b)
        });
        let payloads = [
            Payload::inline(b"0123456789"),
            Payload::Pooled(pooled.unwrap()),
            Payload::Region(block.reference(0, 10).unwrap()),
        ];
        for payload in payloads {
            let mut packet = Packet::new(b"head", payload);
            packet.set_pad(&[0, 0]);
            packet.check = Some([1, 2, 3, 4]);
            let mut bytes = Vec::new();
            assert!(packet.serialise(&memory, &mut bytes));
            assert_eq!(bytes, b"head0123456789\0\0\x01\x02\x03\x04");
            assert_eq!(packet.wire_len(), bytes.len());
        }
    }

    #[test]
    fn the_pool_is_bounded_and_refills() {
        let pool = Pool::new(1);
        let one = pool.take(100, |_| true);
        assert!(one.is_some());
        assert!(pool.take(100, |_| true).is_none());
        drop(one);
        assert!(pool.take(100, |_| true).is_some());
    }
}
