//! Forwarding and routing, through a switch that does nothing else.

use super::*;
use rackweave_base::{Instant, Payload, Psn, Qpn};
use rackweave_switch::{Budget, Counters, Program, Switch, SwitchConfig};
use rackweave_wire::{Bth, Extension, Ipv4, Opcode, Udp};

struct OnlyForward(Forward);

impl Program for OnlyForward {
    type Task = ();
    type Digest = ();

    fn declare(&self, ledger: &mut Ledger) {
        self.0.declare(ledger);
    }

    fn generator_keys(&self) -> usize {
        0
    }

    fn packet(&mut self, pass: &mut Pass<'_, (), ()>, port: PortId, packet: Packet) {
        self.0.packet(pass, port, packet);
    }

    fn task(&mut self, _: &mut Pass<'_, (), ()>, (): ()) {}

    fn generated(&mut self, _: &mut Pass<'_, (), ()>, _: u32) {}
}

const OWN: MacAddr = MacAddr([9; 6]);
const NEAR: MacAddr = MacAddr([1; 6]);
const GATEWAY: MacAddr = MacAddr([2; 6]);

fn switch() -> Switch<OnlyForward> {
    let mut forward = Forward::new(OWN, 2, 2);
    forward.add_host(NEAR, PortId(1)).unwrap();
    let hop = |port, mac| NextHop {
        port: PortId(port),
        mac,
    };
    forward
        .add_route(Ipv4Addr::new(10, 1, 0, 0), 16, hop(2, GATEWAY))
        .unwrap();
    forward
        .add_route(Ipv4Addr::new(10, 1, 2, 3), 32, hop(3, NEAR))
        .unwrap();
    Switch::load(
        OnlyForward(forward),
        Budget::Tofino1,
        SwitchConfig::default(),
    )
    .unwrap()
}

fn packet(target: MacAddr, ip: Ipv4Addr, ttl: u8) -> Packet {
    let mut ipv4 = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), ip);
    ipv4.ttl = ttl;
    let headers = Headers {
        ethernet: Ethernet::new(MacAddr([7; 6]), target),
        ipv4,
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::SendOnly, Qpn(5), Psn::new(6)),
        extension: Extension::None,
    };
    headers.packet(Payload::inline(b"data"))
}

/// The port and the headers with which the packet leaves, or why it does not.
fn check(packet: Packet) -> Result<(u16, Headers), &'static str> {
    check_on(&mut switch(), packet)
}

fn check_on(
    switch: &mut Switch<OnlyForward>,
    packet: Packet,
) -> Result<(u16, Headers), &'static str> {
    let target = ethernet::target(packet.header());
    assert!(target.is_some());
    switch.handle_packet(Instant::ZERO, PortId(0), packet);
    for port in 0..8 {
        if let Some(packet) = switch.poll_transmit(PortId(port)) {
            return Ok((port, Headers::of(&packet).unwrap()));
        }
    }
    let counters: &Counters = switch.counters();
    let drop = counters
        .iter()
        .find(|(name, n)| name.starts_with("drop_") && *n == 1);
    Err(drop.expect("what does not leave is counted").0)
}

#[test]
fn a_known_address_leaves_by_its_port_unchanged() {
    let before = Headers::of(&packet(NEAR, Ipv4Addr::LOCALHOST, 1)).unwrap();
    assert_eq!(check(packet(NEAR, Ipv4Addr::LOCALHOST, 1)), Ok((1, before)));
}

#[test]
fn an_unknown_address_is_dropped() {
    let unknown = MacAddr([3; 6]);
    assert_eq!(
        check(packet(unknown, Ipv4Addr::LOCALHOST, 9)),
        Err("drop_no_route")
    );
}

#[test]
fn the_longest_prefix_names_the_next_hop() {
    let (port, headers) = check(packet(OWN, Ipv4Addr::new(10, 1, 9, 9), 64)).unwrap();
    assert_eq!(
        (port, headers.ethernet.target, headers.ethernet.source),
        (2, GATEWAY, OWN)
    );
    assert_eq!(headers.ipv4.ttl, 63);
    let (port, headers) = check(packet(OWN, Ipv4Addr::new(10, 1, 2, 3), 64)).unwrap();
    assert_eq!((port, headers.ethernet.target), (3, NEAR));
}

#[test]
fn a_packet_without_time_to_live_goes_nowhere() {
    assert_eq!(
        check(packet(OWN, Ipv4Addr::new(10, 1, 9, 9), 1)),
        Err("drop_time_to_live")
    );
    assert_eq!(
        check(packet(OWN, Ipv4Addr::new(10, 9, 9, 9), 9)),
        Err("drop_no_route")
    );
}

#[test]
fn entries_are_replaced_and_removed() {
    let mut switch = switch();
    let moved = NextHop {
        port: PortId(5),
        mac: NEAR,
    };
    let far = Ipv4Addr::new(10, 1, 2, 3);
    for _ in 0..3 {
        // The tables are full: only a replacement fits.
        let forward = &mut switch.program_mut().0;
        forward.add_route(far, 32, moved).unwrap();
        forward.add_host(NEAR, PortId(5)).unwrap();
    }
    let port = |switch: &mut _, target| check_on(switch, packet(target, far, 64)).map(|out| out.0);
    assert_eq!(port(&mut switch, OWN), Ok(5));
    assert_eq!(port(&mut switch, NEAR), Ok(5));
    let forward = &mut switch.program_mut().0;
    assert!(forward.remove_route(far, 32) && !forward.remove_route(far, 32));
    assert!(forward.remove_host(NEAR) && !forward.remove_host(NEAR));
    assert_eq!(port(&mut switch, OWN), Ok(2), "the shorter prefix stays");
    assert_eq!(port(&mut switch, NEAR), Err("drop_no_route"));
}

#[test]
fn the_shortest_prefix_is_everything() {
    let mut forward = Forward::new(OWN, 1, 1);
    let hop = NextHop {
        port: PortId(1),
        mac: GATEWAY,
    };
    forward.add_route(Ipv4Addr::UNSPECIFIED, 0, hop).unwrap();
    assert!(!forward.remove_route(Ipv4Addr::UNSPECIFIED, 1));
    assert!(forward.remove_route(Ipv4Addr::UNSPECIFIED, 0));
}
