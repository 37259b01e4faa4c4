//! Indexes whose endpoints have replicas.

use crate::config::{NodeConfig, Role};
use crate::services::{IndexOptions, IndexService, TIME_LIMIT};
use crate::{EmbeddedRack, IndexNetworkSpec, Rack, RackConfig, SimulatedRack};
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Access, CoordinatorConfig, EndpointId, Step};

const KEYS: u64 = 3000;

/// Nodes without copies.
const COMPUTE: [NodeId; 2] = [NodeId(0), NodeId(1)];

fn config(storage: usize) -> RackConfig {
    let mut config = RackConfig::with_all_programs();
    config.driver_threads = 0;
    let names = (0..storage).map(|at| format!("storage{at}"));
    let storage = names.map(|name| NodeConfig::new(name, Role::Storage));
    config.node.retain(|node| node.role == Role::Compute);
    config.node.extend(storage);
    config
}

fn value(key: u64) -> Vec<u8> {
    format!("the value of {key}").into_bytes()
}

fn index(rack: &Rack) -> IndexService {
    let config = rack.config();
    let options = IndexOptions {
        nodes: config.nodes_of(Role::Storage)[..2].to_vec(),
        boundaries: vec![KEYS / 2],
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        copies: 2,
        ..IndexOptions::default()
    };
    let mut spec = options.spec(config).expect("it makes sense");
    // An endpoint that is gone is detected at once, since its queue pairs are gone, too.
    spec.attributes.timeout = Duration::from_millis(1);
    spec.attributes.retries = 2;
    let made = IndexService::with_spec(rack, spec, options.network, options.adapt);
    made.expect("there is capacity")
}

/// An index with values for all keys, which have their second copies.
fn loaded(rack: &Rack) -> IndexService {
    let index = index(rack);
    let entries = (0..KEYS).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    index
        .wait_for_replicas(TIME_LIMIT)
        .expect("there is capacity");
    index
}

#[test]
fn values_survive_one_node_after_the_other_for_all_ways_of_access() {
    for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
        let config = config(3);
        let rack = EmbeddedRack::new(&config).expect("it makes sense");
        let index = index(&rack);
        let loaded = (0..KEYS).step_by(2).map(|key| (key, value(key)));
        index.load(loaded).expect("it is empty");
        index
            .wait_for_replicas(TIME_LIMIT)
            .expect("there is capacity");
        if access == Access::InNetwork {
            index.load_network(TIME_LIMIT).expect("there is capacity");
        }
        let client = index.connect(COMPUTE[0], access);
        let mut client = client.expect("there is capacity");
        for key in (1..KEYS).step_by(202) {
            assert_eq!(client.insert(key, &value(key)), Ok(true));
        }
        assert_eq!(client.delete(0), Ok(true));
        let mut written = KEYS;
        // The second death hits an endpoint that has replaced another.
        for round in 0..4 {
            let places = index.replicas();
            index.kill_at(places[round % 2].node);
            for key in (2..KEYS).step_by(74) {
                assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
            }
            for key in (1..KEYS).step_by(202) {
                assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
            }
            assert_eq!(client.get(0), Ok(None));
            for key in KEYS..written {
                assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
            }
            index
                .wait_for_replicas(TIME_LIMIT)
                .expect("there is capacity");
            for key in written..written + 10 {
                assert_eq!(client.put(key, &value(key)), Ok(false));
            }
            written += 10;
            let now = index.replicas();
            let place = |at: usize| (places[at].node, places[at].replica);
            let at = round % 2;
            assert_eq!(Some(now[at].node), place(at).1, "the replica took over");
            assert!(
                now.iter()
                    .all(|it| it.replica.is_some_and(|at| at != it.node))
            );
        }
        let all = client.scan(0..=u64::MAX, Direction::Forward, u32::MAX);
        let count = KEYS / 2 - 1 + KEYS.div_ceil(202) + 40;
        assert_eq!(all.expect("it is intact").len() as u64, count);
    }
}

#[test]
fn a_range_that_moved_survives_both_of_its_endpoints() {
    let config = config(2);
    let rack = EmbeddedRack::new(&config).expect("it makes sense");
    let index = loaded(&rack);
    let made = index.coordinate(COMPUTE[0], CoordinatorConfig::default());
    let mut coordinator = made.expect("there is capacity");
    let moved = coordinator.move_keys(
        Step {
            from: EndpointId(0),
            to: EndpointId(1),
            low: 1000,
            last: KEYS / 2 - 1,
        },
        TIME_LIMIT,
    );
    assert_eq!(moved, Ok(KEYS / 2 - 1000));
    let client = index.connect(COMPUTE[1], Access::Rpc);
    let mut client = client.expect("there is capacity");
    for endpoint in [EndpointId(1), EndpointId(0)] {
        let loss = index.restart(endpoint).expect("its replica is there");
        assert_eq!(loss.lost, None);
        for key in (0..KEYS).step_by(7) {
            assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
        }
        index
            .wait_for_replicas(TIME_LIMIT)
            .expect("there is capacity");
    }
}

/// Only the endpoints and their replicas know of the move.
#[test]
fn a_move_is_known_although_both_of_its_endpoints_die_at_once() {
    let config = config(2);
    let rack = EmbeddedRack::new(&config).expect("it makes sense");
    let index = loaded(&rack);
    let loss = index.restart(EndpointId(0)).expect("its replica is there");
    assert_eq!(loss.lost, None);
    index
        .wait_for_replicas(TIME_LIMIT)
        .expect("there is capacity");
    let places = index.replicas();
    assert_eq!(places[0].node, places[1].node, "both are at one node");
    let client = index.connect(COMPUTE[1], Access::Rpc);
    let mut client = client.expect("there is capacity");
    let made = index.coordinate(COMPUTE[0], CoordinatorConfig::default());
    let mut coordinator = made.expect("there is capacity");
    for (from, to, low, last) in [(0, 1, 900, KEYS / 2 - 1), (1, 0, 900, 1200)] {
        let (from, to) = (EndpointId(from), EndpointId(to));
        let range = Step {
            from,
            to,
            low,
            last,
        };
        let moved = coordinator.move_keys(range, TIME_LIMIT);
        assert_eq!(moved, Ok(last - low + 1));
        assert_eq!(client.put(1000, &value(low + last)), Ok(true));
    }
    index.kill_at(places[0].node);
    assert_eq!(client.get(1000), Ok(Some(value(2100)[..].into())));
    for key in (0..KEYS).filter(|key| *key != 1000).step_by(7) {
        assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
    }
    let all = client.scan(0..=u64::MAX, Direction::Forward, u32::MAX);
    assert_eq!(all.expect("it is intact").len() as u64, KEYS);
}

#[test]
fn without_a_whole_replica_the_values_are_lost_and_the_endpoint_starts_elsewhere() {
    let config = config(2);
    let mut rack = SimulatedRack::new(&config).expect("it makes sense");
    let index = index(&rack);
    index.load([(7, b"seven")]).expect("it is empty");
    let first = index.replicas()[0].node;
    rack.crash_node_silently(first);
    index.kill_at(first);
    assert!(index.keep_replicas().is_empty());
    let loss = index.restart(EndpointId(0)).expect("the other node is up");
    let part = loss.lost.expect("there was no replica");
    assert_eq!((part.low, part.last), (0, KEYS / 2 - 1));
    let status = index.replicas()[0];
    assert_eq!(status.node, index.replicas()[1].node);
    assert_eq!((status.replica, status.is_whole), (None, false));
    let mut client = index
        .connect(COMPUTE[0], Access::Rpc)
        .expect("there is capacity");
    assert_eq!(client.get(7), Ok(None));
    assert_eq!(client.put(7, b"again"), Ok(false));
    // The node returns, and gets the replicas.
    assert!(rack.revive_node(first));
    index
        .wait_for_replicas(TIME_LIMIT)
        .expect("there is capacity");
    let all = index.replicas();
    assert!(all.iter().all(|it| it.replica == Some(first)), "{all:?}");
    assert_eq!(client.get(7), Ok(Some(b"again"[..].into())));
}

#[test]
fn what_cannot_have_replicas_says_so() {
    let config = config(1);
    let rack = EmbeddedRack::new(&config).expect("it makes sense");
    let refused = |options: IndexOptions| {
        let refused = IndexService::new(&rack, &options).expect_err("it makes no sense");
        refused.to_string()
    };
    let two = IndexOptions {
        copies: 2,
        ..IndexOptions::default()
    };
    let second = "the rack has no second storage node for replicas; name two nodes";
    assert_eq!(refused(two.clone()), second);
    let three = IndexOptions { copies: 3, ..two };
    assert_eq!(refused(three), "copies is 3; 1 to 2 is possible");
    let both = IndexOptions {
        nodes: COMPUTE.to_vec(),
        boundaries: vec![100],
        datagrams: true,
        copies: 2,
        ..IndexOptions::default()
    };
    let datagrams = "an index of several endpoints cannot have both replicas and datagrams";
    assert_eq!(refused(both), datagrams);
}

#[test]
fn datagrams_find_the_replica() {
    let config = config(2);
    let rack = EmbeddedRack::new(&config).expect("it makes sense");
    let options = IndexOptions {
        datagrams: true,
        copies: 2,
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack, &options).expect("there is capacity");
    index
        .load((0..100).map(|key| (key, value(key))))
        .expect("it is empty");
    index
        .wait_for_replicas(TIME_LIMIT)
        .expect("there is capacity");
    let mut client = index
        .connect_by_datagrams(COMPUTE[0])
        .expect("there is capacity");
    assert_eq!(client.put(200, &value(200)), Ok(false));
    index.kill_at(index.replicas()[0].node);
    for key in (0..100).chain([200]) {
        assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
    }
    assert_eq!(client.put(201, &value(201)), Ok(false));
}
