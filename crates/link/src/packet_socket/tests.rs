//! Packet sockets at both ends of a veth cable, in a separate network namespace.

use super::*;
use crate::conformance;
use crate::namespace::{self, NEEDS_VETH};
use rackweave_base::Payload;
use rackweave_wire::{Headers, Vlan};

/// A cable between `left` and `right` on which the system itself sends nothing: without IPv6
/// addresses, if it has IPv6 at all, it does not search for neighbours.
const VETH: [&str; 4] = [
    "ip link add name left mtu 4200 type veth peer name right mtu 4200",
    "for end in left right; do ip link set $end addrgenmode none 2>/dev/null || true; done",
    "ip link set left multicast off up",
    "ip link set right multicast off up",
];

fn open(name: &str, memory: &Memory) -> PacketSocket {
    PacketSocket::open(name, memory.clone(), Pool::new(64)).unwrap()
}

fn error(name: &str) -> String {
    let opened = PacketSocket::open(name, Memory::new(1 << 16), Pool::new(1));
    opened.unwrap_err().to_string()
}

fn ip(arguments: &str) {
    let mut ip = std::process::Command::new("ip");
    assert!(ip.args(arguments.split(' ')).status().unwrap().success());
}

/// The sequence number of the next RoCEv2 packet that has arrived.
fn next(link: &mut PacketSocket) -> Option<u32> {
    std::iter::from_fn(|| link.receive(Instant::ZERO))
        .find(|packet| Headers::of(packet).is_ok())
        .map(|packet| conformance::sequence(&packet))
}

/// The sequence numbers of the RoCEv2 packets that arrive, up to the one numbered `last`.
fn received(link: &mut PacketSocket, last: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let number = conformance::patiently(|| next(link));
        numbers.push(number.expect("the last packet comes"));
    }
    numbers
}

#[test]
fn it_conforms() {
    namespace::within(
        "packet_socket::tests::it_conforms",
        NEEDS_VETH,
        &VETH,
        || {
            conformance::run_lossy(|memory| (open("left", memory), open("right", memory)));
        },
    );
}

#[test]
fn packets_cross_the_cable_once_and_tagged_ones_are_not_mistaken() {
    let name = "packet_socket::tests::\
                packets_cross_the_cable_once_and_tagged_ones_are_not_mistaken";
    namespace::within(name, NEEDS_VETH, &VETH, || {
        let memory = Memory::new(1 << 20);
        let (mut a, mut b) = (open("left", &memory), open("right", &memory));
        assert_eq!(a.properties().mtu, 4200);
        assert_eq!(a.properties().rdma_mtu(), Some(4096));
        let plain = |number| conformance::packet(&memory, number, Payload::copied(&[7; 4096]));
        let mut tagged = Headers::of(&plain(2)).unwrap();
        tagged.ethernet.vlan = Some(Vlan {
            priority: 0,
            drop_eligible: false,
            id: 5,
        });
        a.send(Instant::ZERO, plain(1)).unwrap();
        a.send(Instant::ZERO, tagged.packet(Payload::copied(&[7; 4096])))
            .unwrap();
        a.send(Instant::ZERO, plain(3)).unwrap();
        assert_eq!(received(&mut b, 3), [1, 3]);
        assert_eq!(next(&mut a), None, "it hears itself");
        assert_eq!(
            a.counters().send,
            SendCounters {
                sent: 3,
                ..SendCounters::default()
            }
        );
    });
}

#[test]
fn what_the_interface_refuses_is_counted_and_passes() {
    let name = "packet_socket::tests::what_the_interface_refuses_is_counted_and_passes";
    namespace::within(name, NEEDS_VETH, &VETH, || {
        let memory = Memory::new(1 << 20);
        let (mut a, mut b) = (open("left", &memory), open("right", &memory));
        let packet =
            |number, len| conformance::packet(&memory, number, Payload::copied(&vec![7; len]));
        ip("link set left down");
        a.send(Instant::ZERO, packet(1, 100)).unwrap();
        assert!(a.receive(Instant::ZERO).is_none());
        ip("link set left mtu 1500 up");
        a.send(Instant::ZERO, packet(2, 4096)).unwrap();
        a.send(Instant::ZERO, packet(3, 1024)).unwrap();
        assert_eq!(received(&mut b, 3), [3]);
        let expect = SendCounters {
            sent: 1,
            refused: 1,
            too_long: 1,
            ..SendCounters::default()
        };
        assert_eq!(a.counters().send, expect);
    });
}

#[test]
fn what_the_ring_has_no_frame_for_is_counted_and_the_ring_goes_on() {
    let name = "packet_socket::tests::\
                what_the_ring_has_no_frame_for_is_counted_and_the_ring_goes_on";
    namespace::within(name, NEEDS_VETH, &VETH, || {
        let memory = Memory::new(1 << 20);
        let (mut a, mut b) = (open("left", &memory), open("right", &memory));
        let mut all = 0;
        // 512 frames hold a packet each. The second round ends elsewhere in the ring.
        for round in 0..2 {
            for number in 0..700 {
                let packet = conformance::packet(&memory, number, Payload::copied(&[7; 64]));
                a.send(Instant::ZERO, packet).unwrap();
            }
            all += 700;
            let mut numbers = Vec::new();
            while let Some(number) = next(&mut b) {
                numbers.push(number);
            }
            assert!(numbers.iter().copied().eq(0..512), "round {round}");
            let counters = b.counters();
            assert_eq!(counters.receive.received + counters.system_drops, all);
            assert_eq!(b.counters(), counters, "a second look changes nothing");
        }
    });
}

#[test]
fn a_packet_that_is_longer_than_a_frame_is_counted() {
    let name = "packet_socket::tests::a_packet_that_is_longer_than_a_frame_is_counted";
    namespace::within(name, NEEDS_VETH, &VETH, || {
        let memory = Memory::new(1 << 20);
        ip("link set right mtu 1500");
        let mut b = open("right", &memory);
        ip("link set right mtu 4200");
        let mut a = open("left", &memory);
        let packet =
            |number, len| conformance::packet(&memory, number, Payload::copied(&vec![7; len]));
        a.send(Instant::ZERO, packet(1, 4096)).unwrap();
        a.send(Instant::ZERO, packet(2, 1024)).unwrap();
        assert_eq!(received(&mut b, 2), [2]);
        assert_eq!(b.counters().receive.too_long, 1);
    });
}

#[test]
fn an_interface_that_will_not_do_is_refused_with_a_remedy() {
    let set_up = [
        "ip link add name eth7 mtu 335 type veth peer name eth17",
        "ip link set eth7 up",
    ];
    let name = "packet_socket::tests::an_interface_that_will_not_do_is_refused_with_a_remedy";
    namespace::within(name, NEEDS_VETH, &set_up, || {
        assert_eq!(
            error("eth1"),
            "there is no network interface `eth1`; there are eth17, eth7, lo"
        );
        for name in ["", "a name that no interface can have", "eth7\0"] {
            assert!(
                error(name).contains("there is no network interface"),
                "{name:?}"
            );
        }
        assert!(error("eth17").ends_with("is down; `ip link set eth17 up` starts it"));
        assert_eq!(
            error("eth7"),
            "the interface `eth7` has an MTU of 335 bytes, and RDMA packets take at least 336; \
             `ip link set eth7 mtu 4200` makes room for the largest"
        );
        assert!(error("lo").contains("is no Ethernet"));
    });
}

#[test]
fn who_may_not_is_told_how() {
    let denied = io::Error::from_raw_os_error(libc::EPERM);
    let error = error::not_opened("eth0", denied).to_string();
    assert!(error.contains("run as root or with CAP_NET_RAW"), "{error}");
    let other = io::Error::from_raw_os_error(libc::EMFILE);
    let error = error::not_opened("eth0", other);
    assert!(matches!(error, PacketSocketError::System { .. }));
}
