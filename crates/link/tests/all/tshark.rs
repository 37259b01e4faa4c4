//! A capture read back by tshark: it recognises every packet as RoCEv2, none as malformed, and
//! finds the names, times, directions and comments. Skipped where tshark is missing.

use rackweave_base::{Instant, MacAddr, Memory, Packet, Payload, PortId, Psn, Qpn, Rkey};
use rackweave_link::{CaptureOptions, Direction, SharedCapture};
use rackweave_wire::{
    Aeth, AtomicEth, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Syndrome, Udp,
};
use std::net::Ipv4Addr;
use std::process::Command;

fn headers(opcode: Opcode, psn: u32, extension: Extension) -> Headers {
    Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc123),
        bth: Bth::new(opcode, Qpn(0x11), Psn::new(psn)),
        extension,
    }
}

/// One packet of each shape, with the opcode that tshark should see.
fn packets(memory: &Memory, payload: &Payload) -> Vec<(u8, Packet)> {
    let reth = Reth {
        address: 0x1000,
        rkey: Rkey(0xabcd),
        length: 1023,
    };
    let aeth = Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 7,
    };
    let atomic = AtomicEth {
        address: 0x2000,
        rkey: Rkey(1),
        swap_or_add: 3,
        compare: 0,
    };
    let shapes = [
        (Opcode::SendOnly, Extension::None, payload.clone()),
        (Opcode::WriteOnly, Extension::Reth(reth), payload.clone()),
        (
            Opcode::WriteOnlyImmediate,
            Extension::RethImmediate(reth, 5),
            payload.clone(),
        ),
        (Opcode::ReadRequest, Extension::Reth(reth), Payload::Empty),
        (
            Opcode::ReadResponseOnly,
            Extension::Aeth(aeth),
            payload.clone(),
        ),
        (Opcode::ReadResponseMiddle, Extension::None, payload.clone()),
        (Opcode::Acknowledge, Extension::Aeth(aeth), Payload::Empty),
        (
            Opcode::FetchAdd,
            Extension::AtomicEth(atomic),
            Payload::Empty,
        ),
        (
            Opcode::AtomicAcknowledge,
            Extension::AtomicAck(aeth, 9),
            Payload::Empty,
        ),
        (
            Opcode::CongestionNotification,
            Extension::Cnp,
            Payload::Empty,
        ),
    ];
    let mut packets = Vec::new();
    for (psn, (opcode, extension, payload)) in shapes.into_iter().enumerate() {
        packets.push((
            opcode as u8,
            headers(opcode, psn as u32, extension).packet(payload),
        ));
    }
    assert!(
        packets
            .iter()
            .all(|(_, packet)| packet.payload.to_vec(memory).is_some())
    );
    packets
}

#[test]
#[expect(clippy::too_many_lines, reason = "one capture, packet by packet")]
fn tshark_reads_the_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(1023).unwrap();
    let payload = Payload::Region(block.reference(0, 1023).unwrap());
    let path = std::env::temp_dir().join(format!("rackweave-{}.pcapng", std::process::id()));
    let ports = vec!["compute0".to_owned(), "memory0".to_owned()];
    let options = CaptureOptions {
        ports,
        bytes_max: None,
    };
    let capture = SharedCapture::create(&path, &options, memory.clone()).unwrap();
    let packets = packets(&memory, &payload);
    for (number, (_, packet)) in packets.iter().enumerate() {
        let at = Instant::from_nanos(1_000_000_001 + number as u64);
        let reason = (number == 1).then_some("no_such_qp");
        let (port, direction) = match number % 2 {
            0 => (PortId(0), Direction::Ingress),
            _ => (PortId(1), Direction::Egress),
        };
        capture.record(at, port, direction, packet, reason);
    }
    capture.finish().unwrap();
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.invariant.crc",
        "_ws.malformed",
        "frame.comment",
    ];
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert_eq!(text.lines().count(), packets.len());
    for (number, (line, (opcode, packet))) in text.lines().zip(&packets).enumerate() {
        let mut sealed = packet.clone();
        assert!(rackweave_wire::icrc::seal(&mut sealed, &memory));
        let crc = format!("0x{:08x}", u32::from_be_bytes(sealed.check.unwrap()));
        // Its dissector stops before the ICRC of congestion notifications.
        let is_cnp = *opcode == Opcode::CongestionNotification as u8;
        let crc = if is_cnp { String::new() } else { crc };
        let (port, direction) = [("compute0", 1), ("memory0", 2)][number % 2];
        let comment = if number == 1 {
            "dropped: no_such_qp"
        } else {
            ""
        };
        let expect = format!(
            "1.{:09}|{port}|0x{direction:08x}|{opcode}|{number}|{crc}||{comment}",
            number + 1
        );
        assert_eq!(line, expect, "packet {number}");
    }
}
