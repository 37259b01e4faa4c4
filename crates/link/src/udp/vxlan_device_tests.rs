//! A hub against the VXLAN device of Linux, and against a narrow interface, each in a separate
//! network namespace.

use super::*;
use crate::Link;
use crate::namespace::{self, NEEDS_VETH, OtherMachine};
use rackweave_base::{Instant, Payload};
use std::time::Duration;

const VNI: u32 = 77;

/// The address of the hub's end within the tunnel, which the system does not have; the system has
/// 10.9.0.1.
const OURS: [u8; 4] = [10, 9, 0, 2];
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A cable whose end `near` is that of the hub.
const VETH: [&str; 4] = [
    "ip link add name near type veth peer name far",
    "ip address add 10.1.0.1/24 dev near",
    "ip link set far up",
    "ip link set near up",
];

fn hub(bind: &str, mtu: usize) -> Hub {
    let config = HubConfig {
        bind: bind.parse().unwrap(),
        vni: VNI,
        mtu,
    };
    Hub::bind(config, Memory::new(1 << 20), Pool::new(16)).unwrap()
}

/// The next packet for which `wanted` returns true. The system sends its own packets as well.
fn receive(port: &mut Port, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let memory = Memory::new(1 << 16);
    for _ in 0..5000 {
        if let Some(packet) = port.receive(Instant::ZERO) {
            let mut bytes = Vec::new();
            assert!(packet.serialise(&memory, &mut bytes));
            if wanted(&bytes) {
                return bytes;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing came through the VXLAN device");
}

/// The reply to an ARP request (RFC 826): the addresses swapped, the hub's filled in.
fn arp_answer(request: &[u8]) -> Vec<u8> {
    let (asker_mac, asker_ip) = (&request[22..28], &request[28..32]);
    let mut answer = [asker_mac, &OUR_MAC, &request[12..20], &[0, 2]].concat();
    answer.extend_from_slice(&OUR_MAC);
    answer.extend_from_slice(&OURS);
    answer.extend_from_slice(asker_mac);
    answer.extend_from_slice(asker_ip);
    answer
}

/// A UDP packet sent back: MAC and IP addresses and ports swapped, which leaves the checksums
/// right. But the system may have left the UDP checksum to a device, so it is omitted (RFC 768).
fn echo(datagram: &[u8]) -> Vec<u8> {
    let mut back = datagram.to_vec();
    for (one, other, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        back[one..one + len].copy_from_slice(&datagram[other..other + len]);
        back[other..other + len].copy_from_slice(&datagram[one..one + len]);
    }
    back[40..42].fill(0);
    back
}

/// Sends a packet `times` times, in one batch.
fn send(port: &mut Port, bytes: &[u8], times: usize) {
    let (header, rest) = bytes.split_at(42);
    port.cork();
    for _ in 0..times {
        let packet = Packet::new(header, Payload::copied(rest));
        port.send(Instant::ZERO, packet).unwrap();
    }
    port.uncork(Instant::ZERO);
}

#[test]
fn a_linux_vxlan_device_is_a_peer() {
    let name = "udp::vxlan_device_tests::a_linux_vxlan_device_is_a_peer";
    let needs = "ip link add name probe type vxlan id 1 dstport 4789";
    namespace::within(name, needs, &VETH, || {
        let other = OtherMachine::new();
        other.take("far");
        other.run(
            "ip address add 10.1.0.2/24 dev far && ip link set far up && \
             ip link add name vxlan0 type vxlan id 77 remote 10.1.0.1 dstport 4789 dev far && \
             ip address add 10.9.0.1/24 dev vxlan0 && ip link set vxlan0 up",
        );
        let hub = hub("10.1.0.1:4789", 1450);
        let device = "10.1.0.2:4789".parse().unwrap();
        let mut port = hub.port(device, PeerRule::AnyPort).unwrap();
        // A program of that machine sends to RoCEv2's port at the hub's address and waits for
        // answers.
        let talk = "exec 3<>/dev/udp/10.9.0.2/4791; printf hello >&3; timeout 10 head -c 15 <&3";
        let mut talk = other.command(talk);
        let talk = talk.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // The system requests the hub's address first.
        let is_arp = |bytes: &[u8]| bytes[12..14] == [0x08, 0x06] && bytes[38..42] == OURS;
        let request = receive(&mut port, is_arp);
        send(&mut port, &arp_answer(&request), 1);
        let is_udp = |bytes: &[u8]| bytes[12..14] == [0x08, 0x00] && bytes[23] == 17;
        let datagram = receive(&mut port, is_udp);
        assert_eq!(
            (&datagram[..6], &datagram[42..]),
            (&OUR_MAC[..], &b"hello"[..])
        );
        send(&mut port, &echo(&datagram), 3);
        assert_eq!(talk.wait_with_output().unwrap().stdout, b"hellohellohello");
        let counters = hub.counters();
        assert_eq!((counters.strangers, counters.wrong_vni), (0, 0));
        assert_eq!(
            counters.send,
            SendCounters {
                sent: 4,
                ..SendCounters::default()
            }
        );
    });
}

#[test]
fn a_port_has_the_mtu_of_its_way() {
    let name = "udp::vxlan_device_tests::a_port_has_the_mtu_of_its_way";
    namespace::within(name, NEEDS_VETH, &VETH, || {
        let peer = "10.1.0.2:4789".parse().unwrap();
        let port = |mtu| hub("10.1.0.1:0", mtu).port(peer, PeerRule::Exact);
        for (asked, got) in [(1200, 1200), (1450, 1450), (9000, 1450)] {
            assert_eq!(port(asked).unwrap().properties().mtu, got);
        }
        let narrow = ["link", "set", "near", "mtu", "385"];
        let set = std::process::Command::new("ip").args(narrow).status();
        assert!(set.unwrap().success());
        assert_eq!(
            port(9000).unwrap_err().to_string(),
            "the way to 10.1.0.2:4789 carries packets of 385 bytes, too few for RDMA in VXLAN; \
             raise the MTU of the interface to 386 or more"
        );
    });
}
