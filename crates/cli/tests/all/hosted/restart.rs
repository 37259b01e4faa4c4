//! The process of the switch is killed with SIGKILL while programs use every system.

use super::rack::{LIMIT, Process, RackFolder, kill};
use rackweave_controller::FlowState;
use rackweave_endpoint::flow::Taken;
use rackweave_endpoint::index::Access;
use rackweave_rack::services::{
    IndexOptions, IndexService, PageOptions, PageService, SequencerService, wait_within,
};
use rackweave_rack::{IndexNetworkSpec, Rack};
use rustix::process::Signal;

const ACCESSES: [Access; 3] = [Access::Rpc, Access::OneSided, Access::InNetwork];

#[test]
fn every_system_goes_on_after_the_switch_is_killed() {
    let place = RackFolder::of_all_systems("");
    let arguments = ["up", place.config(), "--without", "compute0,compute1"];
    let mut up = Process::start(&arguments);
    up.await_line("have joined");
    let rack = Rack::join(place.config(), "compute0").expect("the rack runs");
    let other = Rack::join(place.config(), "compute1").expect("the rack runs");
    let config = rack.config();
    let [here, there, storage] = ["compute0", "compute1", "storage0"]
        .map(|name| config.node_named(name).expect("the rack has it"));

    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    let service = |rack| PageService::new(rack, &options).expect("there is capacity");
    let (made, found) = (service(&rack), service(&other));
    let writer = made.worker(here).expect("there are workers");
    let reader = found.worker(there).expect("there are workers");
    let page = writer.allocate().expect("there is room");

    let sequencer = SequencerService::new(&rack, 100).expect("there is capacity");
    sequencer.share("numbers").expect("the name is free");

    let options = IndexOptions {
        nodes: vec![storage],
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    let node = rack.any_node();
    let index = wait_within(&node, LIMIT, || IndexService::new(&rack, &options).ok());
    let index = index.expect("the storage node serves programs");
    let entries = (0..1000u64).map(|key| (key, key.to_le_bytes()));
    index.load(entries).expect("it is empty");
    index.load_network(LIMIT).expect("the switch has capacity");

    let flow = rack.flow(["compute0"], ["compute1"]).item_bytes(64).build();
    let flow = flow.expect("there is capacity");
    flow.share("items").expect("the name is free");
    let mut producer = flow.take_producer(0).expect("it is here");
    let shared = other.shared_flow("items").expect("it is shared");
    let mut consumer = shared.take_consumer(0).expect("it is here");

    let mut last = None;
    for round in 0..3u64 {
        // An item is under way, and a page has been changed, when the process ends.
        assert_eq!(producer.push(&[round as u8; 64]), Ok(()));
        let write = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&round.to_le_bytes());
        assert_eq!(writer.change(page, write), Ok(()));
        kill(up.child("switch"), Signal::KILL);
        let restored = "restored the state of the earlier switch process";
        wait_within(&node, LIMIT, || {
            let lines = up.lines();
            let times = lines.iter().filter(|line| line.contains(restored));
            (times.count() as u64 > round).then_some(())
        })
        .expect("the next process restores the state");

        assert_eq!(reader.read(page).map(|it| it.data().u64_le(0)), Ok(round));
        let numbers = SequencerService::find(&other, "numbers").expect("it has its name");
        let mut client = numbers.connect(there).expect("there is capacity");
        let next = client.next(5).expect("it goes on");
        assert!(last < Some(next.start), "{next:?} came after {last:?}");
        last = Some(next.end - 1);
        for access in ACCESSES {
            let mut client = index.connect(here, access).expect("there is capacity");
            for key in (0..1000u64).step_by(37) {
                assert_eq!(client.get(key), Ok(Some(key.to_le_bytes()[..].into())));
            }
        }
        let mut item = [0; 64];
        let came = wait_within(&other.any_node(), LIMIT, || match consumer.pop(&mut item) {
            Taken::Items(()) => Some(true),
            Taken::Empty => None,
            Taken::Ended | Taken::Aborted => Some(false),
        });
        assert_eq!((came, item), (Some(true), [round as u8; 64]));
        assert_eq!(flow.state(), FlowState::Running);
    }
    let counters = index.network_counters().expect("it is in the network");
    assert!(counters.queries > 0, "the switch leads some: {counters:?}");
    drop((producer, consumer, shared, flow, index, sequencer));
    drop((writer, reader, made, found, node, other, rack));
    up.signal(Signal::INT);
    assert_eq!(up.await_end().code(), Some(0));
}
