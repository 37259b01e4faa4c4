//! Several switches in virtual time: all nodes reach each other, with the modelled costs, despite
//! faults of cables and restarts of any switch.

use super::tests::{ItemSource, Sink};
use super::*;
use crate::config::{FaultSection, TopologyName};
use crate::mesh_tests::{Mesh, config};
use core::cell::Cell;
use rackweave_base::{Duration, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_sim::LinkModel;
use rackweave_sim::world::{Context, Step};
use rackweave_verbs::{Access, Operation, QpCapabilities, Verbs, WorkRequest};
use std::rc::Rc;

const TOPOLOGIES: [(TopologyName, usize); 3] = [
    (TopologyName::One, 4),
    (TopologyName::Two, 5),
    (TopologyName::FatTree, 16),
];

const BAD: FaultSection = FaultSection {
    loss: 0.005,
    duplicate: 0.005,
    reorder: 0.005,
    corrupt: 0.005,
    reorder_delay_us: 5,
};

fn impatient() -> PairAttributes {
    PairAttributes {
        timeout: Duration::from_micros(500),
        ..PairAttributes::default()
    }
}

#[test]
fn every_node_reaches_every_other() {
    for (topology, nodes) in TOPOLOGIES {
        let rack = SimulatedRack::new(&config(topology, nodes)).unwrap();
        let mut mesh = Mesh::new(&rack, nodes, &impatient());
        mesh.round(&rack);
        // Nothing was lost; otherwise retries would hide an error.
        for at in 0..rack.topology().switches() {
            let switch = rack.switch_at(at).unwrap();
            let counters = switch.counters();
            assert_eq!(counters.packets_in, counters.packets_out, "switch {at}");
        }
    }
}

#[test]
fn every_node_reaches_every_other_over_bad_links_and_a_seed_repeats_its_run() {
    for (topology, nodes) in TOPOLOGIES {
        let run = |seed| {
            let mut config = config(topology, nodes);
            config.faults = BAD;
            config.seed = seed;
            let rack = SimulatedRack::new(&config).unwrap();
            let mut mesh = Mesh::new(&rack, nodes, &impatient());
            mesh.round(&rack);
            let cables = 0..rack.topology().cables().count();
            let faults = cables.filter_map(|at| rack.cable_report(at)).flatten();
            let disturbed = faults.map(|way| {
                let faults = way.faults;
                faults.lost + faults.duplicated + faults.reordered + faults.corrupted
            });
            (rack.trace_hash(), disturbed.sum::<u64>())
        };
        let (hash, disturbed) = run(11);
        assert_eq!(run(11).0, hash, "the same seed gives the same trace");
        assert_ne!(run(12).0, hash);
        assert!(
            topology == TopologyName::One || disturbed > 0,
            "the cables did nothing"
        );
    }
}

/// Posts one READ of eight bytes and records its completion time.
struct Once {
    qpn: Qpn,
    cq: rackweave_verbs::CqId,
    request: Option<WorkRequest>,
    done: Rc<Cell<Option<Instant>>>,
}

impl Actor for Once {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(request) = self.request.take() {
            context.nic().post_send(self.qpn, request).unwrap();
        }
        let mut done = Vec::new();
        if context.nic().poll_cq(self.cq, 1, &mut done) == 0 {
            return Step::WaitForPacket;
        }
        self.done.set(Some(context.now()));
        Step::Done
    }
}

/// Duration of a READ of eight bytes from one node to another in an idle rack.
fn read_latency(rack: &mut SimulatedRack, from: NodeId, to: NodeId) -> Duration {
    let make = |node| {
        let block = rack.memory().allocate(64).unwrap();
        rack.node_at(node).with(|nic| {
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all()).unwrap();
            let cq = nic.create_cq(4).unwrap();
            let qpn = nic
                .create_qp(pd, cq, cq, QpCapabilities::default())
                .unwrap();
            (region, cq, qpn)
        })
    };
    let (near, cq, qpn) = make(from);
    let (far, _, far_qpn) = make(to);
    rack.connect((from, qpn), (to, far_qpn), &impatient())
        .unwrap();
    let read = Operation::Read {
        address: far.address,
        rkey: far.rkey,
    };
    let done = Rc::new(Cell::new(None));
    let started = rack.now();
    let actor = Once {
        qpn,
        cq,
        request: Some(WorkRequest::new(0, read, &[near.segment(0, 8)])),
        done: done.clone(),
    };
    rack.spawn(from, Box::new(actor));
    assert_eq!(rack.run(started + Duration::from_millis(1)), RunEnd::Done);
    done.get().unwrap().since(started)
}

#[test]
fn every_switch_more_costs_a_pass_and_a_cable_each_way() {
    let mut rack = SimulatedRack::new(&config(TopologyName::FatTree, 16)).unwrap();
    let of = |rack: &mut SimulatedRack, to| read_latency(rack, NodeId(0), NodeId(to)).as_nanos();
    let (near, pod, far) = (of(&mut rack, 1), of(&mut rack, 2), of(&mut rack, 15));
    let link = LinkModel::default();
    // Ethernet, IPv4, UDP, BTH and ICRC; a RETH, or an AETH and eight bytes.
    let bytes = 14 + 20 + 8 + 12 + 4;
    let wires = (link.occupancy(bytes + 16) + link.occupancy(bytes + 4 + 8)) / 1000;
    let pass = rackweave_sim::world::SwitchModel::default().pipeline_latency;
    let hop = wires + 2 * (pass + link.propagation).as_nanos();
    for (latency, switches_more) in [(pod, 2), (far, 4)] {
        let expected = near + switches_more * hop;
        // Every arrival is rounded up to a nanosecond.
        let range = expected..=expected + 2 * (1 + switches_more);
        assert!(range.contains(&latency), "{latency} is not {expected}");
    }
}

#[test]
fn any_switch_may_restart_while_packets_are_under_way() {
    for (topology, nodes) in TOPOLOGIES {
        let mut rack = SimulatedRack::new(&config(topology, nodes)).unwrap();
        let mut mesh = Mesh::new(&rack, nodes, &impatient());
        for at in 0..rack.topology().switches() {
            mesh.post(&rack);
            rack.run(rack.now() + Duration::from_micros(3));
            assert!(rack.restart_switch_at(at).unwrap());
            mesh.finish(&rack);
        }
        let beyond = rack.topology().switches();
        assert!(!rack.restart_switch_at(beyond).unwrap());
    }
}

#[test]
fn queries_still_go_up_through_a_switch_that_has_restarted() {
    for (topology, nodes) in TOPOLOGIES {
        let mut config = config(topology, nodes);
        let switch = &mut config.switch;
        (switch.consumer_rings, switch.producer_rings) = (0, 0);
        (switch.index_servers, switch.index_queries) = (2, 4);
        switch.index_fat_ranges = 4;
        let rack = SimulatedRack::new(&config).unwrap();
        for at in 0..rack.topology().switches() {
            let up = |rack: &SimulatedRack| {
                let switch = rack.switch_at(at).expect("there is one");
                switch.program().index.up_port()
            };
            let before = up(&rack);
            assert_eq!(before, rack.topology().up(at));
            assert!(rack.restart_switch_at(at).unwrap());
            assert_eq!(up(&rack), before, "{topology:?}, switch {at}");
        }
    }
}

#[test]
fn a_cut_cable_parts_two_sides_until_it_is_mended() {
    let mut rack = SimulatedRack::new(&config(TopologyName::Two, 2)).unwrap();
    let mut mesh = Mesh::new(&rack, 2, &impatient());
    mesh.round(&rack);
    let before = rack.cable_report(0).unwrap();
    assert!(rack.set_cable_down(0, true) && !rack.set_cable_down(1, true));
    mesh.post(&rack);
    rack.run(rack.now() + Duration::from_micros(400));
    let cut = rack.cable_report(0).unwrap();
    for (cut, before) in cut.iter().zip(&before) {
        assert_eq!(
            cut.link.packets, before.link.packets,
            "something came through"
        );
    }
    rack.set_cable_down(0, false);
    mesh.finish(&rack);
}

/// Lanes end at switch 0, so packets of flows pass the cables.
#[test]
fn flows_go_over_cables_and_outlive_the_restart_of_any_switch() {
    for (topology, nodes) in TOPOLOGIES {
        let mut config = config(topology, nodes);
        config.faults = BAD;
        let mut rack = SimulatedRack::new(&config).unwrap();
        let (source, target) = (NodeId(0), NodeId(nodes as u16 - 1));
        let flow = rack
            .flow(&[source], &[target])
            .item_bytes(1024)
            .ring_bytes(64 << 10)
            .build()
            .unwrap();
        let seen = Rc::default();
        let items = 2000;
        let producer = flow.take_producer(0).unwrap();
        rack.spawn(source, Box::new(ItemSource(producer, items)));
        let sink = Sink(flow.take_consumer(0).unwrap(), Rc::clone(&seen));
        rack.spawn(target, Box::new(sink));
        for at in 0..rack.topology().switches() {
            let end = rack.run(rack.now() + Duration::from_micros(30));
            assert_eq!(
                end,
                RunEnd::Deadline,
                "over before switch {at} has restarted"
            );
            assert!(rack.restart_switch_at(at).unwrap());
        }
        let end = rack.run(Instant::from_nanos(1_000_000_000));
        assert_eq!(end, RunEnd::Done, "{:?}", flow.state());
        assert_eq!(*seen.borrow(), (1..=items).rev().collect::<Vec<_>>());
    }
}
