//! Ports and cables that accept nothing.

use super::*;
use crate::RackConfig;
use crate::address::Address;
use crate::build::{self, Kind};
use rackweave_base::{Psn, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_link::in_process::{self, InProcess};
use rackweave_switch::SwitchConfig;
use rackweave_verbs::{Operation, Peer, QpCapabilities, Verbs, WorkRequest};

/// Whether a port that was found full at time zero still blocks others after the last of these
/// runs, in milliseconds.
fn blocks_after(runs: impl IntoIterator<Item = u64>) -> bool {
    let config = RackConfig::default();
    let parts = build::build(&config, Kind::Embedded, SwitchConfig::default());
    let mut parts = parts.expect("the default can be built");
    let (link, _peer) = in_process::pair(4);
    let mut linked = LinkedSwitch {
        switch: parts.switches.remove(0),
        links: vec![Box::new(link)],
        arrivals: Arrivals::Anywhere,
        up: None,
        // Every queue is at its limit.
        egress_high: 0,
        stuck_since: Default::default(),
        ran: Instant::ZERO,
    };
    let mut now = Instant::ZERO;
    linked.run(now);
    for millis in runs {
        now = Instant::ZERO + Duration::from_millis(millis);
        linked.run(now);
    }
    linked.is_blocked(now, PortId(0))
}

#[test]
fn a_stuck_port_blocks_others_for_a_limited_time() {
    assert!(blocks_after(1..20));
    assert!(!blocks_after(1..22));
    // Between naps of waiting threads, too.
    assert!(!blocks_after((0..24).step_by(2)));
}

#[test]
fn a_pause_of_the_process_is_no_stuck_port() {
    assert!(blocks_after([100]));
    // But not for ever, if it runs rarely.
    assert!(!blocks_after([100, 200, 300, 400]));
}

/// A node with a cable to the switch and a direct one to node 1, which holds four packets, and
/// their other ends.
struct Cabled {
    node: LinkedNode,
    qpn: Qpn,
    switch: InProcess,
    peer: Option<InProcess>,
}

impl Cabled {
    fn new() -> Self {
        let config = RackConfig::default();
        let parts = build::build(&config, Kind::Embedded, SwitchConfig::default());
        let mut nic = parts.expect("the default can be built").nics.remove(0);
        nic.allow_direct_cables();
        let address = Address::of_node(NodeId(1));
        let pd = nic.create_pd();
        let cq = nic.create_cq(64).unwrap();
        let qpn = nic.create_qp(pd, cq, cq, QpCapabilities::default());
        let qpn = qpn.unwrap();
        let peer = Peer {
            mac: address.mac,
            ip: address.ip,
            qpn: Qpn(1),
        };
        for step in PairAttributes::default().steps(peer, Psn::new(0), Psn::new(0)) {
            nic.modify_qp(qpn, step).unwrap();
        }
        let [(link, switch), (direct, peer)] = [64, 4].map(in_process::pair);
        let mut node = LinkedNode {
            nic,
            link: Box::new(link),
            direct: Vec::new(),
            target: None,
            dead: false,
            has_more: false,
        };
        let cable = DirectCable::new(NodeId(1), Box::new(direct));
        node.connect_directly(cable, address.ip);
        Self {
            node,
            qpn,
            switch,
            peer: Some(peer),
        }
    }

    /// Posts messages, and runs at this time.
    fn send(&mut self, messages: u64, millis: u64) {
        for id in 0..messages {
            let send = WorkRequest::new(id, Operation::Send { immediate: None }, &[]);
            self.node.nic.post_send(self.qpn, send).unwrap();
        }
        self.node.run(Instant::ZERO + Duration::from_millis(millis));
    }
}

/// Takes all packets that have arrived.
fn taken(link: &mut InProcess) -> usize {
    core::iter::from_fn(|| link.receive(Instant::ZERO)).count()
}

#[test]
fn packets_wait_for_a_full_cable_for_a_limited_time() {
    let mut cabled = Cabled::new();
    cabled.send(6, 1);
    let mut peer = cabled.peer.take().unwrap();
    assert_eq!(taken(&mut peer), 4);
    cabled.send(0, 2);
    assert_eq!(taken(&mut peer), 2, "none is lost");
    // Longer than ports of switches wait: what does not fit is lost, and resent later.
    cabled.send(6, 3);
    assert!(
        cabled
            .node
            .direct_cable(CableId(1))
            .unwrap()
            .is_blocked(Instant::ZERO)
    );
    cabled.send(0, 24);
    assert_eq!(taken(&mut peer), 4);
    assert_eq!(taken(&mut cabled.switch), 0);
    let resent = (25..200).map(|millis| {
        cabled.send(0, millis);
        taken(&mut peer)
    });
    assert!(resent.sum::<usize>() > 0);
}

#[test]
fn a_cable_without_its_other_end_is_left_for_the_switch() {
    let mut cabled = Cabled::new();
    drop(cabled.peer.take());
    cabled.send(0, 1);
    assert!(cabled.node.direct.iter().all(Option::is_none));
    cabled.send(2, 2);
    assert_eq!(taken(&mut cabled.switch), 2);
}

#[test]
fn queue_pairs_without_a_cable_wait_while_the_switch_is_unplugged() {
    let mut cabled = Cabled::new();
    cabled.node.nic.set_unplugged(true);
    cabled.send(1, 1);
    let peer = cabled.peer.as_mut().unwrap();
    assert_eq!(taken(peer), 1, "the cable carries it");
    // The other end is cut before it has acknowledged anything.
    cabled.peer = None;
    let hours = 3_600_000;
    for round in 0..40 {
        cabled.send(0, 2 + round * hours);
        assert_eq!(taken(&mut cabled.switch), 0);
    }
    cabled.node.nic.set_unplugged(false);
    cabled.send(0, 41 * hours);
    assert_eq!(taken(&mut cabled.switch), 1, "it has not given up");
}
