//! Faults of one node's link affect that link alone.

use super::*;
use crate::config::NodeFaults;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::wait_until;
use rackweave_verbs::{Access, CompletionStatus, Operation, QpCapabilities, WorkRequest};

/// READs, one after another, by `near` from `far`.
fn read(rack: &EmbeddedRack, near: NodeId, far: NodeId, times: u32) {
    let end = |node: NodeId| {
        let block = rack.memory().allocate(4096).unwrap();
        rack.node_at(node).with(|nic| {
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all()).unwrap();
            let cq = nic.create_cq(16).unwrap();
            let capabilities = QpCapabilities::default();
            let qpn = nic.create_qp(pd, cq, cq, capabilities).unwrap();
            (region, cq, qpn)
        })
    };
    let ((near_region, cq, near_qp), (far_region, _, far_qp)) = (end(near), end(far));
    let attributes = PairAttributes::default();
    rack.connect((near, near_qp), (far, far_qp), &attributes)
        .unwrap();
    let (node, progress) = (rack.node_at(near), rack.progress());
    for id in 0..u64::from(times) {
        let operation = Operation::Read {
            address: far_region.address,
            rkey: far_region.rkey,
        };
        let request = WorkRequest::new(id, operation, &[near_region.segment(0, 64)]);
        node.with(|nic| nic.post_send(near_qp, request)).unwrap();
        let completion = wait_until(&*progress, || {
            let mut completions = Vec::new();
            node.poll(|nic| nic.poll_cq(cq, 1, &mut completions));
            completions.pop()
        });
        let ended = (completion.id, completion.status);
        assert_eq!(ended, (id, CompletionStatus::Success));
    }
}

/// Requests that arrived twice at a node.
fn doubled(rack: &EmbeddedRack, node: u16) -> u64 {
    rack.with_nic(NodeId(node), |nic| nic.counters().duplicate_request)
}

/// Of two pairs of nodes, packets to one node of one pair are duplicated.
#[test]
fn a_fault_on_one_link_befalls_that_link() {
    let mut config = RackConfig {
        driver_threads: 0,
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    config.node[3].faults.duplicate = Some(0.5);
    let rack = EmbeddedRack::new(&config).unwrap();
    read(&rack, NodeId(0), NodeId(2), 64);
    read(&rack, NodeId(1), NodeId(3), 64);
    let all: Vec<u64> = (0..4).map(|node| doubled(&rack, node)).collect();
    assert_eq!(all[..3], [0, 0, 0]);
    assert!(all[3] > 0, "half of 64 requests come twice");
}

/// A node's own settings override those of all nodes.
#[test]
fn a_link_may_be_better_than_all_others() {
    let mut config = RackConfig {
        driver_threads: 0,
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    config.faults.duplicate = 0.5;
    config.node[3].faults = NodeFaults {
        duplicate: Some(0.0),
        ..NodeFaults::default()
    };
    config.node[1].faults = config.node[3].faults;
    let rack = EmbeddedRack::new(&config).unwrap();
    read(&rack, NodeId(0), NodeId(2), 64);
    read(&rack, NodeId(1), NodeId(3), 64);
    assert!(doubled(&rack, 2) > 0);
    assert_eq!(doubled(&rack, 3), 0);
}
