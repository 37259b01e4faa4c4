//! The initial inputs of corpora: packets captured between Linux hosts, packets of every opcode,
//! and step sequences through the main paths of the components.

use crate::fixture::{self, Seeds, hex, host};
use crate::packets::Way;
use rackweave_base::{MacAddr, Memory, Payload, Psn, Qpn, Rkey};
use rackweave_wire::aeth::NakCode;
use rackweave_wire::arp::ArpFrame;
use rackweave_wire::fabric::lookup::{self, Ask, Once, Reply};
use rackweave_wire::fabric::rpc::Status;
use rackweave_wire::{
    Aeth, AtomicEth, Datagram, Deth, Ethernet, Extension, ExtensionKind, Ipv4, Opcode, Reth,
    Syndrome, Vlan, Vxlan, deth, icrc,
};
use std::net::Ipv4Addr;

/// Captures of `rdma_rxe`; crates/wire/tests/all/vectors.rs says how they were made.
const CAPTURES: [(&str, &[u8]); 5] = [
    (
        "send",
        include_bytes!("../../wire/tests/vectors/rc-send.pcap"),
    ),
    (
        "write",
        include_bytes!("../../wire/tests/vectors/rdma-write.pcap"),
    ),
    (
        "read",
        include_bytes!("../../wire/tests/vectors/rdma-read.pcap"),
    ),
    (
        "add",
        include_bytes!("../../wire/tests/vectors/atomic-fetch-add.pcap"),
    ),
    (
        "swap",
        include_bytes!("../../wire/tests/vectors/atomic-compare-swap.pcap"),
    ),
];

/// The packets of a classic little-endian pcap file.
fn packets_of(file: &'static [u8]) -> Vec<&'static [u8]> {
    let mut rest = &file[24..];
    let mut packets = Vec::new();
    while let Some((record, behind)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        packets.push(&behind[..len]);
        rest = &behind[len..];
    }
    packets
}

/// A packet of every opcode, as this project's own components build it.
fn own_packets() -> Vec<(Opcode, Vec<u8>)> {
    let way = Way {
        source: host(1),
        target: host(2),
        target_qp: Qpn(0x11),
    };
    let reth = Reth {
        address: 0x1_0000_0000,
        rkey: Rkey(0x1234),
        length: 40,
    };
    let nak = Aeth {
        syndrome: Syndrome::Nak(NakCode::RemoteAccess),
        msn: 1,
    };
    let atomic = AtomicEth {
        address: 0x1_0000_0008,
        rkey: Rkey(0x1234),
        swap_or_add: 1,
        compare: 2,
    };
    let deth = Deth {
        qkey: deth::QKEY_MANAGEMENT,
        source_qp: Qpn(1),
    };
    let make = |opcode: Opcode| {
        let extension = match opcode.extension() {
            ExtensionKind::None => Extension::None,
            ExtensionKind::Reth => Extension::Reth(reth),
            ExtensionKind::RethImmediate => Extension::RethImmediate(reth, 3),
            ExtensionKind::Immediate => Extension::Immediate(3),
            ExtensionKind::Invalidate => Extension::Invalidate(Rkey(0x1234)),
            ExtensionKind::Aeth => Extension::Aeth(nak),
            ExtensionKind::AtomicEth => Extension::AtomicEth(atomic),
            ExtensionKind::AtomicAck => Extension::AtomicAck(nak, 9),
            ExtensionKind::Deth => Extension::Deth(deth),
            ExtensionKind::DethImmediate => Extension::DethImmediate(deth, 3),
            ExtensionKind::Cnp => Extension::Cnp,
        };
        let mut headers = way.headers(opcode, Psn::new(7), extension);
        headers.ethernet.vlan = opcode.is_only().then_some(Vlan {
            priority: 3,
            drop_eligible: false,
            id: 7,
        });
        let len = if opcode.carries_payload() { 37 } else { 0 };
        let mut packet = headers.packet(Payload::copied(&vec![0xa5; len]));
        let memory = Memory::new(0);
        assert!(icrc::seal(&mut packet, &memory));
        let mut bytes = Vec::new();
        assert!(packet.serialise(&memory, &mut bytes));
        (opcode, bytes)
    };
    Opcode::ALL.into_iter().map(make).collect()
}

fn named(name: &str, story: &[&[u8]]) -> (String, Vec<u8>) {
    (name.to_owned(), story.concat())
}

/// Single packets.
pub fn parse() -> Seeds {
    let mut seeds = Vec::new();
    for (name, file) in CAPTURES {
        for (at, packet) in packets_of(file).into_iter().take(2).enumerate() {
            seeds.push((format!("{name}-{at}"), packet.to_vec()));
        }
    }
    for (opcode, packet) in own_packets() {
        seeds.push((format!("own-{:02x}", opcode as u8), packet));
    }
    let (own, peer) = (Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2));
    let question = ArpFrame::request(MacAddr([2, 0, 0, 0, 0, 1]), own, peer).packet();
    seeds.push(("arp".to_owned(), question.header().to_vec()));
    let tunnel = Vxlan::new(7471).expect("24 bits").emit();
    seeds.push(named("vxlan", &[&tunnel, question.header()]));
    seeds.extend(lookups());
    seeds
}

/// Index requests and a reply, bare and as a packet.
fn lookups() -> Seeds {
    let once = Once {
        session: 7,
        slot: 3,
    };
    let (key, value) = (77, &b"a value"[..]);
    let scan = Ask::Scan {
        near: 9,
        far: 3,
        limit: 5,
        backward: true,
    };
    let asks = [
        Ask::Get { key },
        Ask::Put { key, once, value },
        Ask::Delete { key, once },
        scan,
        Ask::Map { from: 0 },
        Ask::Open,
    ];
    let mut seeds = Vec::new();
    for ask in asks {
        let mut bytes = Vec::new();
        ask.emit(5, 6, &mut bytes);
        seeds.push((format!("lookup-{}", ask.op() as u8), bytes));
    }
    let mut get = Vec::new();
    Ask::Get { key }.emit(5, 6, &mut get);
    let datagram = Datagram {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        source_port: 49152,
        target_port: lookup::PORT,
        checksum: 0,
        carried: get.len(),
    };
    let packet = datagram.packet(&get, |rest| Some(Payload::copied(rest)));
    let packet = packet.expect("the payload is kept");
    seeds.push(("lookup-packet".to_owned(), packet.header().to_vec()));
    let mut reply = Vec::new();
    let of = Reply {
        op: 1,
        status: Status::OK,
        level: 0,
        key,
        id: 6,
        client: 5,
        body: b"\0a value",
    };
    of.emit(&mut reply);
    seeds.push(("lookup-reply".to_owned(), reply));
    seeds
}

/// Step sequences for one NIC.
pub fn nic() -> Seeds {
    let mut seeds = Vec::new();
    for (name, file) in CAPTURES {
        let mut story = vec![0x10];
        for packet in packets_of(file).into_iter().take(4) {
            story.push(8);
            story.extend_from_slice(&(packet.len() as u16).to_le_bytes());
            story.extend_from_slice(packet);
        }
        seeds.push((format!("captured-{name}"), story));
    }
    // Every opcode at the PSN expected, and a little time after each.
    for opcode in 0..Opcode::ALL.len() as u8 {
        let fields = [
            0, opcode, 0, 1, 0, 0, 0, 64, 0, 0, 32, 0, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let (first, later) = ([0x80, 12, 5, 0, 0, 0, 1], [14, 255, 255]);
        let name = format!("own-{opcode:02}");
        seeds.push(named(&name, &[&first, &fields, &later, &fields]));
    }
    let write_only = [0, 10, 0, 1, 0, 0, 1, 16, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let stranger = [
        0x50, 10, 0, 1, 0, 0, 1, 16, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    seeds.push(named("write-twice", &[&[9], &write_only, &write_only]));
    let story: [&[u8]; 3] = [&[9], &stranger, &write_only];
    seeds.push(named("write-of-a-stranger", &story));
    let (posted, waits) = ([0, 11, 0, 0, 0, 0, 4, 11, 2, 0, 0, 0, 8], [14, 255, 255]);
    let story: [&[u8]; 2] = [&posted, &waits.repeat(12)];
    seeds.push(named("requests-without-answer", &story));
    seeds
}

/// Step sequences for two NICs.
pub fn nic_ops() -> Seeds {
    let mut seeds = Vec::new();
    for kind in 0..4u8 {
        let post = [0, kind, 0, 16, 0, 200, 3];
        let story: [&[u8]; 5] = [&[8, 0x85], &post, &post, &[8, 8, 8], &post];
        seeds.push(named(&format!("kind-{kind}"), &story));
        for number in 0..4u8 {
            let fault = [11, number, 40, 0];
            let story: [&[u8]; 6] = [&[9, 0x85, 0x85], &post, &fault, &[8, 8], &fault, &post];
            seeds.push(named(&format!("kind-{kind}-fault-{number}"), &story));
        }
    }
    let stories = [
        ("wrong-key", "00 07 80 01 02 03 04 08 08 87 81 09 00 00 00"),
        ("broken-off", "00 00 02 00 00 00 00 08 0f ee"),
    ];
    seeds.extend(fixture::named(
        &[],
        stories.map(|(name, bytes)| (name, hex(bytes))),
    ));
    seeds
}

/// Step sequences for a switch that runs a flow.
pub fn switch() -> Seeds {
    let mut seeds = Vec::new();
    let work = [0xc0, 0xd1, 0xf4, 0xf4, 0xf2, 0xe2, 0xf4];
    for setup in [0x00, 0x0d, 0x1e, 0x2f, 0x4f, 0x8d, 0xef] {
        let story: [&[u8]; 4] = [&[setup, setup & 1], &work, &work, &work];
        seeds.push(named(&format!("setup-{setup:02x}"), &story));
    }
    let disturbed: [(&str, &[u8]); 9] = [
        ("lose", &[0x07, 0, 0x37, 0]),
        ("duplicate", &[0x07, 1, 0x57, 1]),
        ("delay", &[0x07, 2, 9, 0x27, 2, 3]),
        ("damage", &[0x07, 3, 9, 0, 0x37, 3, 255, 255]),
        ("replay", &[0x09, 1, 0x09, 7, 0x09, 20]),
        ("stranger", &[0x2a, 3, 1, 60, 1, 0x3a, 9, 0]),
        ("forger", &[0x0c, 3, 1, 60, 1, 0x0c, 9, 2, 50, 1, 52, 1]),
        ("restart", &[0x0f, 0xd0]),
        ("close", &[0x0f, 0xe0]),
    ];
    for (name, bytes) in disturbed {
        let story: [&[u8]; 5] = [&[0x2f, 0], &work, bytes, &work, &work];
        seeds.push(named(name, &story));
    }
    let forged = [0x0d, 0, 3, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    let story: [&[u8]; 4] = [&[0x2f, 0], &work, &forged, &work];
    seeds.push(named("forged-response", &story));
    for (opcode, packet) in own_packets().into_iter().step_by(5) {
        let len = (packet.len() as u16).to_le_bytes();
        let story: [&[u8]; 5] = [&[0x2f, 0], &work, &[14], &len, &packet];
        seeds.push(named(&format!("raw-{:02x}", opcode as u8), &story));
    }
    seeds
}

/// Step sequences for the page directory and the sequencers.
pub fn programs() -> Seeds {
    let mut seeds = Vec::new();
    let request = |slot: u8, operation: u8, argument: u8, frame: u8, page: u8| {
        [0x08 | slot << 4, operation, argument, frame, page, 0]
    };
    for operation in 1..=16 {
        let story: [&[u8]; 5] = [
            &request(0, 2, 0, 1, 3),
            &[0xf0, 0xf0],
            &request(0, operation, 1, 1, 3),
            &[0xf0, 0x35, operation, 0xf0],
            &[0x24, 0x32, 0xf0],
        ];
        seeds.push(named(&format!("operation-{operation:02}"), &story));
    }
    let stories = [
        ("numbers", "07 00 05 00 00 00 30 44"),
        ("wrong-key", "07 80 05 00 00 00 30 44"),
        ("too-many", "07 40 ff ff ff ff 30 44"),
        ("lost", "03 00 44 13 00 35 01 44"),
        ("stolen-packet", "44 0c 03 00 35 01 0c 09 01 3c 01 44"),
        (
            "stolen-latch",
            "35 02 08 07 00 01 03 00 08 06 00 01 03 00 30 35 05",
        ),
        ("released", "35 02 35 05 35 07 35 02 35 06 35 05"),
        ("replay", "44 0f 01 0f 09 35 02 0f 0c 44"),
        ("unknown-slot", "f8 02 00 01 03 00 30 35 02"),
        ("foreign-frame", "08 02 00 ff 03 00 30 35 02"),
    ];
    seeds.extend(fixture::named(
        &[],
        stories.map(|(name, bytes)| (name, hex(bytes))),
    ));
    for lane in (62..86).step_by(3) {
        let forged = [0x0d, 0, lane, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        let name = format!("forged-{lane}");
        seeds.push(named(&name, &[&[0x44, 0x35, 1], &forged, &[0x30, 0x44]]));
    }
    seeds
}
