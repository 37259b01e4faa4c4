//! Flows, and processes that die while they run.

use super::*;

fn items_pass(link: LinkKind) {
    let rack = Rack::new(link.name(), link);
    rack.run(|_| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        let status = client.wait_for_nodes(Time::from_secs(10)).unwrap();
        assert!(status.nodes.iter().all(|node| node.mtu == Some(4096)));
        for count in [0, 1000] {
            run_flow(&mut client, count);
        }
        let counters = client.node_counters(NodeId(1)).unwrap();
        assert!(counters["rcvd_pkts"] > 1000 || link == LinkKind::SharedMemory);
        assert_eq!(client.status().unwrap().lanes_used, 0);
    });
}

#[test]
fn items_pass_through_shared_memory() {
    items_pass(LinkKind::SharedMemory);
}

#[test]
fn items_pass_through_unix_datagrams() {
    items_pass(LinkKind::Unix);
}

#[test]
fn items_pass_through_udp() {
    items_pass(LinkKind::Udp);
}

/// An endless flow with its jobs.
pub fn endless(rack: &mut HostedRack) -> (HostedFlow, [(NodeId, u64); 2]) {
    let flow = rack
        .create_flow(&[NodeId(0)], &[NodeId(1)], ITEM as u32, 256 << 10)
        .unwrap();
    let count = u64::MAX;
    let consume = json!({ "rings": [flow.consumers[0]], "count": count });
    let produce = json!({ "rings": flow.of_producer(0), "count": count });
    let jobs = [
        (
            NodeId(1),
            rack.start_job(NodeId(1), "consume", consume).unwrap(),
        ),
        (
            NodeId(0),
            rack.start_job(NodeId(0), "produce", produce).unwrap(),
        ),
    ];
    let (node, job) = jobs[0];
    eventually(
        "no item arrives",
        || matches!(rack.poll_job(node, job).unwrap(), JobStatus::Running { done } if done > 10),
    );
    (flow, jobs)
}

fn broken_off() -> JobStatus {
    let error = "the flow was broken off".into();
    JobStatus::Failed { error }
}

#[test]
fn a_node_that_dies_takes_its_flows_along_and_can_come_back() {
    let rack = Rack::new("dies", LinkKind::SharedMemory);
    while_running(run_switch(&rack), || {
        while_running(run_node(&rack, "a"), || {
            let mut client = HostedRack::connect(&rack.config).unwrap();
            let (flow, jobs) = while_running(run_node(&rack, "b"), || {
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                endless(&mut client)
            });
            eventually(
                "the death is noticed",
                || matches!(client.flow_status(flow.id).unwrap(), FlowStatus::Aborted { reason } if reason == "b has died"),
            );
            let (node, job) = jobs[1];
            eventually("the producer is told", || {
                client.poll_job(node, job).unwrap() == broken_off()
            });
            let error = client
                .poll_job(jobs[0].0, jobs[0].1)
                .unwrap_err()
                .to_string();
            assert!(error.contains("b has not joined or has died"), "{error}");
            while_running(run_node(&rack, "b"), || {
                let status = client.wait_for_nodes(Time::from_secs(10)).unwrap();
                assert_eq!(status.nodes[1].joins, 2);
                run_flow(&mut client, 500);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_node_whose_connection_was_cut_breaks_its_flows_off_when_it_is_back() {
    let rack = Rack::new("cut", LinkKind::SharedMemory);
    while_running(run_node(&rack, "b"), || {
        let node = rack.node("a").unwrap();
        let core = node.core.clone();
        let run = |stop: &AtomicBool| node.run(stop, &|event| println!("a: {event:?}")).unwrap();
        while_running(run, || {
            let switch = rack.switch();
            let switch_core = switch.core.clone();
            let run = |stop: &AtomicBool| switch.run(stop, &|event| println!("switch: {event:?}"));
            while_running(run, || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                let (flow, jobs) = endless(&mut client);
                switch_core.member(NodeId(0)).unwrap().cut();
                eventually("the node is back", || {
                    let status = client.status().unwrap();
                    status.nodes[0].joined && status.nodes[0].joins == 2
                });
                let status = client.flow_status(flow.id).unwrap();
                assert!(matches!(status, FlowStatus::Aborted { .. }), "{status:?}");
                for (node, job) in jobs {
                    eventually("both ends are told", || {
                        client.poll_job(node, job).unwrap() == broken_off()
                    });
                }
                assert!(core.regions.list().is_empty(), "the rings are gone");
                run_flow(&mut client, 100);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn nodes_outlive_the_switch_and_join_again() {
    let rack = Rack::new("outlives", LinkKind::Unix);
    while_running(run_node(&rack, "a"), || {
        while_running(run_node(&rack, "b"), || {
            let mut client = while_running(run_switch(&rack), || {
                eventually("the switch is up", || {
                    HostedRack::connect(&rack.config).is_ok()
                });
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                endless(&mut client);
                client
            });
            assert!(client.status().is_err(), "the switch has gone");
            while_running(run_switch(&rack), || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                run_flow(&mut client, 500);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_command_that_goes_leaves_nothing_behind() {
    let rack = Rack::new("leaves", LinkKind::SharedMemory);
    rack.run(|_| {
        let mut other = HostedRack::connect(&rack.config).unwrap();
        other.wait_for_nodes(Time::from_secs(10)).unwrap();
        {
            let mut client = HostedRack::connect(&rack.config).unwrap();
            endless(&mut client);
            assert!(other.status().unwrap().lanes_used > 0);
        }
        eventually("the flow is closed", || {
            other.status().unwrap().lanes_used == 0
        });
    });
}
