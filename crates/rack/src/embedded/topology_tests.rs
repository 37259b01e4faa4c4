//! Several switches in this process.

use super::*;
use crate::config::{FaultSection, TopologyName};
use crate::mesh_tests::{Mesh, config};
use rackweave_controller::connect::PairAttributes;
use rackweave_switch::DropReason;

const TOPOLOGIES: [(TopologyName, usize); 3] = [
    (TopologyName::One, 3),
    (TopologyName::Two, 4),
    (TopologyName::FatTree, 9),
];

#[test]
fn every_node_reaches_every_other() {
    for (topology, nodes) in TOPOLOGIES {
        for (driver_threads, cut_through) in [(0, false), (1, false), (0, true), (1, true)] {
            let mut config = config(topology, nodes);
            config.driver_threads = driver_threads;
            config.link.cut_through = cut_through;
            let rack = EmbeddedRack::new(&config).unwrap();
            let mut mesh = Mesh::new(&rack, nodes, &PairAttributes::default());
            mesh.round(&rack);
            mesh.round(&rack);
        }
    }
}

#[test]
fn every_node_reaches_every_other_over_bad_links() {
    for (topology, nodes) in TOPOLOGIES {
        let mut config = config(topology, nodes);
        config.faults = FaultSection {
            loss: 0.003,
            duplicate: 0.003,
            reorder: 0.003,
            corrupt: 0.003,
            ..FaultSection::default()
        };
        let rack = EmbeddedRack::new(&config).unwrap();
        let attributes = PairAttributes {
            timeout: rackweave_base::Duration::from_millis(4),
            ..PairAttributes::default()
        };
        Mesh::new(&rack, nodes, &attributes).round(&rack);
    }
}

#[test]
fn any_switch_may_restart_while_packets_are_under_way() {
    for (topology, nodes) in TOPOLOGIES {
        let rack = EmbeddedRack::new(&config(topology, nodes)).unwrap();
        let attributes = PairAttributes {
            timeout: rackweave_base::Duration::from_millis(4),
            ..PairAttributes::default()
        };
        let mut mesh = Mesh::new(&rack, nodes, &attributes);
        for at in 0..rack.topology().switches() {
            mesh.post(&rack);
            rack.progress().drive();
            assert!(rack.restart_switch_at(at).unwrap());
            mesh.finish(&rack);
        }
        assert!(!rack.restart_switch_at(99).unwrap());
    }
}

/// Queues are so short that each side fills its cable while the other does the same: the two sides
/// never wait for each other, and nothing is dropped.
#[test]
fn a_full_cable_keeps_senders_waiting_and_drops_nothing() {
    for (topology, nodes) in TOPOLOGIES {
        let mut config = config(topology, nodes);
        config.switch.egress_packets = 64;
        config.link.packets = 16;
        // Every fragment is a packet of its own.
        config.link.icrc = crate::config::CheckPolicy::Always;
        config.nic.mtu = 256;
        let rack = EmbeddedRack::new(&config).unwrap();
        let attributes = PairAttributes {
            mtu: rackweave_verbs::Mtu::B256,
            timeout: rackweave_base::Duration::from_secs(60),
            ..PairAttributes::default()
        };
        let mut mesh = Mesh::new(&rack, nodes, &attributes);
        mesh.round(&rack);
        for at in 0..rack.topology().switches() {
            let full =
                |switch: &mut Switch<Pipeline>| switch.counters().drops(DropReason::EgressFull);
            assert_eq!(rack.with_switch_at(at, full), Some(0), "switch {at}");
        }
    }
}
