//! Hubs against each other and against packets of strangers.

use super::*;
use crate::{Link, conformance};
use rackweave_base::{Instant, Payload};

pub(super) const MTU: usize = 4200;
const VNI: u32 = 77;

pub(super) fn hub_at(bind: &str, memory: &Memory) -> Hub {
    let config = HubConfig {
        bind: bind.parse().unwrap(),
        vni: VNI,
        mtu: MTU,
    };
    Hub::bind(config, memory.clone(), Pool::new(64)).unwrap()
}

pub(super) fn hub(memory: &Memory) -> Hub {
    hub_at("127.0.0.1:0", memory)
}

pub(super) fn exact(hub: &Hub, peer: &Hub) -> Port {
    hub.port(peer.local_addr(), PeerRule::Exact).unwrap()
}

fn packet(memory: &Memory, number: u32) -> Packet {
    conformance::packet(memory, number, Payload::copied(&[5; 200]))
}

/// A whole VXLAN datagram with a valid packet.
pub(super) fn datagram(memory: &Memory, number: u32) -> Vec<u8> {
    let mut bytes = Vxlan::new(VNI).unwrap().emit().to_vec();
    assert!(packet(memory, number).serialise(memory, &mut bytes));
    bytes
}

/// The next packet, with as much waiting as a loopback needs.
pub(super) fn receive(port: &mut Port) -> Option<u32> {
    conformance::patiently(|| next(port))
}

/// The next packet that has arrived.
pub(super) fn next(port: &mut Port) -> Option<u32> {
    let packet = port.receive(Instant::ZERO);
    packet.map(|packet| conformance::sequence(&packet))
}

/// Whether the system supports IPv6; prints a message if not.
pub(super) fn has_ipv6() -> bool {
    let bound = UdpSocket::bind("[::1]:0");
    if let Err(error) = &bound {
        eprintln!("skipped for IPv6: {error}");
    }
    bound.is_ok()
}

#[test]
fn it_conforms() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        if bind.starts_with('[') && !has_ipv6() {
            return;
        }
        conformance::run_lossy(|memory| {
            let (a, b) = (hub_at(bind, memory), hub_at(bind, memory));
            (exact(&a, &b), exact(&b, &a))
        });
    }
}

#[test]
fn ports_share_the_socket_and_each_hears_its_own_peer() {
    let memory = Memory::new(1 << 20);
    let switch = hub(&memory);
    let nodes = [hub(&memory), hub(&memory), hub(&memory)];
    let mut ports: Vec<Port> = nodes.iter().map(|node| exact(&switch, node)).collect();
    let mut ends: Vec<Port> = nodes.iter().map(|node| exact(node, &switch)).collect();
    for (number, end) in (0..).zip(&mut ends) {
        end.send(Instant::ZERO, packet(&memory, number)).unwrap();
    }
    // The last port reads the packets of all ports from the socket.
    for number in [2, 0, 1] {
        assert_eq!(receive(&mut ports[number]), Some(number as u32));
        assert!(ports[number].prepare_sleep());
    }
    for (number, (port, end)) in (10..).zip(ports.iter_mut().zip(&mut ends)) {
        port.send(Instant::ZERO, packet(&memory, number)).unwrap();
        assert_eq!(receive(end), Some(number));
    }
    let counters = switch.counters();
    assert_eq!((counters.send.sent, counters.receive.received), (3, 3));
}

#[test]
fn who_sleeps_is_told_of_packets_that_another_port_took() {
    let memory = Memory::new(1 << 20);
    let (switch, one, two) = (hub(&memory), hub(&memory), hub(&memory));
    let (mut port_one, mut port_two) = (exact(&switch, &one), exact(&switch, &two));
    assert!(port_one.prepare_sleep());
    exact(&one, &switch)
        .send(Instant::ZERO, packet(&memory, 1))
        .unwrap();
    exact(&two, &switch)
        .send(Instant::ZERO, packet(&memory, 2))
        .unwrap();
    assert_eq!(receive(&mut port_two), Some(2));
    assert!(!port_one.prepare_sleep());
}

#[test]
fn what_is_not_of_a_peer_is_dropped_by_name() {
    let memory = Memory::new(1 << 20);
    let switch = hub(&memory);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut port = switch
        .port(peer.local_addr().unwrap(), PeerRule::Exact)
        .unwrap();
    let sound = datagram(&memory, 7);
    let (mut other_vni, mut no_flag) = (sound.clone(), sound.clone());
    other_vni[6] ^= 1;
    no_flag[0] = 0;
    let header = &sound[..8];
    let with_header = |bytes: &[u8]| [header, bytes].concat();
    stranger.send_to(&sound, switch.local_addr()).unwrap();
    for bytes in [
        other_vni,
        no_flag,
        vec![],
        sound[..7].to_vec(),
        with_header(&[]),
        with_header(&[1; 13]),
        with_header(&[2; 14 + MTU + 1]),
        with_header(&[3; 60_000]),
        sound[..100].to_vec(),
        sound.clone(),
    ] {
        peer.send_to(&bytes, switch.local_addr()).unwrap();
    }
    assert_eq!(receive(&mut port), Some(7));
    let expect = UdpCounters {
        receive: ReceiveCounters {
            received: 1,
            too_long: 2,
            runts: 2,
            malformed: 1,
        },
        strangers: 1,
        wrong_vni: 1,
        no_vni: 1,
        truncated: 2,
        ..UdpCounters::default()
    };
    assert_eq!(switch.counters(), expect);
}

#[test]
fn any_port_of_a_peer_is_heard_but_those_of_exact_peers() {
    let memory = Memory::new(1 << 20);
    let switch = hub(&memory);
    let node = hub(&memory);
    let replies = UdpSocket::bind("127.0.0.1:0").unwrap();
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut any = switch
        .port(replies.local_addr().unwrap(), PeerRule::AnyPort)
        .unwrap();
    let mut own = exact(&switch, &node);
    elsewhere
        .send_to(&datagram(&memory, 1), switch.local_addr())
        .unwrap();
    exact(&node, &switch)
        .send(Instant::ZERO, packet(&memory, 2))
        .unwrap();
    assert_eq!(receive(&mut any), Some(1));
    assert_eq!(receive(&mut own), Some(2));
    any.send(Instant::ZERO, packet(&memory, 3)).unwrap();
    let mut bytes = [0; 9000];
    let len = replies.recv(&mut bytes).unwrap();
    assert_eq!(bytes[..len], datagram(&memory, 3));
}

#[test]
fn a_port_that_goes_leaves_its_peer_a_stranger_until_it_is_made_again() {
    let memory = Memory::new(1 << 20);
    let (switch, node) = (hub(&memory), hub(&memory));
    let port = exact(&switch, &node);
    let mut end = exact(&node, &switch);
    let again = switch.port(node.local_addr(), PeerRule::Exact).unwrap_err();
    assert!(matches!(again, UdpError::PeerTaken { .. }), "{again}");
    drop(port);
    end.send(Instant::ZERO, packet(&memory, 1)).unwrap();
    let other = hub(&memory);
    let mut other_port = exact(&switch, &other);
    let strangers = conformance::patiently(|| {
        assert_eq!(next(&mut other_port), None);
        Some(switch.counters().strangers).filter(|&strangers| strangers > 0)
    });
    assert_eq!(strangers, Some(1));
    let mut port = exact(&switch, &node);
    end.send(Instant::ZERO, packet(&memory, 2)).unwrap();
    assert_eq!(receive(&mut port), Some(2));
}

#[test]
fn a_port_that_does_not_look_holds_a_bounded_number_of_packets() {
    let memory = Memory::new(1 << 20);
    let (switch, busy, idle) = (hub(&memory), hub(&memory), hub(&memory));
    let (mut at_busy, _at_idle) = (exact(&switch, &busy), exact(&switch, &idle));
    let mut end = exact(&idle, &switch);
    for number in 0..INBOX_MAX as u32 + 88 {
        end.send(Instant::ZERO, packet(&memory, number)).unwrap();
        assert_eq!(at_busy.receive(Instant::ZERO).map(drop), None);
    }
    let counters = conformance::patiently(|| {
        assert_eq!(next(&mut at_busy), None);
        Some(switch.counters()).filter(|counters| counters.inbox_full >= 88)
    })
    .expect("all come");
    assert_eq!(counters.receive.received, INBOX_MAX as u64);
    assert_eq!(counters.inbox_full, 88);
}

#[test]
fn both_families_meet_at_one_socket() {
    if !has_ipv6() {
        return;
    }
    let memory = Memory::new(1 << 20);
    let both = hub_at("[::]:0", &memory);
    let node = hub(&memory);
    let at_both = SocketAddr::from(([127, 0, 0, 1], both.local_addr().port()));
    let mut port = exact(&both, &node);
    let mut end = node.port(at_both, PeerRule::Exact).unwrap();
    end.send(Instant::ZERO, packet(&memory, 1)).unwrap();
    assert_eq!(receive(&mut port), Some(1));
    port.send(Instant::ZERO, packet(&memory, 2)).unwrap();
    assert_eq!(receive(&mut end), Some(2));
}

#[test]
fn what_exceeds_the_mtu_is_not_sent() {
    let memory = Memory::new(1 << 20);
    let config = HubConfig {
        bind: "127.0.0.1:0".parse().unwrap(),
        vni: VNI,
        mtu: 336,
    };
    let narrow = Hub::bind(config, memory.clone(), Pool::new(1)).unwrap();
    let mut port = exact(&narrow, &hub(&memory));
    let large = conformance::packet(&memory, 1, Payload::copied(&[0; 512]));
    port.send(Instant::ZERO, large).unwrap();
    assert_eq!(narrow.counters().send.too_long, 1);
}

#[test]
fn bad_configurations_are_refused_with_a_remedy() {
    let memory = Memory::new(1 << 16);
    let taken = hub(&memory);
    let check = |bind: &str, vni, mtu| {
        let bind = bind.parse().unwrap();
        let config = HubConfig { bind, vni, mtu };
        let error = Hub::bind(config, memory.clone(), Pool::new(1)).unwrap_err();
        error.to_string()
    };
    let free = "127.0.0.1:0";
    assert!(check(free, 1 << 24, MTU).contains("more than 24 bits"));
    assert!(check(free, 1, 335).contains("choose 336 to"));
    assert!(check(free, 1, MTU_MAX + 1).contains("choose 336 to"));
    assert!(check(&taken.local_addr().to_string(), 1, MTU).contains("ss -ulpn"));
    assert!(check("192.0.2.1:0", 1, MTU).contains("ip address"));
    let peer = |peer: &str| {
        let peer = peer.parse().unwrap();
        taken.port(peer, PeerRule::Exact).unwrap_err().to_string()
    };
    assert!(peer("127.0.0.1:0").contains("can be no peer"));
    assert!(peer("0.0.0.0:5").contains("can be no peer"));
    assert!(peer("224.0.0.1:5").contains("can be no peer"));
    assert!(peer("[::1]:5").contains("`[::]` for both kinds"));
}

pub(super) fn sealed(hub: &Hub, peer: SocketAddr, keys: &SealKeys) -> Port {
    hub.sealed_port(peer, PeerRule::Exact, keys).unwrap()
}

#[test]
fn a_sealed_link_conforms() {
    conformance::run_lossy(|memory| {
        let (a, b) = (hub(memory), hub(memory));
        let keys = SealKeys {
            sending: [7; 16],
            receiving: [9; 16],
        };
        let port = sealed(&a, b.local_addr(), &keys);
        (port, sealed(&b, a.local_addr(), &keys.of_peer()))
    });
}

/// A sender that can use the address of a peer, here even its socket, cannot send packets as that
/// peer.
#[test]
fn spoofed_and_replayed_datagrams_are_dropped_by_name() {
    let memory = Memory::new(1 << 20);
    let (switch, node) = (hub(&memory), hub(&memory));
    // Listens to what the node sends.
    let tap = UdpSocket::bind("127.0.0.1:0").unwrap();
    tap.set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let keys = SealKeys {
        sending: [1; 16],
        receiving: [2; 16],
    };
    let mut port = sealed(&switch, node.local_addr(), &keys);
    let mut end = sealed(&node, tap.local_addr().unwrap(), &keys.of_peer());
    let spoof = |bytes: &[u8]| {
        node.0.socket.send_to(bytes, switch.local_addr()).unwrap();
    };
    let mut came = vec![0; 5000];
    let mut sent = Vec::new();
    for number in 0..3 {
        end.send(Instant::ZERO, packet(&memory, number)).unwrap();
        let len = tap.recv(&mut came).unwrap();
        sent.push(came[..len].to_vec());
    }
    // With no key, with a changed byte, without its seal, and twice.
    spoof(&datagram(&memory, 9));
    let mut altered = sent[0].clone();
    altered[60] ^= 1;
    spoof(&altered);
    spoof(&sent[0][..sent[0].len() - SEAL_LEN]);
    for number in [1, 0, 1, 2, 0] {
        spoof(&sent[number]);
    }
    for number in [1, 0, 2] {
        assert_eq!(receive(&mut port), Some(number));
    }
    assert_eq!(next(&mut port), None);
    let counters = switch.counters();
    assert_eq!((counters.forged, counters.replayed), (3, 2));
    assert_eq!(counters.receive.received, 3);
}

#[test]
fn a_token_comes_to_who_is_there_alone() {
    let memory = Memory::new(1 << 20);
    let (switch, node, other) = (hub(&memory), hub(&memory), hub(&memory));
    let limit = std::time::Duration::from_secs(10);
    let none = std::time::Duration::ZERO;
    other.challenge(node.local_addr(), &[1; 16]).unwrap();
    let noise = Vxlan::new(VNI + 1).unwrap().emit();
    switch.0.socket.send_to(&noise, node.local_addr()).unwrap();
    switch.challenge(node.local_addr(), &[2; 16]).unwrap();
    let heard = node.hear_challenge(switch.local_addr(), limit).unwrap();
    assert_eq!(heard, Some([2; 16]));
    let none = other.hear_challenge(switch.local_addr(), none).unwrap();
    assert_eq!(none, None);
}
