//! Requests over plain UDP.

use super::*;
use rackweave_wire::fabric::lookup;

const BODY_AT: usize = 42;
const UPLINK: u16 = 14;

/// A request of `len` bytes, of which `kept` are in the header area.
fn request(host: u8, node: u32, key: u64, (len, kept): (usize, usize)) -> Packet {
    let mut body: Vec<u8> = (0..len).map(|at| at as u8).collect();
    body[..4].copy_from_slice(&[0x52, 0x57, 1, 1]);
    body[4..8].copy_from_slice(&node.to_be_bytes());
    body[8..16].copy_from_slice(&key.to_be_bytes());
    let mut whole = headers_to(host, 0, Rkey(0)).packet(Payload::Empty);
    let header = whole.header_mut();
    // Lengths and port; the checksum is updated by the difference.
    let old = u16::from_be_bytes([header[16], header[17]]);
    let new = (28 + len) as u16;
    let mut sum = u32::from(!u16::from_be_bytes([header[24], header[25]]));
    sum += u32::from(!old) + u32::from(new);
    sum = (sum >> 16) + (sum & 0xffff);
    let checksum = !((sum >> 16) + (sum & 0xffff)) as u16;
    header[16..18].copy_from_slice(&new.to_be_bytes());
    header[24..26].copy_from_slice(&checksum.to_be_bytes());
    header[36..38].copy_from_slice(&lookup::PORT.to_be_bytes());
    header[38..40].copy_from_slice(&(new - 20).to_be_bytes());
    let bytes = [&header[..BODY_AT], &body].concat();
    let at = BODY_AT + kept;
    Packet::new(&bytes[..at], Payload::copied(&bytes[at..]))
}

/// Possible splits of a request's bytes.
const SPLITS: [(usize, usize); 4] = [(16, 16), (40, 16), (300, 30), (300, 46)];

fn rig() -> Rig {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    rig.index().set_udp_server(ip(SERVER), Some(0)).unwrap();
    rig
}

#[test]
fn the_tree_node_is_written_into_the_request() {
    for split in SPLITS {
        let mut rig = rig();
        for (key, node) in [(50, 100), (999, 102), (1000, 1)] {
            let (port, after) = rig.send(1, request(SERVER, 0, key, split)).unwrap();
            assert_eq!(port, u16::from(SERVER));
            assert_eq!(bytes(&after), bytes(&request(SERVER, node, key, split)));
        }
        let counters = rig.counters();
        assert_eq!((counters.lookups, counters.queries), (3, 0));
        assert_eq!((counters.by_depth[0], counters.by_depth[2]), (1, 2));
        assert_eq!(counters.other_server, 1);
    }
}

#[test]
fn what_is_none_of_the_index_s_is_forwarded_as_it_is() {
    let mut rig = rig();
    let whole = request(SERVER, 0, 50, (16, 16));
    let mut version = whole.clone();
    version.header_mut()[BODY_AT + 2] = 2;
    let mut magic = whole.clone();
    magic.header_mut()[BODY_AT] = 0;
    let short = Packet::new(&whole.header()[..BODY_AT + 15], Payload::Empty);
    let mut fragment = whole.clone();
    fragment.header_mut()[21] = 8;
    let answered = request(SERVER, 77, 50, (16, 16));
    let mut keyless = whole.clone();
    keyless.header_mut()[BODY_AT + 3] = lookup::Op::Map as u8;
    for packet in [version, magic, short, fragment, answered, keyless] {
        let (_, after) = rig.send(1, packet.clone()).unwrap();
        assert_eq!(bytes(&after), bytes(&packet));
    }
    assert_eq!(rig.counters(), IndexCounters::default());
    let (_, after) = rig.send(1, request(CLIENT, 0, 50, (16, 16))).unwrap();
    assert_eq!(bytes(&after), bytes(&request(CLIENT, 0, 50, (16, 16))));
    assert_eq!(rig.counters().unknown_server, 1);
    rig.index().set_udp_server(ip(SERVER), None).unwrap();
    rig.send(1, whole).unwrap();
    assert_eq!(rig.counters().unknown_server, 2);
}

#[test]
fn a_checksum_that_would_be_wrong_is_left_out() {
    let mut rig = rig();
    let mut packet = request(SERVER, 0, 50, (16, 16));
    packet.header_mut()[40..42].copy_from_slice(&[0x12, 0x34]);
    let (_, after) = rig.send(1, packet).unwrap();
    assert_eq!(bytes(&after), bytes(&request(SERVER, 100, 50, (16, 16))));
}

#[test]
fn a_request_goes_over_two_switches() {
    for split in SPLITS {
        let mut core = rig();
        core.index().set_trusted(PortId(UPLINK), true).unwrap();
        let mut edge = Rig::new(IndexConfig {
            fat_ranges: 0,
            layers: 0,
            ..SMALL
        });
        edge.host(SERVER, UPLINK);
        edge.index().set_udp_server(ip(SERVER), Some(0)).unwrap();
        edge.index().set_trusted(PortId(UPLINK), true).unwrap();
        edge.index().set_active(Some(0)).unwrap();
        let (port, up) = edge.send(1, request(SERVER, 0, 150, split)).unwrap();
        assert_eq!(port, UPLINK);
        assert_eq!(query::sort(up.header()), Some(Kind::Carried));
        let (port, done) = core.send(UPLINK, up).unwrap();
        assert_eq!(port, u16::from(SERVER));
        assert_eq!(bytes(&done), bytes(&request(SERVER, 101, 150, split)));
        assert_eq!((edge.counters().lookups, core.counters().lookups), (1, 0));
        assert_eq!(core.counters().by_depth[2], 1);
    }
}
