//! Processes of nodes that serve the endpoints and sequencers of programs.
//!
//! The second program is this test's own program, which runs only [`user`]: it joins the rack as
//! `compute1`, finds an index and a counter by name, and uses them until it is killed.

use super::rack::{LIMIT, Process, RackFolder, kill, program};
use rackweave_base::NodeId;
use rackweave_endpoint::index::{Access, EndpointId, IndexError};
use rackweave_rack::services::{
    CallError, CounterServerSpec, IndexConnection, IndexOptions, IndexService, SequencerOptions,
    SequencerPlacement, SequencerService, SequencerServiceError, wait_within,
};
use rackweave_rack::{IndexNetworkSpec, Rack};
use rustix::process::Signal;
use std::env;
use std::io::Write;

const CONFIG: &str = "RACKWEAVE_TEST_SERVING";

const ACCESSES: [Access; 3] = [Access::Rpc, Access::OneSided, Access::InNetwork];

fn value(key: u64) -> Vec<u8> {
    format!("the value of {key}").into_bytes()
}

/// Not a test of its own.
#[test]
fn user() {
    let Some(config) = env::var_os(CONFIG) else {
        return;
    };
    let rack = Rack::join(config, "compute1").expect("the rack runs");
    let index = IndexService::find(&rack, "words").expect("it is shared");
    let numbers = SequencerService::find(&rack, "numbers").expect("it is shared");
    let mut numbers = numbers.connect(NodeId(3)).expect("there is capacity");
    let connect = |access| index.connect(NodeId(3), access).expect("there is capacity");
    let mut clients = ACCESSES.map(connect);
    let mut out = std::io::stdout();
    for round in 0.. {
        let number = numbers.next(1).expect("it answers").start;
        for client in &mut clients {
            let key = (7 * round) % 4000;
            assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
        }
        let put = clients[0].put(10_000, &number.to_le_bytes());
        put.expect("it is not full");
        writeln!(out, "took {number}").expect("the test listens");
    }
}

fn check(client: &mut IndexConnection, keys: impl Iterator<Item = u64>) {
    for key in keys {
        assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
    }
}

/// Starts another program, kills it when it has taken some numbers, and returns the last of them.
fn last_number_of_a_killed_user(place: &RackFolder) -> u64 {
    let (mut user, last) = program("hosted::serving::user", (CONFIG, place), 50);
    user.kill().expect("it runs");
    user.wait().expect("it has ended");
    last
}

#[test]
fn an_index_and_a_counter_are_served_by_node_processes_that_die_and_come_back() {
    let place = RackFolder::of_all_systems("");
    let arguments = ["up", place.config(), "--without", "compute0,compute1"];
    let mut up = Process::start(&arguments);
    up.await_line("have joined");
    let rack = Rack::join(place.config(), "compute0").expect("the rack runs");
    let (here, node) = (rack.any_node(), NodeId(2));
    let options = IndexOptions {
        nodes: vec![NodeId(0), NodeId(1)],
        boundaries: vec![2000],
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    // The processes have joined, and are about to serve.
    let made = wait_within(&here, LIMIT, || IndexService::new(&rack, &options).ok());
    let index = made.expect("the storage nodes serve programs");
    let entries = (0..4000).map(|key| (key, value(key)));
    index.load(entries).expect("it is empty");
    index.load_network(LIMIT).expect("the switch has capacity");
    index.share("words").expect("the name is free");
    let counter = CounterServerSpec::new(NodeId(0));
    let placement = SequencerPlacement::Server(counter);
    let counter = SequencerService::with(&rack, &SequencerOptions::new(placement));
    let counter = counter.expect("it is served");
    counter.share("numbers").expect("the name is free");

    // Another program finds both, and is killed.
    let last = last_number_of_a_killed_user(&place);
    let mut numbers = counter.connect(node).expect("there is capacity");
    let next = numbers.next(1).expect("it is there").start;
    assert!(next > last, "{next} came after {last}");
    let connect = |access| index.connect(node, access).expect("there is capacity");
    let mut clients = ACCESSES.map(connect);
    for client in &mut clients {
        check(client, (0..4000).step_by(37));
    }
    let counters = index.network_counters().expect("it is in the network");
    assert!(counters.queries > 0, "the switch led some: {counters:?}");

    // A process dies: what it had is lost, and nothing else.
    kill(up.child("storage1"), Signal::KILL);
    up.await_line("storage1 ended unexpectedly");
    let gone = EndpointId(1);
    let lost = Err(CallError::Index(IndexError::Gone(gone)));
    for client in &mut clients {
        client.set_time_limit(LIMIT);
        assert_eq!(client.get(3000), lost);
        check(client, (0..2000).step_by(37));
    }
    let loss = wait_within(&here, LIMIT, || index.restart(gone).ok());
    let part = loss.expect("its process is back").lost;
    assert_eq!(part.map(|part| part.low), Some(2000));
    for client in &mut clients {
        client.reconnect(gone).expect("it is back");
        assert_eq!(client.get(3000), Ok(None));
        check(client, (0..2000).step_by(37));
    }
    assert_eq!(clients[0].put(3000, b"again"), Ok(false));
    assert_eq!(clients[2].get(3000), Ok(Some(b"again"[..].into())));

    // So is the counter with its process.
    kill(up.child("storage0"), Signal::KILL);
    up.await_line("storage0 ended unexpectedly");
    let failed = numbers.next_within(1, LIMIT);
    let is_broken = matches!(failed, Err(SequencerServiceError::Failed(_)));
    assert!(is_broken, "{failed:?}");
    assert!(numbers.reconnect().is_err(), "it went with its process");
    drop((clients, numbers, counter, index, rack, here));
    up.signal(Signal::INT);
    assert_eq!(up.await_end().code(), Some(0));
}
