//! An index, read by requests, by READs and with the switches' help.

use super::AMPLE;
use rackweave_base::NodeId;
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{
    Access, BeginError, CoordinatorConfig, EndpointId, IndexError, Step,
};
use rackweave_rack::services::{CallError, IndexConnection, IndexOptions, IndexService};
use rackweave_rack::{IndexNetworkSpec, Rack};

const KEYS: u64 = 3000;
const WAYS: [Access; 3] = [Access::Rpc, Access::OneSided, Access::InNetwork];

fn value(key: u64) -> Vec<u8> {
    format!("the value of {key}").into_bytes()
}

fn service(rack: &Rack, options: &IndexOptions) -> IndexService {
    IndexService::new(rack, options).expect("there is room")
}

fn connect(rack: &Rack, index: &IndexService, access: Access) -> IndexConnection {
    let node = rack.node("compute0").expect("it is here");
    let mut connection = index.connect(&node, access).expect("there is room");
    connection.set_time_limit(AMPLE);
    connection
}

pub fn operations_say_what_was_there(rack: &Rack) {
    let index = service(rack, &IndexOptions::default());
    for access in [Access::Rpc, Access::OneSided] {
        let mut client = connect(rack, &index, access);
        assert_eq!(client.insert(7, b"seven"), Ok(true), "{access:?}");
        assert_eq!(client.insert(7, b"other"), Ok(false));
        assert_eq!(client.get(7), Ok(Some(b"seven"[..].into())));
        assert_eq!(client.update(7, b"more"), Ok(true));
        assert_eq!(client.update(8, b"more"), Ok(false));
        assert_eq!(client.put(7, b"most"), Ok(true));
        assert_eq!(client.put(9, b"nine"), Ok(false));
        let both = vec![(9, b"nine"[..].into()), (7, b"most"[..].into())];
        assert_eq!(client.scan(0..=u64::MAX, Direction::Backward, 10), Ok(both));
        assert_eq!(client.delete(7), Ok(true));
        assert_eq!(client.delete(7), Ok(false));
        assert_eq!(client.get(7), Ok(None));
        assert_eq!(client.delete(9), Ok(true));
        let long = client.put(1, &[0; 65]);
        let error = BeginError::ValueTooLarge { len: 65, limit: 64 };
        assert_eq!(long, Err(CallError::Begin(error)));
    }
}

pub fn the_three_ways_read_the_same(rack: &Rack) {
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let index = service(rack, &options);
    let entries = (0..KEYS).map(|key| (key * 3, value(key)));
    index.load(entries).expect("it is empty");
    let summary = index.load_network(AMPLE).expect("the switch has room");
    assert!(summary.targets > 0, "{summary:?}");
    for access in WAYS {
        let mut client = connect(rack, &index, access);
        for key in (0..KEYS).step_by(97) {
            let found = client.get(key * 3);
            assert_eq!(found, Ok(Some(value(key)[..].into())), "{access:?}");
            assert_eq!(client.get(key * 3 + 1), Ok(None));
        }
    }
    let counters = index.network_counters().expect("it is in the network");
    let deep: u64 = counters.by_depth[1..].iter().sum();
    assert!(deep > 0, "no query was led below the root: {counters:?}");
    assert_eq!(index.take_network_error(), None);
}

fn halves() -> IndexOptions {
    IndexOptions {
        nodes: vec![NodeId(0), NodeId(1)],
        boundaries: vec![1000],
        ..IndexOptions::default()
    }
}

pub fn keys_move(rack: &Rack) {
    let index = service(rack, &halves());
    let entries = (0..2000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    let mut client = connect(rack, &index, Access::OneSided);
    let (from, to) = (EndpointId(0), EndpointId(1));
    let step = Step {
        from,
        to,
        low: 500,
        last: 999,
    };
    let node = rack.node("storage1").expect("it is here");
    let coordinator = index.coordinate(&node, CoordinatorConfig::default());
    let mut coordinator = coordinator.expect("there is room");
    assert_eq!(coordinator.move_keys(step, AMPLE), Ok(500));
    let again = coordinator.move_keys(step, AMPLE);
    assert!(again.is_err(), "they are there already");
    assert_eq!(index.map().owner(500), to);
    for key in [0, 499, 500, 999, 1000, 1999] {
        assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
    }
}

pub fn an_endpoint_that_died_says_so(rack: &Rack) {
    let index = service(rack, &halves());
    let entries = (0..2000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    let mut client = connect(rack, &index, Access::OneSided);
    let gone = EndpointId(0);
    index.kill(gone);
    let unknown = CallError::Index(IndexError::OutcomeUnknown(gone));
    assert_eq!(client.put(1, b"one"), Err(unknown));
    assert_eq!(client.get(1500), Ok(Some(value(1500)[..].into())));
    let loss = index.restart(gone).expect("its node lives");
    assert_eq!(loss.lost.map(|part| part.keys()), Some(0..=999));
    client.reconnect(gone).expect("it is back");
    assert_eq!(client.get(1), Ok(None));
    assert_eq!(client.put(1, b"one"), Ok(false));
    assert_eq!(client.get(1), Ok(Some(b"one"[..].into())));
}

pub fn datagrams_are_answered(rack: &Rack) {
    let options = IndexOptions {
        datagrams: true,
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..halves()
    };
    let index = service(rack, &options);
    let entries = (0..2000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    index.load_network(AMPLE).expect("the switch has room");
    let node = rack.node("compute0").expect("it is here");
    let mut client = index.connect_by_datagrams(&node).expect("there is a port");
    client.set_time_limit(AMPLE);
    for key in (0..2000).step_by(37) {
        assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
    }
    assert_eq!(client.put(1500, b"new"), Ok(true));
    assert_eq!(client.delete(700), Ok(true));
    assert_eq!(client.get(700), Ok(None));
    let both = vec![(1499, value(1499)[..].into()), (1500, b"new"[..].into())];
    assert_eq!(client.scan(1499..=1500, Direction::Forward, 10), Ok(both));
    assert!(client.statistics().done > 0);
    // Every connection sees what was written by datagram.
    let mut other = connect(rack, &index, Access::OneSided);
    assert_eq!(other.get(1500), Ok(Some(b"new"[..].into())));
    let plain = service(rack, &IndexOptions::default());
    assert!(plain.connect_by_datagrams(&node).is_err(), "it has no port");
}

pub fn one_that_went_leaves_its_place(rack: &Rack) {
    let options = IndexOptions {
        clients: 2,
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    let index = service(rack, &options);
    let mut stays = connect(rack, &index, Access::InNetwork);
    for round in 0..20 {
        let mut goes = connect(rack, &index, WAYS[round % 3]);
        assert_eq!(goes.put(7, b"seven"), Ok(round > 0));
        goes.reconnect(EndpointId(0))
            .expect("its own place is free");
        assert_eq!(goes.get(7), Ok(Some(b"seven"[..].into())));
        assert_eq!(stays.get(7), Ok(Some(b"seven"[..].into())));
    }
}
