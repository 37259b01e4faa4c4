//! Packets captured between two Linux hosts (rdma_rxe, MTU 1024), in both directions.
//!
//! `rc-send`: `ibv_rc_pingpong` with messages of 3001 bytes, hence with three pad bytes;
//! `rdma-write`, `rdma-read`: `ib_write_bw`, `ib_read_bw` with 3000 bytes; `atomic-*`:
//! `ib_atomic_bw`. `connection-manager`: the messages of `rping`, as client and as server, to this
//! project's NIC. Every packet carries an ICRC that Linux accepted.

use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{MacAddr, Memory, Packet, Payload, Psn, Qpn, Rkey};
use rackweave_wire::cm::{self, IpAddresses, Mad, Message, RejectReason};
use rackweave_wire::{
    Aeth, Ecn, Extension, Headers, Opcode, ParseError, Reth, Rewrite, Syndrome, Verdict, Vlan,
    icrc, parse_bytes,
};
use std::net::Ipv4Addr;
use std::sync::LazyLock;

const CAPTURES: [(&str, usize, &[u8]); 6] = [
    ("rc-send", 16, include_bytes!("../vectors/rc-send.pcap")),
    (
        "rdma-write",
        20,
        include_bytes!("../vectors/rdma-write.pcap"),
    ),
    ("rdma-read", 20, include_bytes!("../vectors/rdma-read.pcap")),
    (
        "atomic-fetch-add",
        10,
        include_bytes!("../vectors/atomic-fetch-add.pcap"),
    ),
    (
        "atomic-compare-swap",
        10,
        include_bytes!("../vectors/atomic-compare-swap.pcap"),
    ),
    (
        "connection-manager",
        6,
        include_bytes!("../vectors/connection-manager.pcap"),
    ),
];

/// An acknowledgement from its IPv4 header on, the ICRC last.
const ACKNOWLEDGEMENT: [u8; 48] = [
    0x45, 0x00, 0x00, 0x30, 0x95, 0x13, 0x40, 0x00, 0x40, 0x11, 0x91, 0x0d, 0x0a, 0x4d, 0x00, 0x01,
    0x0a, 0x4d, 0x00, 0x02, 0xef, 0x2d, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff,
    0x00, 0x00, 0x00, 0x19, 0x00, 0xf5, 0xf1, 0xc7, 0x1f, 0x00, 0x00, 0x01, 0xf7, 0xeb, 0xcb, 0x3f,
];

/// The packets of a classic little-endian pcap file.
fn packets_of(file: &'static [u8]) -> Vec<&'static [u8]> {
    assert_eq!(file[..4], 0xa1b2_c3d4_u32.to_le_bytes());
    let mut rest = &file[24..];
    let mut packets = Vec::new();
    while let Some((record, behind)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(*record[8..].first_chunk().unwrap()) as usize;
        packets.push(&behind[..len]);
        rest = &behind[len..];
    }
    packets
}

fn all_packets() -> impl Iterator<Item = &'static [u8]> {
    CAPTURES
        .into_iter()
        .flat_map(|(_, _, file)| packets_of(file))
}

/// An empty arena: captured payloads are owned by their packets.
fn no_memory() -> &'static Memory {
    static MEMORY: LazyLock<Memory> = LazyLock::new(|| Memory::new(0));
    &MEMORY
}

fn with_ethernet(ip: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x08, 0x00];
    bytes.extend_from_slice(ip);
    bytes
}

/// The same packet in a VLAN.
fn tagged(bytes: &[u8]) -> Vec<u8> {
    let mut tagged = bytes.to_vec();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    tagged
}

/// Parses bytes, encodes the result, and asserts that the bytes are the same and the ICRC is right.
fn check_both_ways(bytes: &[u8]) -> Headers {
    let packet = parse_bytes(bytes).unwrap();
    let headers = Headers::of(&packet).unwrap();
    assert_eq!(Headers::parse(bytes), Ok((headers, headers.len())));
    let mut header = [0xee; HEADER_MAX];
    let len = headers.emit(&mut header, packet.payload.len());
    assert_eq!(&header[..len], packet.header());

    let mut written = headers.packet(packet.payload.clone());
    assert!(icrc::seal(&mut written, no_memory()));
    let mut serialised = Vec::new();
    assert!(written.serialise(no_memory(), &mut serialised));
    assert_eq!(serialised, bytes, "{headers}");
    assert_eq!(icrc::verify(&packet, no_memory()), Verdict::Right);
    headers
}

#[test]
fn every_packet_goes_both_ways() {
    for (name, count, file) in CAPTURES {
        let packets = packets_of(file);
        assert_eq!(packets.len(), count, "{name}");
        for bytes in packets {
            let headers = check_both_ways(bytes);
            let in_vlan = check_both_ways(&tagged(bytes));
            let vlan = Vlan {
                priority: 3,
                drop_eligible: false,
                id: 7,
            };
            assert_eq!(in_vlan.ethernet.vlan, Some(vlan));
            assert_eq!(
                (in_vlan.bth, in_vlan.extension),
                (headers.bth, headers.extension)
            );
        }
    }
}

#[test]
fn the_fields_are_those_that_were_sent() {
    let acknowledgement = check_both_ways(&with_ethernet(&ACKNOWLEDGEMENT));
    assert_eq!(acknowledgement.bth.opcode, Opcode::Acknowledge);
    assert_eq!(acknowledgement.bth.target_qp, Qpn(0x19));
    assert_eq!(acknowledgement.bth.psn, Psn::new(0xf5_f1c7));
    assert_eq!(acknowledgement.ipv4.source, Ipv4Addr::new(10, 77, 0, 1));
    assert_eq!(acknowledgement.ipv4.ecn, Ecn::NotCapable);
    let aeth = Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 1,
    };
    assert_eq!(acknowledgement.extension, Extension::Aeth(aeth));

    let write = check_both_ways(packets_of(CAPTURES[1].2)[0]);
    assert_eq!(
        write.to_string(),
        "RDMA_WRITE_FIRST qp 0x14 psn 9570137 10.77.0.2 > 10.77.0.1 \
         at 0x564c229cc000 rkey 0x00000504 length 3000"
    );
}

#[test]
fn ethernet_padding_is_cut_off() {
    let mut bytes = with_ethernet(&ACKNOWLEDGEMENT);
    let expect = parse_bytes(&bytes).unwrap();
    bytes.extend_from_slice(&[0xaa; 9]);
    let packet = parse_bytes(&bytes).unwrap();
    assert_eq!(packet.header(), expect.header());
    assert_eq!(
        (packet.payload.len(), packet.pad(), packet.check),
        (0, expect.pad(), expect.check)
    );
    assert_eq!(icrc::verify(&packet, no_memory()), Verdict::Right);
}

/// The offsets that the ICRC ignores, in bytes from the IPv4 header on.
fn is_masked(at: usize) -> bool {
    matches!(at, 1 | 8 | 10 | 11 | 26 | 27 | 32)
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

#[test]
fn every_flipped_bit_that_is_covered_is_detected() {
    // One packet of each opcode: the others differ only in their bytes.
    let mut opcodes = Vec::new();
    for bytes in all_packets() {
        let packet = parse_bytes(bytes).unwrap();
        let opcode = Headers::of(&packet).unwrap().bth.opcode;
        if opcodes.contains(&opcode) {
            continue;
        }
        opcodes.push(opcode);
        for bit in 14 * 8..packet.header().len() * 8 {
            let mut damaged = packet.clone();
            damaged.set_header(&flipped(packet.header(), bit));
            let right = icrc::verify(&damaged, no_memory()) == Verdict::Right;
            assert_eq!(right, is_masked(bit / 8 - 14), "bit {bit}");
        }
        let payload = packet.payload.as_slice().unwrap();
        for bit in 0..payload.len() * 8 {
            let mut damaged = packet.clone();
            damaged.payload = Payload::copied(&flipped(payload, bit));
            assert_eq!(
                icrc::verify(&damaged, no_memory()),
                Verdict::Wrong,
                "bit {bit}"
            );
        }
        for bit in 0..packet.pad().len() * 8 {
            let mut damaged = packet.clone();
            damaged.set_pad(&flipped(packet.pad(), bit));
            assert_eq!(
                icrc::verify(&damaged, no_memory()),
                Verdict::Wrong,
                "bit {bit}"
            );
        }
    }
    assert_eq!(opcodes.len(), 15);
}

/// The WRITE fragment into which a switch turns a fragment of a READ response.
fn write_of(response: &Headers) -> Headers {
    let opcode = match response.bth.opcode {
        Opcode::ReadResponseFirst => Opcode::WriteFirst,
        Opcode::ReadResponseMiddle => Opcode::WriteMiddle,
        Opcode::ReadResponseLast => Opcode::WriteLast,
        other => panic!("{other} was not captured"),
    };
    let reth = Reth {
        address: 0x7f00_1234_5000,
        rkey: Rkey(0xdead_beef),
        length: 3000,
    };
    let extension = match opcode {
        Opcode::WriteFirst => Extension::Reth(reth),
        _ => Extension::None,
    };
    let mut write = *response;
    write.ethernet.source = MacAddr([2, 0, 0, 0, 0, 0xff]);
    write.ethernet.target = MacAddr([2, 0, 0, 0, 0, 3]);
    write.ipv4.source = response.ipv4.target;
    write.ipv4.target = Ipv4Addr::new(10, 77, 0, 3);
    write.ipv4.ttl = 64;
    write.udp.source_port = 0xc123;
    write.bth.opcode = opcode;
    write.bth.target_qp = Qpn(0x4711);
    write.bth.psn = response.bth.psn.add(0x12_3456);
    write.bth.ack_request = opcode == Opcode::WriteLast;
    write.extension = extension;
    write
}

fn rewritten(method: Rewrite, packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    let old_header = packet.header().to_vec();
    write_of(&Headers::of(&packet).unwrap()).write_to(&mut packet);
    method.apply(&mut packet, &old_header);
    packet
}

fn read_responses() -> impl Iterator<Item = Packet> {
    let packets = all_packets().map(|bytes| parse_bytes(bytes).unwrap());
    packets.filter(|packet| Headers::of(packet).unwrap().bth.opcode.is_read_response())
}

#[test]
fn read_responses_become_writes_by_update() {
    assert_eq!(read_responses().count(), 15);
    for response in read_responses() {
        let write = rewritten(Rewrite::Update, &response);
        assert_eq!(
            Headers::of(&write),
            Ok(write_of(&Headers::of(&response).unwrap()))
        );
        assert_eq!(write.check, icrc::compute(&write, no_memory()));
        assert_ne!(write.check, response.check);
    }
}

#[test]
fn read_responses_become_writes_by_balance() {
    for response in read_responses() {
        let write = rewritten(Rewrite::Balance, &response);
        assert_eq!(write.check, response.check, "the trailer is not touched");
        assert_eq!(icrc::verify(&write, no_memory()), Verdict::Right);
        // Only the two free fields differ from the requested ones.
        let mut headers = Headers::of(&write).unwrap();
        let asked = write_of(&Headers::of(&response).unwrap());
        headers.ipv4.identification = asked.ipv4.identification;
        headers.udp.source_port = asked.udp.source_port;
        assert_eq!(headers, asked);
    }
}

#[test]
fn damage_done_before_the_rewrite_is_found_after_it() {
    for response in read_responses() {
        let payload = response.payload.as_slice().unwrap();
        for bit in (0..payload.len() * 8).step_by(37) {
            let mut damaged = response.clone();
            damaged.payload = Payload::copied(&flipped(payload, bit));
            for method in [Rewrite::Update, Rewrite::Balance] {
                let write = rewritten(method, &damaged);
                assert_eq!(
                    icrc::verify(&write, no_memory()),
                    Verdict::Wrong,
                    "{method:?} {bit}"
                );
            }
        }
    }
}

/// The one's complement sum over the UDP pseudo-header and all of the UDP packet (RFC 768).
fn udp_checksum(ip: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> u32 {
        let (pairs, rest) = bytes.as_chunks::<2>();
        assert!(rest.is_empty());
        pairs
            .iter()
            .map(|&pair| u32::from(u16::from_be_bytes(pair)))
            .sum()
    };
    let mut sum = words(&ip[12..]) + 17 + ip.len() as u32 - 20;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[test]
fn a_udp_checksum_is_taken_only_if_it_is_right() {
    let memory = Memory::new(1 << 20);
    for bytes in all_packets() {
        let mut bytes = bytes.to_vec();
        let checksum = udp_checksum(&bytes[14..]);
        bytes[40..42].copy_from_slice(&checksum.to_be_bytes());
        let headers = check_both_ways(&bytes);
        assert_eq!(headers.udp.checksum, checksum);

        // Bits that no other rule refuses: at the end of the payload or AETH, and of the ICRC.
        let last = bytes.len() - 1;
        assert_eq!(
            parse_bytes(&flipped(&bytes, last * 8)).unwrap_err(),
            ParseError::BadUdpChecksum
        );
        // Without the check value, or with a payload by reference, there is nothing to compare
        // with.
        let packet = parse_bytes(&bytes).unwrap();
        let mut bare = packet.clone();
        bare.check = None;
        assert_eq!(Headers::of(&bare), Err(ParseError::BadUdpChecksum));
        let payload = packet.payload.as_slice().unwrap();
        if !payload.is_empty() {
            let block = memory.allocate(payload.len()).unwrap();
            block.write(0, payload);
            let mut elsewhere = packet.clone();
            elsewhere.payload = Payload::Region(block.reference(0, payload.len() as u32).unwrap());
            assert_eq!(icrc::verify(&elsewhere, &memory), Verdict::Right);
            assert_eq!(Headers::of(&elsewhere), Err(ParseError::BadUdpChecksum));
            drop(block);
            assert_eq!(icrc::verify(&elsewhere, &memory), Verdict::Wrong);
            assert_eq!(icrc::compute(&elsewhere, &memory), None);
        }
    }
}

#[test]
fn messages_of_the_connection_manager_are_those_that_were_sent() {
    let messages = packets_of(CAPTURES[5].2).into_iter().map(|bytes| {
        let packet = parse_bytes(bytes).unwrap();
        let payload = packet.payload.as_slice().unwrap();
        let mad = Mad::parse(payload).unwrap();
        assert_eq!(mad.emit(), payload, "{mad:?}");
        mad.message
    });
    let messages: Vec<Message> = messages.collect();
    let [
        Message::Req(request),
        Message::Rtu(ready),
        Message::Dreq(end),
        Message::Rej(refusal),
        Message::Rep(reply),
        Message::Drep(ended),
    ] = &messages[..]
    else {
        panic!("{messages:?}");
    };
    assert_eq!((request.local_id, request.qpn), (0xfc1d_efb3, Qpn(0x11)));
    assert_eq!(request.psn, Psn::new(0xf0_f028));
    assert_eq!(
        (request.responder_resources, request.initiator_depth),
        (1, 1)
    );
    assert_eq!(
        (request.retries, request.rnr_retries, request.mtu),
        (7, 7, 5)
    );
    assert_eq!(
        (request.remote_response_timeout, request.path.ack_timeout),
        (20, 19)
    );
    assert_eq!(cm::service_port(request.service_id), Some(7174));
    let [guest, ours] = [1, 200].map(|last| Ipv4Addr::new(10, 78, 0, last).into());
    let addresses = IpAddresses::parse(&request.private).unwrap();
    assert_eq!((addresses.source, addresses.target), (guest, ours));
    assert_eq!(cm::gid_address(request.path.local_gid), guest);
    assert_eq!(cm::gid_address(request.path.remote_gid), ours);
    assert_eq!(
        (ready.local_id, ready.remote_id),
        (0xfc1d_efb3, 0xc7d8_654e)
    );
    assert_eq!((end.local_id, end.remote_qpn), (0xfc1d_efb3, Qpn(2)));
    assert_eq!((refusal.local_id, refusal.remote_id), (0, 0xc7d8_654f));
    assert_eq!(refusal.reason, RejectReason::INVALID_SERVICE);
    assert_eq!((reply.qpn, reply.psn), (Qpn(0x12), Psn::new(0x35_31f0)));
    assert_eq!((reply.responder_resources, reply.initiator_depth), (16, 16));
    assert_eq!((reply.ack_delay, reply.rnr_retries), (15, 7));
    assert_eq!(
        (ended.local_id, ended.remote_id),
        (reply.local_id, reply.remote_id)
    );
}
