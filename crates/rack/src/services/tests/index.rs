//! Index services.

use super::{COMPUTE, rack, rack_with};
use crate::services::{
    CallError, IndexOptions, IndexService, IndexServiceError, TIME_LIMIT, wait_within,
};
use crate::testing::Faults;
use crate::{IndexNetworkSpec, RackConfig, SimulatedRack};
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::index::{AdapterConfig, PlanLimits};
use rackweave_endpoint::index::{
    Access, Answer, CoordinatorConfig, EndpointId, IndexError, Op, RebalanceConfig,
};
use std::time::Instant;

fn value(key: u64) -> Vec<u8> {
    format!("the value of {key}").into_bytes()
}

#[test]
fn operations_travel_together_and_their_answers_come_in_any_order() {
    let index = IndexService::new(&rack(), &IndexOptions::default()).expect("there is room");
    let mut client = index
        .connect(COMPUTE[0], Access::Rpc)
        .expect("there is room");
    let mut begun: Vec<_> = (0..8u64)
        .map(|key| {
            let value = value(key);
            client
                .begin(&Op::Put { key, value: &value })
                .expect("there is room")
        })
        .collect();
    let given_up = begun.remove(3);
    client.abandon(given_up);
    // A blocking call does not consume the replies to other operations.
    assert_eq!(client.get(1 << 40), Ok(None));
    while !begun.is_empty() {
        if let Some(reply) = client.poll() {
            assert!(reply.result.is_ok(), "{reply:?}");
            let at = begun.iter().position(|ticket| *ticket == reply.ticket);
            begun.swap_remove(at.expect("it was begun, and not given up"));
        }
        index.rack().any_node().drive();
    }
    assert_eq!(client.get(3), Ok(Some(value(3)[..].into())));
}

#[test]
fn switches_lead_reads_down_a_loaded_tree() {
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack(), &options).expect("there is room");
    index
        .load((0..20_000).map(|key| (key * 3, value(key))))
        .expect("it is empty");
    let summary = index.load_network(TIME_LIMIT).expect("the switch has room");
    assert!(summary.targets > 0, "{summary:?}");
    let again = index
        .load_network(TIME_LIMIT)
        .expect("the one before is retired first");
    assert_eq!(again.loads, 2);
    let node = COMPUTE[1];
    let mut client = index
        .connect(node, Access::InNetwork)
        .expect("there is room");
    for key in (0..20_000).step_by(997) {
        assert_eq!(client.get(key * 3), Ok(Some(value(key)[..].into())));
        assert_eq!(client.get(key * 3 + 1), Ok(None));
    }
    let counters = index.network_counters().expect("it is in the network");
    let deep: u64 = counters.by_depth[1..].iter().sum();
    assert!(deep > 0, "no query was led below the root: {counters:?}");
}

/// On a node that has restarted, queue pairs have the same numbers again.
#[test]
fn what_an_endpoint_gave_before_it_restarted_is_not_taken_from_others() {
    let mut rack = SimulatedRack::new(&RackConfig::with_all_programs()).expect("it makes sense");
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack, &options).expect("there is room");
    let before = index.connect(COMPUTE[0], Access::InNetwork);
    let before = before.expect("there is room");
    let (host, endpoint) = (index.index().spec().endpoints[0].node, EndpointId(0));
    index.kill(endpoint);
    rack.crash_node_silently(host);
    assert!(rack.revive_node(host), "it was dead");
    index.restart(endpoint).expect("there is room");
    let mut after = index
        .connect(COMPUTE[1], Access::InNetwork)
        .expect("there is room");
    drop(before);
    index.load([(7, b"seven")]).expect("it is empty");
    index.load_network(TIME_LIMIT).expect("the switch has room");
    assert_eq!(after.get(7), Ok(Some(b"seven"[..].into())));
    let seen = after.reader_statistics();
    assert_eq!((seen.network_queries, seen.network_refused), (1, 0));
    let counters = index.network_counters().expect("it is in the network");
    assert_eq!(counters.unknown_pair, 0, "{counters:?}");
}

#[test]
fn what_is_not_in_the_network_says_so() {
    let index = IndexService::new(&rack(), &IndexOptions::default()).expect("there is room");
    let refused = index
        .load_network(TIME_LIMIT)
        .expect_err("it was not opened to it");
    assert!(
        refused.to_string().contains("not in the network"),
        "{refused}"
    );
    assert!(index.network_counters().is_none());
    let rack = rack_with(|config| {
        let switch = &mut config.switch;
        (switch.index_servers, switch.index_queries) = (0, 0);
        (
            switch.index_fat_ranges,
            switch.index_nodes,
            switch.index_layers,
        ) = (0, 0, 0);
    });
    let options = IndexOptions {
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let refused = IndexService::new(&rack, &options).expect_err("no switch has an index");
    assert!(refused.to_string().contains("index_servers"), "{refused}");
}

#[test]
fn nobody_waits_longer_than_was_said() {
    let rack = rack();
    let index = IndexService::new(&rack, &IndexOptions::default()).expect("there is room");
    let mut client = index
        .connect(COMPUTE[0], Access::Rpc)
        .expect("there is room");
    assert_eq!(client.put(1, b"one"), Ok(false));
    // No endpoint replies any more, and the NIC retransmits for much longer than this.
    rack.crash_node(NodeId(0));
    let after = Duration::from_millis(2);
    client.set_time_limit(after);
    assert_eq!(client.get(1), Err(CallError::TimedOut { after }));
    client.set_time_limit(TIME_LIMIT);
    let gone = CallError::Index(IndexError::Gone(EndpointId(0)));
    assert_eq!(client.get(1), Err(gone), "in the end the NIC gives up");
}

#[test]
fn options_out_of_range_are_refused() {
    let rack = rack();
    let refused = |change: fn(&mut IndexOptions)| {
        let mut options = IndexOptions::default();
        change(&mut options);
        IndexService::new(&rack, &options).expect_err("it makes no sense")
    };
    let range = |error| matches!(error, IndexServiceError::OutOfRange { .. });
    assert!(range(refused(|options| options.value_max = 7)));
    assert!(range(refused(|options| options.keys = 0)));
    assert!(range(refused(|options| options.threads = 0)));
    assert!(range(refused(|options| options.clients = 0)));
    let wrong = refused(|options| options.node_bytes = 1000);
    assert!(matches!(wrong, IndexServiceError::Tree(_)), "{wrong}");
    let wrong = refused(|options| options.boundaries = vec![5]);
    assert!(matches!(
        wrong,
        IndexServiceError::Boundaries {
            wanted: 0,
            given: 1
        }
    ));
    let wrong = refused(|options| options.nodes = vec![NodeId(77)]);
    assert!(wrong.to_string().contains("node77"), "{wrong}");
    let index = IndexService::new(&rack, &IndexOptions::default()).expect("there is room");
    let wrong = index
        .connect(NodeId(77), Access::Rpc)
        .expect_err("no such node");
    assert!(wrong.to_string().contains("node77"), "{wrong}");
}

#[test]
fn keys_that_are_asked_for_more_than_others_move_by_themselves() {
    let options = IndexOptions {
        nodes: vec![NodeId(0), NodeId(1)],
        boundaries: vec![1000],
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack(), &options).expect("there is room");
    let entries = (0..2000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    let config = CoordinatorConfig {
        rebalance: Some(RebalanceConfig {
            // One thread runs everything here, so a server works for a small part of the time.
            busy_min: 0.001,
            ..RebalanceConfig::default()
        }),
        sample_every: Duration::from_millis(20).into(),
        ..CoordinatorConfig::default()
    };
    let mut coordinator = index.coordinate(NodeId(1), config).expect("there is room");
    let mut client = index
        .connect(COMPUTE[0], Access::Rpc)
        .expect("there is room");
    let node = client.node().clone();
    // A key that is being moved has no owner until the coordinator takes its next step: a call must
    // not wait for a reply without polling it.
    let mut ask = |key| {
        let ticket = client.begin(&Op::Get { key }).expect("there is room");
        let reply = wait_within(&node, TIME_LIMIT, || {
            while coordinator.poll().is_some() {}
            client.poll()
        });
        let reply = reply.expect("it is answered");
        let found = Ok(Answer::Value(Some(value(key)[..].into())));
        assert_eq!((reply.ticket, reply.result), (ticket, found));
    };
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut key = 0;
    while index.map().owner(999) != EndpointId(1) {
        assert!(Instant::now() < give_up, "the idle endpoint is given keys");
        // All requests are for the first endpoint's keys.
        key = (key + 7) % 1000;
        ask(key);
    }
    (0..2000).for_each(ask);
}

#[test]
fn switches_follow_what_is_asked_for_without_being_told() {
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec {
            // So few that only a part of the tree is loaded.
            limits: Some(PlanLimits {
                ranges: 64,
                nodes_per_layer: 8,
                layers: 2,
            }),
            grace: Duration::from_millis(5).into(),
            ..IndexNetworkSpec::default()
        }),
        adapt: Some(AdapterConfig {
            every: Duration::from_millis(20).into(),
            half_life: Duration::from_millis(50).into(),
            weight_min: 100.0,
            ..AdapterConfig::default()
        }),
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack(), &options).expect("there is room");
    let entries = (0..20_000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    let mut client = index
        .connect(COMPUTE[0], Access::InNetwork)
        .expect("there is room");
    let loads = || {
        let index = index.index();
        index.network().expect("it is open").summary().loads
    };
    let node = client.node().clone();
    let mut ask_until = |first: u64, wanted: u64| {
        let mut key = 0;
        let came = wait_within(&node, Duration::from_secs(60), || {
            key = (key + 7) % 500;
            let found = client.get(first + key);
            assert_eq!(found, Ok(Some(value(first + key)[..].into())));
            (loads() >= wanted).then_some(())
        });
        assert_eq!(came, Some(()), "plan {wanted} serves");
    };
    // Only the client acts: it asks for some keys, and then for others.
    ask_until(2000, 1);
    let before = loads();
    ask_until(15_000, before + 1);
    assert_eq!(index.take_network_error(), None);
}
