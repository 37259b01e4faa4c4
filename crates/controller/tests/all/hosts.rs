//! Hosts that join, move, return and leave: what the switch then forwards, answers and refuses.

use crate::common::{SWITCH, pipeline_config, switch_config};
use rackweave_base::{Instant, MacAddr, Memory, NodeId, Packet, Payload, PortId, Psn, Qpn};
use rackweave_base::{KeyRng, Rng};
use rackweave_controller::{Controller, NodeAddress, Site};
use rackweave_programs::Pipeline;
use rackweave_switch::{Budget, Switch};
use rackweave_verbs::Verbs;
use rackweave_wire::{ArpFrame, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp, ethernet};
use std::net::Ipv4Addr;

/// A switch and addresses, without nodes to act on.
struct Addresses {
    nodes: Vec<(NodeId, NodeAddress)>,
    switch: Switch<Pipeline>,
}

fn address(node: u8, port: u16) -> NodeAddress {
    NodeAddress {
        mac: MacAddr([2, 0, 0, 0, 0, node + 1]),
        ip: Ipv4Addr::new(10, 0, 0, node + 1),
        port: PortId(port),
    }
}

fn pipeline() -> Pipeline {
    Pipeline::new(&pipeline_config(), Memory::new(1 << 16))
}

impl Addresses {
    /// Nodes 0 to 2 at ports 0 to 2.
    fn new() -> (Self, Controller) {
        let switch = Switch::load(pipeline(), Budget::Tofino1, switch_config()).unwrap();
        let nodes = (0..3).map(|node| (NodeId(node), address(node as u8, node)));
        let site = Self {
            nodes: nodes.collect(),
            switch,
        };
        (
            site,
            Controller::new(SWITCH, 4, 4, 4, KeyRng::seeded(Rng::new(1))),
        )
    }

    fn check(&mut self, port: u16, packet: Packet) -> Result<(u16, Packet), &'static str> {
        let before: Vec<_> = self.switch.counters().iter().collect();
        self.switch
            .handle_packet(Instant::ZERO, PortId(port), packet);
        if let Some(out) = (0..16).find_map(|p| Some((p, self.switch.poll_transmit(PortId(p))?))) {
            return Ok(out);
        }
        let after = self.switch.counters().iter();
        let mut moved = before.iter().zip(after).filter(|(b, a)| b.1 != a.1);
        let dropped = moved.find(|(_, (name, _))| name.starts_with("drop_"));
        Err(dropped.expect("a packet leaves or is dropped").1.0)
    }

    /// The port by which a packet between two addresses leaves.
    fn send(&mut self, from: NodeAddress, to: NodeAddress) -> Result<u16, &'static str> {
        let headers = Headers {
            ethernet: Ethernet::new(from.mac, to.mac),
            ipv4: Ipv4::new(from.ip, to.ip),
            udp: Udp::new(0xc000),
            bth: Bth::new(Opcode::SendOnly, Qpn(5), Psn::new(6)),
            extension: Extension::None,
        };
        let packet = headers.packet(Payload::inline(b"data"));
        Ok(self.check(from.port.0, packet)?.0)
    }

    /// The port and destination of a packet that is routed to an IP address.
    fn route(&mut self, from: NodeAddress, ip: Ipv4Addr) -> Result<(u16, MacAddr), &'static str> {
        let gateway = NodeAddress {
            mac: SWITCH.mac,
            ip,
            port: from.port,
        };
        let headers = Headers {
            ethernet: Ethernet::new(from.mac, gateway.mac),
            ipv4: Ipv4::new(from.ip, ip),
            udp: Udp::new(0xc000),
            bth: Bth::new(Opcode::SendOnly, Qpn(5), Psn::new(6)),
            extension: Extension::None,
        };
        let (port, packet) = self.check(from.port.0, headers.packet(Payload::inline(b"data")))?;
        Ok((port, ethernet::target(packet.header()).unwrap()))
    }

    fn ask(&mut self, from: NodeAddress, ip: Ipv4Addr) -> Result<MacAddr, &'static str> {
        let question = ArpFrame::request(from.mac, from.ip, ip);
        let (port, packet) = self.check(from.port.0, question.packet())?;
        assert_eq!(port, from.port.0);
        Ok(ArpFrame::of(&packet).unwrap().arp.sender_mac)
    }

    /// `from` finds `to` in every table.
    fn assert_reaches(&mut self, from: NodeAddress, to: NodeAddress) {
        assert_eq!(self.send(from, to), Ok(to.port.0));
        assert_eq!(self.route(from, to.ip), Ok((to.port.0, to.mac)));
        assert_eq!(self.ask(from, to.ip), Ok(to.mac));
    }

    /// `from` finds `to` in no table.
    fn assert_gone(&mut self, from: NodeAddress, to: NodeAddress) {
        assert_eq!(self.send(from, to), Err("drop_no_route"));
        assert_eq!(self.route(from, to.ip), Err("drop_no_route"));
        assert_eq!(self.ask(from, to.ip), Err("drop_arp_unknown"));
    }
}

impl Site for Addresses {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        self.nodes.clone()
    }

    fn node(&mut self, _: NodeId, _: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        false
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        act(Instant::ZERO, &mut self.switch);
    }
}

/// The address of a packet with the claimed source `claimed` from the port of `real`.
fn forged(real: NodeAddress, claimed: NodeAddress) -> NodeAddress {
    NodeAddress {
        mac: real.mac,
        ..NodeAddress {
            port: real.port,
            ..claimed
        }
    }
}

#[test]
fn every_node_is_entered_and_nobody_is_guarded_unless_asked() {
    let (mut site, controller) = Addresses::new();
    controller.install_hosts(&mut site).unwrap();
    site.assert_reaches(address(0, 0), address(2, 2));
    let forged = forged(address(0, 0), address(1, 1));
    assert_eq!(site.send(forged, address(2, 2)), Ok(2));
}

#[test]
fn the_guard_is_there_again_after_a_restart_of_the_switch() {
    let (mut site, mut controller) = Addresses::new();
    controller.guard_sources(true);
    controller.install_hosts(&mut site).unwrap();
    let forged = forged(address(0, 0), address(1, 1));
    for _ in 0..2 {
        site.assert_reaches(address(0, 0), address(2, 2));
        assert_eq!(
            site.send(forged, address(2, 2)),
            Err("drop_foreign_source_ip")
        );
        site.switch.restart(pipeline()).unwrap();
        assert_eq!(site.send(forged, address(2, 2)), Err("drop_no_route"));
        controller.switch_restarted(&mut site).unwrap();
    }
}

#[test]
fn a_node_that_leaves_leaves_nothing_behind() {
    let (mut site, controller) = Addresses::new();
    controller.guard_sources(true);
    controller.install_hosts(&mut site).unwrap();
    let gone = address(1, 1);
    controller.remove_host(&mut site, NodeId(1));
    controller.remove_host(&mut site, NodeId(1));
    controller.remove_host(&mut site, NodeId(99));
    site.assert_gone(address(0, 0), gone);
    site.assert_reaches(address(0, 0), address(2, 2));
    // Another node takes its port and its addresses.
    site.nodes.remove(1);
    site.nodes.push((NodeId(7), gone));
    controller.install_host(&mut site, NodeId(7)).unwrap();
    site.assert_reaches(address(0, 0), gone);
}

#[test]
fn a_node_that_comes_back_elsewhere_is_found_there_only() {
    let (mut site, controller) = Addresses::new();
    controller.guard_sources(true);
    controller.install_hosts(&mut site).unwrap();
    let (old, new) = (address(1, 1), address(40, 9));
    site.nodes[1].1 = new;
    controller.install_host(&mut site, NodeId(1)).unwrap();
    controller.install_host(&mut site, NodeId(1)).unwrap();
    site.assert_reaches(address(0, 0), new);
    site.assert_gone(address(0, 0), old);
    site.assert_reaches(new, address(0, 0));
    assert_eq!(
        site.send(forged(new, old), address(0, 0)),
        Err("drop_foreign_source_ip")
    );
    // A node that the site no longer knows is removed, too.
    site.nodes.remove(1);
    controller.install_host(&mut site, NodeId(1)).unwrap();
    site.assert_gone(address(0, 0), new);
}

#[test]
fn nodes_may_change_places_with_each_other() {
    let (mut site, controller) = Addresses::new();
    controller.guard_sources(true);
    controller.install_hosts(&mut site).unwrap();
    site.nodes = vec![
        (NodeId(0), address(1, 0)),
        (NodeId(1), address(0, 1)),
        (NodeId(5), address(5, 5)),
    ];
    controller.install_hosts(&mut site).unwrap();
    site.assert_reaches(address(1, 0), address(0, 1));
    site.assert_reaches(address(0, 1), address(5, 5));
    site.assert_gone(address(0, 1), address(2, 2));
}

#[test]
fn an_address_that_is_taken_stays_with_its_owner() {
    let (mut site, controller) = Addresses::new();
    controller.guard_sources(true);
    controller.install_hosts(&mut site).unwrap();
    let owner = address(1, 1);
    let newcomer = address(8, 8);
    let mut refuse = |address| {
        site.nodes.push((NodeId(8), address));
        let error = controller.install_host(&mut site, NodeId(8)).unwrap_err();
        site.nodes.pop();
        error.to_string()
    };
    let same_ip = NodeAddress {
        ip: owner.ip,
        ..newcomer
    };
    let same_mac = NodeAddress {
        mac: owner.mac,
        ..newcomer
    };
    let same_port = NodeAddress {
        port: owner.port,
        ..newcomer
    };
    let switch = NodeAddress {
        ip: SWITCH.ip,
        ..newcomer
    };
    assert_eq!(
        refuse(same_ip),
        "table forward.routes: key 0xa000002 is taken; remove its entry first"
    );
    assert_eq!(
        refuse(same_mac),
        "table forward.hosts: key 0x20000000002 is taken; remove its entry first"
    );
    assert_eq!(
        refuse(same_port),
        "table guard.sources: key 0x1 is taken; remove its entry first"
    );
    assert!(refuse(switch).contains("key 0xa0000fe is taken"));
    site.assert_reaches(address(0, 0), owner);
    site.assert_reaches(owner, address(0, 0));
    site.assert_gone(address(0, 0), newcomer);
}

#[test]
fn a_node_for_which_there_is_no_room_has_no_entries_and_the_others_have_theirs() {
    let (mut site, controller) = Addresses::new();
    let nodes = (0..17).map(|node| (NodeId(node), address(node as u8, node % 16)));
    site.nodes = nodes.collect();
    let error = controller.install_hosts(&mut site).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table forward.hosts is full: it holds 16 entries"
    );
    site.assert_gone(address(0, 0), address(16, 0));
    site.assert_reaches(address(0, 0), address(15, 15));
    // Its guard is removed as well; otherwise it would block the next node at its port.
    controller.guard_sources(true);
    assert!(controller.install_host(&mut site, NodeId(16)).is_err());
    site.assert_reaches(address(0, 0), address(15, 15));
    controller.remove_host(&mut site, NodeId(3));
    controller.install_host(&mut site, NodeId(16)).unwrap();
    site.assert_reaches(address(1, 1), address(16, 0));
}
