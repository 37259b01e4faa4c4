//! Nodes, time, queue pairs.

use super::AMPLE;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::services::wait_within;
use rackweave_rack::{Node, Rack, RackError};
use rackweave_verbs::{
    Access, CompletionStatus, Operation, QpCapabilities, Region, Segment, WorkRequest,
};

pub fn are_found_by_name(rack: &Rack) {
    for (at, config) in rack.config().node.iter().enumerate() {
        let node = rack.node(&config.name).expect("it is here");
        assert_eq!((node.id(), node.name()), (NodeId(at as u16), &*config.name));
        assert!(rack.node_here(node.id()).is_some());
    }
    let RackError::NoNode { known, .. } = rack.node("nobody").expect_err("no such node") else {
        panic!("another error");
    };
    assert!(known.contains("compute0"), "{known}");
    assert!(rack.node_here(NodeId(99)).is_none());
}

pub fn a_wait_ends_when_it_should(rack: &Rack) {
    let node = rack.node("compute0").expect("it is here");
    let began = node.now();
    let limit = Duration::from_millis(3);
    assert_eq!(wait_within(&node, limit, || None::<()>), None);
    assert!(
        node.now().since(began) >= limit.into(),
        "it came back early"
    );
    let mut calls = 0;
    let came = wait_within(&node, AMPLE, || {
        calls += 1;
        (calls == 3).then_some(calls)
    });
    assert_eq!(came, Some(3));
}

/// A node's queue pair, and a region that others may write to.
fn end(rack: &Rack, node: &Node) -> (rackweave_base::Qpn, rackweave_verbs::CqId, Region) {
    let block = rack.memory().allocate(4096).expect("there is memory");
    node.with(|verbs| {
        let pd = verbs.create_pd();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = verbs.register(pd, block, access).expect("there is room");
        let cq = verbs.create_cq(4).expect("there is room");
        let capabilities = QpCapabilities {
            send_max: 4,
            receive_max: 1,
            segments_max: 1,
        };
        let qpn = verbs.create_qp(pd, cq, cq, capabilities);
        (qpn.expect("there is room"), cq, region)
    })
}

pub fn queue_pairs_are_connected(rack: &Rack) {
    let nodes = ["storage1", "compute1"].map(|name| rack.node(name).expect("it is here"));
    let [(near, cq, from), (far, _, to)] = [&nodes[0], &nodes[1]].map(|node| end(rack, node));
    let attributes = PairAttributes::default();
    let ends = ((nodes[0].id(), near), (nodes[1].id(), far));
    rack.connect(ends.0, ends.1, &attributes)
        .expect("both are there");
    from.block.write(0, b"one-sided");
    let segment = Segment {
        address: from.address,
        length: 9,
        lkey: from.lkey,
    };
    let write = WorkRequest::new(
        1,
        Operation::Write {
            address: to.address,
            rkey: to.rkey,
            immediate: None,
        },
        &[segment],
    );
    nodes[0].with(|verbs| verbs.post_send(near, write).expect("there is room"));
    let mut completions = Vec::new();
    let came = wait_within(&nodes[0], AMPLE, || {
        nodes[0].poll(|verbs| verbs.poll_cq(cq, 1, &mut completions));
        completions.pop()
    });
    assert_eq!(came.map(|it| it.status), Some(CompletionStatus::Success));
    assert_eq!(to.block.bytes(0, 9), *b"one-sided");
    let nobody = rack.connect((NodeId(99), near), ends.1, &attributes);
    assert!(nobody.is_err(), "there is no such node");
}
