//! Builds packets from choices: well-formed ones whose every field the input chooses, and given
//! bytes repaired so far that they pass the first checks.

use crate::fixture::Host;
use crate::input::Input;
use rackweave_base::{Memory, Packet, Payload, Psn, Qpn, Rkey};
use rackweave_verbs::Region;
use rackweave_wire::aeth::NakCode;
use rackweave_wire::{
    Aeth, AtomicEth, Bth, Deth, Ecn, Ethernet, Extension, ExtensionKind, Headers, Ipv4, Opcode,
    Reth, Syndrome, Udp, deth, icrc, parse_bytes,
};

/// The sender of a packet and the queue pair that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub source: Host,
    pub target: Host,
    pub target_qp: Qpn,
}

/// An address and key that a request may name.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget {
    pub address: u64,
    pub rkey: Rkey,
}

impl RequestTarget {
    pub fn of(region: &Region) -> Self {
        Self {
            address: region.address,
            rkey: region.rkey,
        }
    }
}

impl Way {
    pub fn headers(&self, opcode: Opcode, psn: Psn, extension: Extension) -> Headers {
        Headers {
            ethernet: Ethernet::new(self.source.mac, self.target.mac),
            ipv4: Ipv4::new(self.source.ip, self.target.ip),
            udp: Udp::new(0xc000),
            bth: Bth::new(opcode, self.target_qp, psn),
            extension,
        }
    }

    /// Builds a packet from the input. `psn` turns a small number into a PSN.
    pub fn build(
        &self,
        input: &mut Input<'_>,
        places: &[RequestTarget],
        psn: impl FnOnce(Opcode, i8) -> Psn,
    ) -> Option<Packet> {
        let opcode = Opcode::ALL[input.below(Opcode::ALL.len())?];
        let distance = input.byte()? as i8;
        let flags = input.byte()?;
        let extension = extension(opcode.extension(), input, places)?;
        let mut headers = self.headers(opcode, psn(opcode, distance), extension);
        headers.bth.ack_request = flags & 1 != 0;
        headers.bth.solicited = flags & 2 != 0;
        headers.ipv4.ecn = Ecn::from_bits(flags >> 2 & 3);
        headers.bth.becn = flags & 16 != 0;
        if flags & 0xe0 == 0xe0 {
            headers.bth.pkey = input.half()?;
        }
        let len = match opcode.carries_payload() {
            true => usize::from(input.half()?) % 4097,
            false => 0,
        };
        Some(headers.packet(payload(input, len)))
    }

    /// Makes a packet from bytes of the input, or `None` if that is impossible. It gets the
    /// addresses of this way.
    pub fn mend(&self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = parse_bytes(bytes).ok()?;
        let mut headers = Headers::of(&packet).ok()?;
        headers.ethernet = Ethernet::new(self.source.mac, self.target.mac);
        headers.ipv4.source = self.source.ip;
        headers.ipv4.target = self.target.ip;
        headers.bth.target_qp = self.target_qp;
        headers.udp.checksum = 0;
        headers.write_to(&mut packet);
        Some(packet)
    }
}

/// The unchanged bytes, split into header and payload where a receiver would split them.
pub fn raw(bytes: &[u8]) -> Packet {
    parse_bytes(bytes).unwrap_or_else(|_| {
        let (header, rest) = bytes.split_at(bytes.len().min(54));
        Packet::new(header, Payload::copied(rest))
    })
}

/// Gives the packet its correct ICRC.
pub fn seal(packet: &mut Packet, memory: &Memory) {
    let _gone = !icrc::seal(packet, memory);
}

/// The packet as it would travel over a link that leaves the process.
pub fn copied(packet: &Packet, memory: &Memory) -> Packet {
    let mut copy = packet.clone();
    if let Some(bytes) = packet.payload.to_vec(memory) {
        copy.payload = Payload::copied(&bytes);
    }
    copy
}

/// The packet with one bit of payload or check value flipped.
pub fn damaged(packet: &Packet, memory: &Memory, place: u16) -> Packet {
    let mut damaged = copied(packet, memory);
    let mut payload = packet.payload.to_vec(memory).unwrap_or_default();
    let (byte, bit) = (usize::from(place >> 3), 1 << (place & 7));
    if let Some(byte) = payload.get_mut(byte) {
        *byte ^= bit;
        damaged.payload = Payload::copied(&payload);
    } else if let Some(check) = &mut damaged.check {
        check[byte % 4] ^= bit;
    }
    damaged
}

/// Changes this many bytes of a packet's header, given as pairs of an offset and the bits to flip.
pub fn alter(packet: &mut Packet, changes: usize, input: &mut Input<'_>) -> Option<()> {
    for _ in 0..changes {
        let (at, value) = (usize::from(input.byte()?), input.byte()?);
        let header = packet.header_mut();
        header[at % header.len()] ^= value;
    }
    Some(())
}

/// Makes checksums, lengths and the ICRC consistent with the header's fields, where that is
/// possible.
pub fn restore(packet: &mut Packet, memory: &Memory) {
    if let Ok((headers, _)) = Headers::parse(packet.header()) {
        headers.write_to(packet);
    }
    seal(packet, memory);
}

/// `len` bytes: a few from the input, then a pattern, so that long payloads need no long input.
fn payload(input: &mut Input<'_>, len: usize) -> Payload {
    let mut bytes = input.bytes(len.min(8)).to_vec();
    while bytes.len() < len {
        bytes.push(bytes.len() as u8 | 1);
    }
    Payload::copied(&bytes)
}

fn extension(
    kind: ExtensionKind,
    input: &mut Input<'_>,
    places: &[RequestTarget],
) -> Option<Extension> {
    Some(match kind {
        ExtensionKind::None => Extension::None,
        ExtensionKind::Reth => Extension::Reth(reth(input, places)?),
        ExtensionKind::RethImmediate => {
            Extension::RethImmediate(reth(input, places)?, input.word()?)
        }
        ExtensionKind::Immediate => Extension::Immediate(input.word()?),
        ExtensionKind::Invalidate => Extension::Invalidate(place(input, places)?.rkey),
        ExtensionKind::Aeth => Extension::Aeth(aeth(input)?),
        ExtensionKind::AtomicEth => {
            let place = place(input, places)?;
            Extension::AtomicEth(AtomicEth {
                address: place.address,
                rkey: place.rkey,
                swap_or_add: u64::from(input.byte()?),
                compare: u64::from(input.byte()?),
            })
        }
        ExtensionKind::AtomicAck => Extension::AtomicAck(aeth(input)?, u64::from(input.word()?)),
        ExtensionKind::Deth => Extension::Deth(deth(input)?),
        ExtensionKind::DethImmediate => Extension::DethImmediate(deth(input)?, input.word()?),
        ExtensionKind::Cnp => Extension::Cnp,
    })
}

fn deth(input: &mut Input<'_>) -> Option<Deth> {
    let source_qp = Qpn(input.half()?.into());
    let qkey = match input.byte()? {
        0..=9 => input.word()?,
        _ => deth::QKEY_MANAGEMENT,
    };
    Some(Deth { qkey, source_qp })
}

fn place(input: &mut Input<'_>, places: &[RequestTarget]) -> Option<RequestTarget> {
    let choice = input.byte()?;
    let mut place = places[usize::from(choice & 15) % places.len()];
    place.address = place.address.wrapping_add(u64::from(input.half()?));
    if choice & 0x10 != 0 {
        place.address = place.address.wrapping_sub(1 << 15);
    }
    if choice & 0xc0 == 0xc0 {
        place.rkey = Rkey(input.word()?);
    }
    Some(place)
}

fn reth(input: &mut Input<'_>, places: &[RequestTarget]) -> Option<Reth> {
    let place = place(input, places)?;
    let length = u32::from(input.half()?);
    // Most lengths are small; some exceed every bound.
    let length = if length > 0xfff0 {
        length << 15
    } else {
        length & 0x3fff
    };
    Some(Reth {
        address: place.address,
        rkey: place.rkey,
        length,
    })
}

fn aeth(input: &mut Input<'_>) -> Option<Aeth> {
    const NAKS: [NakCode; 5] = [
        NakCode::SequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperation,
        NakCode::InvalidRdRequest,
    ];
    let choice = input.byte()?;
    let syndrome = match choice >> 5 {
        0..=4 => Syndrome::Ack { credits: 31 },
        5 => Syndrome::ReceiverNotReady { timer: choice & 31 },
        _ => Syndrome::Nak(NAKS[usize::from(choice) % NAKS.len()]),
    };
    Some(Aeth {
        syndrome,
        msn: u32::from(input.byte()?),
    })
}
