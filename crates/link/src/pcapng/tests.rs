//! Tests of pcapng files.

use super::*;

/// One port, one packet of five bytes with a comment; decoded by hand from sections 3.1, 3.5, 4.1,
/// 4.2 and 4.3 of the draft.
#[rustfmt::skip]
const GOLDEN: &[u8] = &[
    // Section header block: type, total length 44.
    0x0a, 0x0d, 0x0d, 0x0a, 0x2c, 0, 0, 0,
    // Byte-order magic, version 1.0, section length unknown.
    0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    // shb_userappl, 5 bytes, padded to 8.
    4, 0, 5, 0, b'g', b'o', b'l', b'd', b'!', 0, 0, 0,
    // opt_endofopt, total length again.
    0, 0, 0, 0, 0x2c, 0, 0, 0,

    // Interface description block: type, total length 40.
    1, 0, 0, 0, 0x28, 0, 0, 0,
    // Ethernet, reserved, no snap length.
    1, 0, 0, 0, 0, 0, 0, 0,
    // if_name "p0", padded to 4.
    2, 0, 2, 0, b'p', b'0', 0, 0,
    // if_tsresol 10^-9, padded to 4.
    9, 0, 1, 0, 9, 0, 0, 0,
    // opt_endofopt, total length again.
    0, 0, 0, 0, 0x28, 0, 0, 0,

    // Enhanced packet block: type, total length 60, interface 0.
    6, 0, 0, 0, 0x3c, 0, 0, 0, 0, 0, 0, 0,
    // 0x1_0203_0405 nanoseconds: upper word first.
    1, 0, 0, 0, 0x05, 0x04, 0x03, 0x02,
    // 5 bytes kept of 70.
    5, 0, 0, 0, 70, 0, 0, 0,
    0xde, 0xad, 0xbe, 0xef, 0x42, 0, 0, 0,
    // opt_comment "late", no padding.
    1, 0, 4, 0, b'l', b'a', b't', b'e',
    // epb_flags: outbound.
    2, 0, 4, 0, 2, 0, 0, 0,
    // opt_endofopt, total length again.
    0, 0, 0, 0, 0x3c, 0, 0, 0,
];

fn entry(bytes: &[u8]) -> Entry<'_> {
    Entry {
        at: Instant::from_nanos(0x1_0203_0405),
        interface: InterfaceId(0),
        direction: Direction::Egress,
        bytes,
        wire_len: 70,
        comment: Some("late"),
    }
}

#[test]
fn a_small_file_byte_by_byte() {
    let mut writer = Writer::new(Vec::new(), "gold!", None).unwrap();
    assert_eq!(writer.interface("p0").unwrap(), InterfaceId(0));
    writer
        .packet(&entry(&[0xde, 0xad, 0xbe, 0xef, 0x42]))
        .unwrap();
    assert_eq!(writer.bytes(), GOLDEN.len() as u64);
    assert_eq!(writer.finish().unwrap(), GOLDEN);
}

#[test]
fn the_bound_holds_to_the_byte() {
    let file = |bytes_max| {
        let mut writer = Writer::new(Vec::new(), "gold!", Some(bytes_max)).unwrap();
        writer.interface("p0").unwrap();
        let written = writer.packet(&entry(&[0xde, 0xad, 0xbe, 0xef, 0x42]));
        (written.is_ok(), writer.finish().unwrap())
    };
    let len = GOLDEN.len() as u64;
    assert_eq!(file(len), (true, GOLDEN.to_vec()));
    assert_eq!(file(len - 1), (false, GOLDEN[..GOLDEN.len() - 60].to_vec()));
}

#[test]
fn a_packet_needs_a_described_interface() {
    let mut writer = Writer::new(Vec::new(), "", None).unwrap();
    let error = writer.packet(&entry(&[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "interface 0 is not described; there are 0"
    );
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(bounded("brief"), "brief");
    let long = "é".repeat(TEXT_MAX);
    assert_eq!(bounded(&long).len(), TEXT_MAX);
    assert_eq!(bounded(&format!("x{long}")).len(), TEXT_MAX - 1);
}
