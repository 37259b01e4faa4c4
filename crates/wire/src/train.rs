//! Trains: one packet in memory for several fragments on the wire (see
//! [`rackweave_base::packet`]).
//!
//! A train's header is that of its first fragment, a READ response Middle or a WRITE Middle, so the
//! fragments differ only in PSN, IP identification and the request for an acknowledgement, which is
//! set on the last one for all of them.

use crate::{Headers, ParseError};
use rackweave_base::{Packet, Payload};

/// The packets that `packet` represents, in order: itself, unless it is a train.
///
/// # Errors
/// If it is a train whose headers cannot be parsed.
pub fn split(packet: &Packet) -> Result<impl Iterator<Item = Packet>, ParseError> {
    let count = packet.fragments();
    let headers = if count > 1 {
        Some(Headers::of(packet)?)
    } else {
        None
    };
    Ok((0..count).map(move |at| match headers {
        None => packet.clone(),
        Some(headers) => fragment(packet, headers, at, count),
    }))
}

fn fragment(packet: &Packet, mut headers: Headers, at: u32, count: u32) -> Packet {
    headers.bth.psn = headers.bth.psn.add(at);
    headers.bth.ack_request &= at + 1 == count;
    headers.ipv4.identification = headers.ipv4.identification.wrapping_add(at as u16);
    let len = packet.fragment_len() as u32;
    let payload = match &packet.payload {
        Payload::Region(reference) => Payload::Region(reference.part(at * len, len)),
        other => {
            let bytes = other.as_slice().unwrap_or_default();
            Payload::copied(&bytes[(at * len) as usize..][..len as usize])
        }
    };
    headers.packet(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bth, Ethernet, Extension, Ipv4, Opcode, Udp};
    use rackweave_base::{MacAddr, Memory, Psn, Qpn};
    use std::net::Ipv4Addr;

    fn train(memory: &Memory) -> Packet {
        let block = memory.allocate(8192).unwrap();
        for at in 0..8 {
            block.write(at * 1024, &[at as u8; 1024]);
        }
        let (mac, ip) = (MacAddr([2; 6]), Ipv4Addr::LOCALHOST);
        let mut bth = Bth::new(Opcode::WriteMiddle, Qpn(7), Psn::new(Psn::SPACE - 2));
        bth.ack_request = true;
        let headers = Headers {
            ethernet: Ethernet::new(mac, mac),
            ipv4: Ipv4::new(ip, ip),
            udp: Udp::new(0xc000),
            bth,
            extension: Extension::None,
        };
        let payload = Payload::Region(block.reference(1024, 4096).unwrap());
        let mut packet = Packet::with_payload(payload);
        packet.make_train(1024);
        headers.write_to(&mut packet);
        // The block must outlive the packet's use in the test.
        core::mem::forget(block);
        packet
    }

    #[test]
    fn a_train_is_its_fragments() {
        let memory = Memory::new(1 << 20);
        let train = train(&memory);
        assert_eq!(train.fragments(), 4);
        let fragments: Vec<Packet> = split(&train).unwrap().collect();
        assert_eq!(fragments.len(), 4);
        for (at, packet) in fragments.iter().enumerate() {
            let headers = Headers::of(packet).unwrap();
            assert_eq!(headers.bth.psn, Psn::new(Psn::SPACE - 2).add(at as u32));
            assert_eq!(headers.bth.ack_request, at == 3);
            assert_eq!(
                packet.payload.to_vec(&memory).unwrap(),
                [at as u8 + 1; 1024]
            );
        }
    }

    #[test]
    fn a_single_packet_stays_as_it_is() {
        let packet = Packet::new(b"no headers at all", Payload::Empty);
        let split: Vec<Packet> = split(&packet).unwrap().collect();
        assert_eq!(split.len(), 1);
        assert_eq!(split[0].header(), packet.header());
    }
}
