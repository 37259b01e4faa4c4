//! Plain UDP datagrams: neighbours, bounds, and refusals.

use crate::common::{Pair, write_to};
use proptest::prelude::*;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, KeyRng, MacAddr, Memory, Packet, Payload, Rng};
use rackweave_nic::{DropReason, Nic, NicConfig};
use rackweave_verbs::{BindError, DatagramError, Datagrams, Verbs};
use rackweave_wire::{Datagram, Ethernet, Ipv4, arp};
use std::net::Ipv4Addr;

const PORT: u16 = 4793;

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

fn nic(number: u8) -> Nic {
    let config = NicConfig {
        qps_max: 4,
        cqs_max: 4,
        regions_max: 4,
        datagram_ports_max: 3,
        datagram_queue_max: 20,
        ..NicConfig::new(ip(number), mac(number))
    };
    Nic::new(
        config,
        Memory::new(1 << 20),
        Pool::new(64),
        KeyRng::seeded(Rng::new(9)),
    )
}

/// Carries packets between two NICs until there are none; returns how many were datagrams.
fn carry(now: Instant, a: &mut Nic, b: &mut Nic) -> usize {
    let mut datagrams = 0;
    loop {
        let (to_b, to_a) = (a.poll_transmit(now), b.poll_transmit(now));
        if to_a.is_none() && to_b.is_none() {
            return datagrams;
        }
        for (packet, to) in [(to_b, &mut *b), (to_a, &mut *a)] {
            if let Some(packet) = packet {
                datagrams += usize::from(!arp::is_arp(packet.header()));
                to.handle_packet(now, packet);
            }
        }
    }
}

#[test]
fn what_is_sent_arrives_in_order_from_the_first_on() {
    let (mut a, mut b) = (nic(1), nic(2));
    let from = a.bind(0).unwrap();
    assert_eq!((from, b.bind(PORT)), (49152, Ok(PORT)));
    let sent: Vec<u8> = (0..4096).map(|at| (at / 3) as u8).collect();
    let lens = [0, 1, 45, 46, 47, 78, 79, 1000, 4096];
    for round in 0..2 {
        for len in lens {
            a.send(from, (ip(2), PORT), &sent[..len]).unwrap();
        }
        assert_eq!(carry(Instant::ZERO, &mut a, &mut b), lens.len());
        let mut bytes = b"what was there".to_vec();
        for len in lens {
            assert_eq!(b.receive(PORT, &mut bytes), Some((ip(1), from)), "{round}");
            assert_eq!(bytes, sent[..len]);
            // The answer: the sender is known from its request.
            b.send(PORT, (ip(1), from), &bytes).unwrap();
        }
        assert_eq!(b.receive(PORT, &mut bytes), None);
        assert_eq!(carry(Instant::ZERO, &mut a, &mut b), lens.len());
        for len in lens {
            assert_eq!(a.receive(from, &mut bytes), Some((ip(2), PORT)));
            assert_eq!(bytes, sent[..len]);
        }
    }
    for nic in [&a, &b] {
        let counters = nic.counters();
        assert_eq!((counters.sent_datagrams, counters.rcvd_datagrams), (18, 18));
        assert_eq!(counters.drops_total(), 0);
    }
}

#[test]
fn what_nobody_takes_is_counted() {
    let (mut a, mut b) = (nic(1), nic(2));
    let from = a.bind(0).unwrap();
    b.bind(PORT).unwrap();
    let now = Instant::ZERO;
    a.send(from, (ip(2), PORT + 1), b"nobody there").unwrap();
    carry(now, &mut a, &mut b);
    assert_eq!(b.counters().drops(DropReason::PortUnbound), 1);
    for _ in 0..2 {
        for _ in 0..15 {
            a.send(from, (ip(2), PORT), b"too many").unwrap();
        }
        carry(now, &mut a, &mut b);
    }
    assert_eq!(b.counters().drops(DropReason::DatagramQueueFull), 10);
    assert!(b.unbind(PORT) && !b.unbind(PORT));
    b.bind(PORT).unwrap();
    assert_eq!(b.receive(PORT, &mut Vec::new()), None, "gone with the port");

    let mut damaged = Datagram {
        ethernet: Ethernet::new(mac(1), mac(2)),
        ipv4: Ipv4::new(ip(1), ip(2)),
        source_port: 5,
        target_port: PORT,
        checksum: 0,
        carried: 5,
    };
    let packet = |datagram: &Datagram, checksum: u16| {
        let keep = |bytes: &[u8]| Some(Payload::copied(bytes));
        let mut packet = datagram.packet(b"bytes", keep).unwrap();
        packet.header_mut()[40..42].copy_from_slice(&checksum.to_be_bytes());
        packet
    };
    let before = b.counters().drops_total();
    b.handle_packet(now, packet(&damaged, 0x1234));
    let bad = b
        .counters()
        .iter()
        .find(|(name, _)| *name == "bad_udp_checksum");
    assert_eq!(bad, Some(("bad_udp_checksum", 1)));
    damaged.ipv4.target = ip(3);
    b.handle_packet(now, packet(&damaged, 0));
    assert_eq!(b.counters().drops(DropReason::NotForUs), 1);
    assert_eq!(b.counters().drops_total(), before + 2);
}

#[test]
fn a_node_that_does_not_answer_loses_what_is_for_it() {
    let mut a = nic(1);
    let from = a.bind(0).unwrap();
    let mut now = Instant::ZERO;
    for round in 1..3 {
        for _ in 0..20 {
            a.send(from, (ip(7), PORT), b"anybody?").unwrap();
        }
        let full = a.send(from, (ip(7), PORT), b"one more");
        assert_eq!(full, Err(DatagramError::Full));
        let mut questions = 0;
        loop {
            while let Some(packet) = a.poll_transmit(now) {
                assert!(arp::is_arp(packet.header()));
                questions += 1;
            }
            let Some(due) = a.poll_timeout() else { break };
            now = due;
            a.handle_timeout(now);
        }
        assert_eq!(questions, 8);
        assert_eq!(a.counters().drops(DropReason::NoNeighbour), 20 * round);
    }
}

#[test]
fn ports_and_lengths_have_bounds() {
    let mut a = nic(1);
    let send = |a: &mut Nic, port, len| a.send(port, (ip(2), PORT), &vec![0; len]);
    assert_eq!(send(&mut a, 5, 1), Err(DatagramError::NotBound(5)));
    assert_eq!(a.receive(5, &mut Vec::new()), None);
    assert!(!a.unbind(5));
    assert_eq!(a.bind(4791), Err(BindError::Reserved(4791)));
    assert_eq!(a.bind(5), Ok(5));
    assert_eq!(a.bind(5), Err(BindError::Taken(5)));
    assert_eq!((a.bind(0), a.bind(0)), (Ok(49152), Ok(49153)));
    assert_eq!(a.bind(0), Err(BindError::TooMany { limit: 3 }));
    assert!(a.unbind(49152));
    assert_eq!(a.bind(0), Ok(49154), "a port rests before it is used again");
    let limit = a.datagram_max();
    assert_eq!(limit, 4096);
    let len = limit + 1;
    let too_large = DatagramError::TooLarge { len, limit };
    assert_eq!(send(&mut a, 5, len), Err(too_large));
    assert!(a.datagrams().is_some());
}

#[test]
fn datagrams_and_requests_take_turns() {
    let mut pair = Pair::new();
    let port = pair.a.nic.bind(0).unwrap();
    pair.a.nic.send(port, (ip(2), PORT), b"first").unwrap();
    // The request is sent, and the other end, without a port, does not answer.
    let packet = pair.a.nic.poll_transmit(pair.now).unwrap();
    assert!(arp::is_arp(packet.header()));
    let question = rackweave_wire::ArpFrame::of(&packet).unwrap();
    pair.a
        .nic
        .handle_packet(pair.now, question.reply(mac(2)).packet());
    let write = write_to(&pair.b.region, 0);
    pair.a.post(1, write, 0, 8192);
    for _ in 0..3 {
        pair.a.nic.send(port, (ip(2), PORT), b"more").unwrap();
    }
    let mut kinds = String::new();
    while let Some(packet) = pair.a.nic.poll_transmit(pair.now) {
        kinds.push(if Datagram::of(&packet).is_ok() {
            'd'
        } else {
            'r'
        });
    }
    let turns = kinds.trim_end_matches('r');
    assert!(["rdrdrdrd", "drdrdrd"].contains(&turns), "{kinds}");
}

proptest! {
    #[test]
    fn any_packet_is_judged(
        mut bytes in prop::collection::vec(any::<u8>(), 42..200),
        cut in 0..89_usize,
        sound: bool,
    ) {
        let mut a = nic(1);
        a.bind(PORT).unwrap();
        if sound {
            let len = bytes.len() - 42;
            let datagram = Datagram {
                ethernet: Ethernet::new(mac(2), mac(1)),
                ipv4: Ipv4::new(ip(2), ip(1)),
                source_port: 1,
                target_port: PORT,
                checksum: 0,
                carried: len,
            };
            let keep = |bytes: &[u8]| Some(Payload::copied(bytes));
            let packet = datagram.packet(&bytes[42..], keep).unwrap();
            bytes.clear();
            packet.serialise(&Memory::new(0), &mut bytes);
        }
        let (front, back) = bytes.split_at(cut.min(bytes.len()));
        a.handle_packet(Instant::ZERO, Packet::new(front, Payload::copied(back)));
        let taken = a.receive(PORT, &mut Vec::new()).is_some();
        prop_assert_eq!(taken, a.counters().drops_total() == 0);
        prop_assert!(!sound || taken || cut < 42);
    }
}
