//! Tests of capture.

use super::*;
use crate::Link;
use crate::conformance::{self, packet};
use crate::in_process::pair;
use rackweave_wire::{Verdict, icrc, parse_bytes};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// An output that can be inspected later, and that is full after `limit` bytes.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Disk {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Arc::default(),
            limit,
        }
    }

    fn capture(&self, options: &CaptureOptions, memory: &Memory) -> SharedCapture {
        SharedCapture::to_writer(Box::new(self.clone()), options, memory.clone()).unwrap()
    }

    fn packets(&self) -> Vec<Read> {
        read(&self.bytes.lock().unwrap())
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.bytes.lock().unwrap();
        if disk.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A packet as read from a file.
struct Read {
    interface: u32,
    nanos: u64,
    bytes: Vec<u8>,
    wire_len: u32,
    comment: Option<String>,
    flags: u32,
}

/// Reads the packets of a file, implemented from the draft and not from the writer.
fn read(mut file: &[u8]) -> Vec<Read> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut packets = Vec::new();
    while !file.is_empty() {
        let (kind, len) = (word(file, 0), word(file, 4) as usize);
        assert!(
            len.is_multiple_of(4) && word(file, len - 4) as usize == len,
            "block of {len}"
        );
        let block;
        (block, file) = file.split_at(len);
        if kind != 6 {
            continue;
        }
        let kept = word(block, 20) as usize;
        let mut options = &block[28 + kept.next_multiple_of(4)..len - 4];
        let (mut comment, mut flags) = (None, 0);
        while options[0] != 0 {
            let size = usize::from(options[2]) + 256 * usize::from(options[3]);
            let value = &options[4..4 + size];
            match options[0] {
                1 => comment = Some(String::from_utf8(value.to_vec()).unwrap()),
                2 => flags = word(value, 0),
                other => panic!("option {other}"),
            }
            options = &options[4 + size.next_multiple_of(4)..];
        }
        packets.push(Read {
            interface: word(block, 8),
            nanos: u64::from(word(block, 12)) << 32 | u64::from(word(block, 16)),
            bytes: block[28..28 + kept].to_vec(),
            wire_len: word(block, 24),
            comment,
            flags,
        });
    }
    packets
}

fn two_ports() -> CaptureOptions {
    CaptureOptions {
        ports: vec!["one".into(), "two".into()],
        bytes_max: None,
    }
}

const AT: Instant = Instant::from_nanos(5_000_000_123);

#[test]
fn packets_are_whole_even_where_the_links_leave_the_check_out() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(1000).unwrap();
    block.write(0, &[9; 1000]);
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(&two_ports(), &memory);
    let mut sent = packet(
        &memory,
        5,
        Payload::Region(block.reference(0, 997).unwrap()),
    );
    let check = sent.check.take();
    capture.record(AT, PortId(1), Direction::Ingress, &sent, None);
    assert_eq!(sent.check, None, "the packet itself is left alone");
    capture.record(AT, PortId(0), Direction::Egress, &sent, Some("no_route"));
    let summary = capture.finish().unwrap();
    let bytes = disk.bytes.lock().unwrap().len() as u64;
    assert_eq!(
        summary,
        CaptureSummary {
            packets: 2,
            bytes,
            left_out: 0
        }
    );
    let packets = disk.packets();
    let [first, second] = &packets[..] else {
        panic!("{} packets", packets.len())
    };
    assert_eq!(
        (first.interface, first.nanos, first.flags),
        (1, 5_000_000_123, 1)
    );
    assert_eq!(first.wire_len as usize, sent.wire_len());
    let parsed = parse_bytes(&first.bytes).unwrap();
    assert_eq!(icrc::verify(&parsed, &memory), Verdict::Right);
    assert_eq!(parsed.check, check);
    assert_eq!(parsed.payload.to_vec(&memory).unwrap(), [9; 997]);
    assert_eq!(first.comment, None);
    assert_eq!((second.interface, second.flags), (0, 2));
    assert_eq!(second.comment.as_deref(), Some("dropped: no_route"));
}

#[test]
fn a_wrong_check_value_is_shown_as_it_is() {
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(&two_ports(), &memory);
    let mut sent = packet(&memory, 5, Payload::inline(b"data"));
    sent.check = Some([1, 2, 3, 4]);
    capture.record(AT, PortId(0), Direction::Ingress, &sent, None);
    assert!(disk.packets()[0].bytes.ends_with(&[1, 2, 3, 4]));
}

#[test]
fn strange_packets_are_kept_too() {
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(&two_ports(), &memory);
    let block = memory.allocate(100).unwrap();
    let gone = packet(
        &memory,
        1,
        Payload::Region(block.reference(0, 100).unwrap()),
    );
    drop(block);
    capture.record(AT, PortId(0), Direction::Ingress, &gone, None);
    capture.record(
        AT,
        PortId(0),
        Direction::Ingress,
        &gone,
        Some("payload_gone"),
    );
    let other = Packet::new(b"not RoCE at all", Payload::Empty);
    capture.record(AT, PortId(7), Direction::Ingress, &other, None);
    let packets = disk.packets();
    assert_eq!(packets[0].bytes, gone.header());
    assert_eq!(packets[0].wire_len as usize, gone.wire_len());
    assert_eq!(packets[0].comment.as_deref(), Some(PAYLOAD_GONE));
    let comment = format!("dropped: payload_gone; {PAYLOAD_GONE}");
    assert_eq!(packets[1].comment.as_deref(), Some(&comment[..]));
    assert_eq!(packets[2].bytes, b"not RoCE at all", "nothing is appended");
    assert_eq!(
        packets[2].interface, 2,
        "an unnamed port is described when first seen"
    );
    let file = disk.bytes.lock().unwrap().clone();
    assert!(file.windows(6).any(|name| name == b"port 7"));
}

#[test]
fn the_bound_ends_the_capture_and_the_summary_says_so() {
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(
        &CaptureOptions {
            bytes_max: Some(1000),
            ..two_ports()
        },
        &memory,
    );
    for number in 0..100 {
        let sent = packet(&memory, number, Payload::Empty);
        capture.record(AT, PortId(0), Direction::Ingress, &sent, None);
    }
    let CaptureSummary {
        packets,
        bytes,
        left_out,
    } = capture.finish().unwrap();
    assert!((900..=1000).contains(&bytes), "{bytes}");
    assert_eq!(packets + left_out, 100);
    assert_eq!(disk.packets().len() as u64, packets);
    let error = SharedCapture::to_writer(
        Box::new(Disk::new(usize::MAX)),
        &CaptureOptions {
            bytes_max: Some(60),
            ..two_ports()
        },
        memory,
    );
    let expect = "a capture of 2 ports does not even start within 60 bytes; raise the bound";
    assert_eq!(error.unwrap_err().to_string(), expect);
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_link() {
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(1000);
    let capture = disk.capture(&two_ports(), &memory);
    let (a, mut b) = pair(64);
    let mut a = Capture::new(a, capture.clone(), PortId(0));
    for number in 0..64 {
        a.send(AT, packet(&memory, number, Payload::Empty)).unwrap();
    }
    assert_eq!(core::iter::from_fn(|| b.receive(AT)).count(), 64);
    let packets = disk.packets().len() as u64;
    let error = capture.finish().unwrap_err();
    assert!(
        matches!(&error, CaptureError::Write { packets: said, source }
        if *said == packets && source.kind() == io::ErrorKind::StorageFull)
    );
    assert!(
        error
            .to_string()
            .starts_with(&format!("the capture ended after {packets} packets"))
    );
    assert!(matches!(capture.finish(), Err(CaptureError::Finished)));
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_without_space_is_noticed_at_the_end() {
    let memory = Memory::new(1 << 20);
    let full = Path::new("/dev/full");
    let capture = SharedCapture::create(full, &two_ports(), memory.clone()).unwrap();
    capture.record(
        AT,
        PortId(0),
        Direction::Ingress,
        &packet(&memory, 1, Payload::Empty),
        None,
    );
    assert!(matches!(
        capture.finish(),
        Err(CaptureError::Write { packets: 1, .. })
    ));
}

#[test]
fn a_file_that_cannot_be_created_is_named() {
    let path = Path::new("/no such folder/rack.pcapng");
    let error = SharedCapture::create(path, &two_ports(), Memory::new(4096)).unwrap_err();
    assert!(matches!(&error, CaptureError::Create { path: named, .. } if named == path));
    let text = error.to_string();
    assert!(text.starts_with("cannot create the capture file /no such folder/rack.pcapng: "));
}

#[test]
fn a_captured_link_conforms_and_its_capture_holds_what_passed() {
    conformance::run(|memory| {
        let capture = Disk::new(usize::MAX).capture(&two_ports(), memory);
        let (a, b) = pair(16);
        (
            Capture::new(a, capture.clone(), PortId(0)),
            Capture::new(b, capture, PortId(1)),
        )
    });
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(usize::MAX);
    let (a, mut b) = pair(1);
    let mut a = Capture::new(a, disk.capture(&two_ports(), &memory), PortId(1));
    a.send(AT, packet(&memory, 1, Payload::Empty)).unwrap();
    a.send(AT, packet(&memory, 2, Payload::Empty)).unwrap_err();
    b.send(AT, packet(&memory, 3, Payload::Empty)).unwrap();
    assert!(a.receive(AT).is_some());
    let passed = disk.packets().into_iter().map(|packet| {
        let psn = conformance::sequence(&parse_bytes(&packet.bytes).unwrap());
        (packet.interface, packet.flags, psn)
    });
    assert_eq!(
        passed.collect::<Vec<_>>(),
        [(1, 2, 1), (1, 1, 3)],
        "sent, received; not refused"
    );
}

#[test]
fn many_threads_record_into_one_file() {
    let memory = Memory::new(1 << 20);
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(&two_ports(), &memory);
    std::thread::scope(|scope| {
        for port in 0..2 {
            let (capture, memory) = (capture.clone(), &memory);
            scope.spawn(move || {
                for number in 0..500 {
                    let sent = packet(memory, number, Payload::Empty);
                    capture.record(AT, PortId(port), Direction::Ingress, &sent, None);
                }
            });
        }
    });
    assert_eq!(capture.finish().unwrap().packets, 1000);
    assert_eq!(disk.packets().len(), 1000);
}

#[test]
fn a_query_between_switches_has_the_check_of_its_read() {
    use rackweave_base::Rkey;
    use rackweave_wire::fabric::query::{self, Progress};
    use rackweave_wire::{Bth, Extension, Headers, Opcode, Reth};
    let memory = Memory::new(1 << 20);
    let plain = packet(&memory, 5, Payload::Empty);
    let headers = Headers::of(&plain).unwrap();
    let reth = Reth {
        address: 77,
        rkey: Rkey(0),
        length: 512,
    };
    let headers = Headers {
        bth: Bth::new(Opcode::ReadRequest, headers.bth.target_qp, headers.bth.psn),
        extension: Extension::Reth(reth),
        ..headers
    };
    let read = headers.packet(Payload::Empty);
    let mut sent = read.clone();
    let progress = Progress {
        is_lookup: false,
        fat_root_met: true,
        bank: 0,
        hops: 0,
        layer: 1,
        depth: 1,
        slot: 3,
        server: 0,
        node: 9,
    };
    query::attach(&mut sent, &progress).unwrap();
    let disk = Disk::new(usize::MAX);
    let capture = disk.capture(&two_ports(), &memory);
    capture.record(AT, PortId(0), Direction::Egress, &sent, None);
    capture.finish().unwrap();
    let packets = disk.packets();
    let bytes = &packets[0].bytes;
    let ip_len = usize::from(bytes[16]) << 8 | usize::from(bytes[17]);
    assert_eq!(bytes.len(), 14 + ip_len, "as long as it says");
    let check = icrc::compute(&read, &memory).unwrap();
    assert_eq!(bytes[bytes.len() - 4..], check);
}
