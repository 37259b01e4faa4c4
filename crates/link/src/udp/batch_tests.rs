//! Several datagrams per call, and datagrams that the system splits and merges.

use super::tests::{MTU, datagram, exact, has_ipv6, hub, hub_at, next, receive, sealed};
use super::*;
use crate::outbox::Datagrams;
use crate::{Link, conformance};
use rackweave_base::{Instant, Payload};
use rustix::net::sockopt;

const LENS: [usize; 7] = [0, 200, 4096, 33, 1024, 4096, 7];

/// A packet with a payload of `len` bytes.
fn packet(memory: &Memory, number: u32, len: usize) -> Packet {
    conformance::packet(memory, number, Payload::copied(&vec![number as u8; len]))
}

/// Sends packets in one batch, with payloads of these lengths.
fn send_all(port: &mut Port, memory: &Memory, lens: &[usize]) {
    port.cork();
    for (number, &len) in (0..).zip(lens) {
        port.send(Instant::ZERO, packet(memory, number, len))
            .unwrap();
    }
    port.uncork(Instant::ZERO);
}

/// Receives packets with payloads of these lengths.
fn receive_all(port: &mut Port, memory: &Memory, lens: &[usize]) {
    for (number, &len) in (0..).zip(lens) {
        let packet = conformance::patiently(|| port.receive(Instant::ZERO)).unwrap();
        assert_eq!(conformance::sequence(&packet), number);
        let payload = packet.payload.to_vec(memory).unwrap();
        assert_eq!(payload, vec![number as u8; len]);
    }
    assert_eq!(next(port), None);
}

/// Runs of one length, between packets of other lengths.
fn runs() -> Vec<usize> {
    let run = |len| std::iter::repeat_n(len, 40);
    run(4096).chain(LENS).chain(run(8)).chain(LENS).collect()
}

#[test]
fn a_batch_arrives_whole_and_in_order_whatever_the_lengths() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        if bind.starts_with('[') && !has_ipv6() {
            return;
        }
        let memory = Memory::new(1 << 20);
        let (a, b) = (hub_at(bind, &memory), hub_at(bind, &memory));
        let (mut port, mut end) = (exact(&a, &b), exact(&b, &a));
        for lens in [&LENS[..], &runs(), &[]] {
            send_all(&mut port, &memory, lens);
            receive_all(&mut end, &memory, lens);
        }
        let count = (LENS.len() + runs().len()) as u64;
        let expect = UdpCounters {
            send: SendCounters {
                sent: count,
                ..SendCounters::default()
            },
            ..UdpCounters::default()
        };
        assert_eq!(a.counters(), expect);
        let expect = UdpCounters {
            receive: ReceiveCounters {
                received: count,
                ..ReceiveCounters::default()
            },
            ..UdpCounters::default()
        };
        assert_eq!(b.counters(), expect);
    }
}

#[test]
fn what_is_gathered_waits_for_the_end_of_the_batch() {
    let memory = Memory::new(1 << 20);
    let (a, b) = (hub(&memory), hub(&memory));
    let (mut port, mut end) = (exact(&a, &b), exact(&b, &a));
    port.cork();
    port.send(Instant::ZERO, packet(&memory, 0, 9)).unwrap();
    assert_eq!((a.counters().send.sent, next(&mut end)), (0, None));
    port.uncork(Instant::ZERO);
    receive_all(&mut end, &memory, &[9]);
    // From now on packets go at once.
    port.send(Instant::ZERO, packet(&memory, 0, 5)).unwrap();
    receive_all(&mut end, &memory, &[5]);
}

#[test]
fn a_batch_of_sealed_packets_arrives_once() {
    let memory = Memory::new(1 << 20);
    let (a, b) = (hub(&memory), hub(&memory));
    let keys = SealKeys {
        sending: [7; 16],
        receiving: [9; 16],
    };
    let mut port = sealed(&a, b.local_addr(), &keys);
    let mut end = sealed(&b, a.local_addr(), &keys.of_peer());
    send_all(&mut port, &memory, &runs());
    receive_all(&mut end, &memory, &runs());
    assert_eq!((b.counters().forged, b.counters().replayed), (0, 0));
}

/// A peer that does not let datagrams be merged, such as another VXLAN endpoint.
#[test]
fn other_peers_get_each_packet_alone() {
    let memory = Memory::new(1 << 20);
    let a = hub(&memory);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    let to = peer.local_addr().unwrap();
    let mut port = a.port(to, PeerRule::Exact).unwrap();
    send_all(&mut port, &memory, &[200; 5]);
    let mut bytes = vec![0; 1 << 16];
    for number in 0..5 {
        let len = peer.recv(&mut bytes).unwrap();
        let mut expect = Vxlan::new(77).unwrap().emit().to_vec();
        assert!(packet(&memory, number, 200).serialise(&memory, &mut expect));
        // The check value is the link's to make.
        assert_eq!(bytes[..len], expect);
    }
}

/// The system refuses to split messages of a socket that omits checksums, as it does where the
/// interface cannot make them.
#[test]
fn where_the_system_does_not_split_each_packet_is_a_message() {
    let memory = Memory::new(1 << 20);
    let (a, b) = (hub(&memory), hub(&memory));
    let (mut port, mut end) = (exact(&a, &b), exact(&b, &a));
    system::omit_checksums(&a.0.socket).unwrap();
    send_all(&mut port, &memory, &runs());
    assert!(!port.may_split());
    receive_all(&mut end, &memory, &runs());
    assert_eq!(a.counters().send.sent, runs().len() as u64);
}

/// Sends datagrams in messages that the system splits late.
fn send_merged(from: &Hub, to: &Hub, datagrams: &[Vec<u8>]) {
    let lens: Vec<usize> = datagrams.iter().map(Vec::len).collect();
    let bytes = datagrams.concat();
    let datagrams = Datagrams {
        bytes: &bytes,
        lens: &lens,
    };
    let sent = crate::send_many::send(&from.0.socket, Some(to.local_addr()), datagrams, &mut true);
    assert_eq!(sent.unwrap(), lens.len());
}

#[test]
fn what_is_wrong_in_a_merged_message_is_dropped_by_name() {
    let memory = Memory::new(1 << 20);
    let (switch, node) = (hub(&memory), hub(&memory));
    let mut port = exact(&switch, &node);
    let sound = datagram(&memory, 1);
    let (mut other_vni, mut no_flag) = (sound.clone(), sound.clone());
    other_vni[6] ^= 1;
    no_flag[0] = 0;
    let garbage = vec![0xff; sound.len()];
    let message = [
        sound.clone(),
        other_vni,
        no_flag,
        datagram(&memory, 2),
        garbage,
        datagram(&memory, 3),
        sound[..100].to_vec(),
    ];
    send_merged(&node, &switch, &message);
    // Too long ones, and a last one that is not.
    let long = [&sound[..8], &[3; MTU + 100]].concat();
    let message = [long.clone(), long.clone(), long, datagram(&memory, 4)];
    send_merged(&node, &switch, &message);
    for number in 1..=4 {
        assert_eq!(receive(&mut port), Some(number));
    }
    assert_eq!(next(&mut port), None);
    let expect = UdpCounters {
        receive: ReceiveCounters {
            received: 4,
            too_long: 3,
            runts: 0,
            malformed: 1,
        },
        wrong_vni: 2,
        no_vni: 1,
        ..UdpCounters::default()
    };
    assert_eq!(switch.counters(), expect);
    // All datagrams of a stranger count.
    send_merged(&hub(&memory), &switch, &[sound.clone(), sound]);
    assert_eq!(next(&mut port), None);
    assert_eq!(switch.counters().strangers, 2);
}

#[test]
fn what_the_system_drops_is_counted() {
    let memory = Memory::new(1 << 20);
    let (a, b) = (hub(&memory), hub(&memory));
    let (mut port, mut end) = (exact(&a, &b), exact(&b, &a));
    // The system sets the smallest buffer that it allows.
    sockopt::set_socket_recv_buffer_size(&b.0.socket, 1).unwrap();
    let count = 100;
    for number in 0..count {
        port.send(Instant::ZERO, packet(&memory, number, 200))
            .unwrap();
    }
    let all = conformance::patiently(|| {
        while next(&mut end).is_some() {}
        let counters = b.counters();
        let all = counters.receive.received + counters.system_drops;
        (all == u64::from(count)).then_some(counters)
    });
    let counters = all.expect("each is received or counted");
    assert!(counters.receive.received > 0 && counters.system_drops > 0);
    assert_eq!(a.counters().system_drops, 0);
}
