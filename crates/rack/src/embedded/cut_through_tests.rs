//! When requests from node to node are executed without packets.

use super::*;
use crate::address::Address;
use crate::config::CheckPolicy;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::wait_until;
use rackweave_switch::Direction;
use rackweave_verbs::{
    Access, CompletionStatus, CqId, Operation, QpCapabilities, Region, WorkRequest,
};

/// One end of a connection.
struct End {
    node: NodeId,
    region: Region,
    cq: CqId,
    qpn: rackweave_base::Qpn,
}

fn rack(change: impl FnOnce(&mut RackConfig)) -> EmbeddedRack {
    let mut config = RackConfig {
        driver_threads: 0,
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    change(&mut config);
    EmbeddedRack::new(&config).unwrap()
}

fn connected(rack: &EmbeddedRack, nodes: [u16; 2]) -> [End; 2] {
    let ends = nodes.map(|at| {
        let node = NodeId(at);
        let block = rack.memory().allocate(4096).unwrap();
        rack.node_at(node).with(|nic| {
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all()).unwrap();
            let cq = nic.create_cq(64).unwrap();
            let capabilities = QpCapabilities::default();
            let qpn = nic.create_qp(pd, cq, cq, capabilities).unwrap();
            End {
                node,
                region,
                cq,
                qpn,
            }
        })
    });
    let [near, far] = &ends;
    let pair = ((near.node, near.qpn), (far.node, far.qpn));
    rack.connect(pair.0, pair.1, &PairAttributes::default())
        .unwrap();
    ends
}

/// Adds one to a word of the peer, and waits for the result.
fn add(rack: &EmbeddedRack, near: &End, far: &End) -> u64 {
    let operation = Operation::FetchAdd {
        address: far.region.address,
        rkey: far.region.rkey,
        add: 1,
    };
    let request = WorkRequest::new(1, operation, &[near.region.segment(8, 8)]);
    let node = rack.node_at(near.node);
    node.with(|nic| nic.post_send(near.qpn, request)).unwrap();
    let completion = wait_until(&node, || {
        let mut completions = Vec::new();
        node.poll(|nic| nic.poll_cq(near.cq, 1, &mut completions));
        completions.pop()
    });
    assert_eq!(completion.status, CompletionStatus::Success);
    let mut result = [0; 8];
    near.region.block.read(8, &mut result);
    u64::from_ne_bytes(result)
}

/// What a node has sent: requests by cut-through, and packets.
fn sent(rack: &EmbeddedRack, node: u16) -> (u64, u64) {
    rack.with_nic(NodeId(node), |nic| {
        let counters = nic.counters();
        (counters.cut_through_requests, counters.sent_pkts)
    })
}

#[test]
fn requests_cut_through_by_default() {
    let rack = rack(|_| {});
    let [near, far] = connected(&rack, [0, 3]);
    assert_eq!([add(&rack, &near, &far), add(&rack, &near, &far)], [0, 1]);
    assert_eq!((sent(&rack, 0), sent(&rack, 3)), ((2, 0), (0, 0)));
    assert_eq!(rack.switch_counters().packets_in, 0);
}

#[test]
fn the_configuration_can_have_all_of_them_sent() {
    let rack = rack(|config| config.link.cut_through = false);
    let [near, far] = connected(&rack, [0, 3]);
    add(&rack, &near, &far);
    assert_eq!((sent(&rack, 0), sent(&rack, 3)), ((0, 1), (0, 1)));
}

#[test]
fn requests_are_sent_where_links_have_faults_or_packets_a_check() {
    let changes: [fn(&mut RackConfig); 3] = [
        |config| config.faults.reorder = 0.01,
        |config| config.node[1].faults.duplicate = Some(0.01),
        |config| config.link.icrc = CheckPolicy::Always,
    ];
    for change in changes {
        let rack = rack(change);
        let [near, far] = connected(&rack, [0, 3]);
        add(&rack, &near, &far);
        assert_eq!(sent(&rack, 0).0, 0);
    }
}

#[test]
fn a_tap_sees_packets() {
    struct Nobody;
    impl Tap for Nobody {
        fn packet(
            &mut self,
            _: rackweave_base::Instant,
            _: rackweave_base::PortId,
            _: Direction,
            _: &rackweave_base::Packet,
            _: Option<&'static str>,
        ) {
        }
    }
    let rack = rack(|_| {});
    let [near, far] = connected(&rack, [0, 3]);
    add(&rack, &near, &far);
    rack.set_tap(Some(Box::new(Nobody)));
    add(&rack, &near, &far);
    assert_eq!(sent(&rack, 0), (1, 1));
    rack.set_tap(None);
    assert_eq!(add(&rack, &near, &far), 2);
    assert_eq!(sent(&rack, 0), (2, 1));
}

#[test]
fn nothing_passes_a_switch_that_forwards_nothing() {
    let rack = rack(|_| {});
    let [near, far] = connected(&rack, [0, 3]);
    let mac = Address::of_node(far.node).mac;
    let removed = |rack: &EmbeddedRack| {
        rack.with_switch_at(0, |switch| switch.program_mut().forward.remove_host(mac))
    };
    assert_eq!(removed(&rack), Some(true));
    let operation = Operation::Read {
        address: far.region.address,
        rkey: far.region.rkey,
    };
    let request = WorkRequest::new(1, operation, &[near.region.segment(8, 8)]);
    let node = rack.node_at(near.node);
    node.with(|nic| nic.post_send(near.qpn, request)).unwrap();
    while node.drive() {}
    assert_eq!(sent(&rack, 0), (0, 1));
    // A restarted switch forwards again. What was lost is sent again, and what follows cuts
    // through.
    rack.restart_switch().unwrap();
    wait_until(&node, || {
        let mut completions = Vec::new();
        node.poll(|nic| nic.poll_cq(near.cq, 1, &mut completions));
        completions.pop()
    });
    assert_eq!(add(&rack, &near, &far), 0);
    assert_eq!(sent(&rack, 0).0, 1);
}

/// Two threads post to each other's nodes, and each needs the lock of both.
#[test]
fn threads_that_want_each_others_nodes_go_on() {
    const TIMES: u64 = 20_000;
    for driver_threads in [0, 1] {
        let rack = rack(|config| config.driver_threads = driver_threads);
        let (there, back) = (connected(&rack, [0, 3]), connected(&rack, [3, 0]));
        std::thread::scope(|scope| {
            for [near, far] in [&there, &back] {
                let rack = &rack;
                scope.spawn(move || {
                    for count in 0..TIMES {
                        assert_eq!(add(rack, near, far), count);
                    }
                });
            }
        });
        assert_eq!((sent(&rack, 0), sent(&rack, 3)), ((TIMES, 0), (TIMES, 0)));
    }
}
