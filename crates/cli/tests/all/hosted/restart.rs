//! The process of the switch dies or is stopped while programs use every system.

use super::rack::{LIMIT, Process, RackFolder, free_port, kill};
use rackweave_base::NodeId;
use rackweave_controller::FlowState;
use rackweave_endpoint::flow::Taken;
use rackweave_endpoint::index::Access;
use rackweave_rack::services::{
    IndexOptions, IndexService, PageOptions, PageService, SequencerService, wait_within,
};
use rackweave_rack::{IndexNetworkSpec, Node, Rack};
use rustix::process::Signal;
use serde_json::Value;

const ACCESSES: [Access; 3] = [Access::Rpc, Access::OneSided, Access::InNetwork];

/// An index in the network with an endpoint at a node of another process.
fn index_at(rack: &Rack, storage: NodeId) -> IndexService {
    let options = IndexOptions {
        nodes: vec![storage],
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    // Its process has joined, and is about to serve.
    let made = || IndexService::new(rack, &options).ok();
    let index = wait_within(&rack.any_node(), LIMIT, made);
    let index = index.expect("the storage node serves programs");
    let entries = (0..1000u64).map(|key| (key, key.to_le_bytes()));
    index.load(entries).expect("it is empty");
    index.load_network(LIMIT).expect("the switch has capacity");
    index
}

/// Waits until processes of the switch have restored the state more than `before` times.
fn await_restored(up: &Process, node: &Node, before: u64) {
    let restored = "restored the state of the earlier switch process";
    let again = || {
        let lines = up.lines();
        let times = lines.iter().filter(|line| line.contains(restored));
        (times.count() as u64 > before).then_some(())
    };
    wait_within(node, LIMIT, again).expect("the next process restores the state");
}

#[test]
fn every_system_goes_on_after_the_switch_is_killed() {
    let place = RackFolder::of_all_systems("");
    every_system_goes_on(&place, &[], |up, _| kill(up.child("switch"), Signal::KILL));
}

/// The process that leads.
fn leader(place: &RackFolder) -> String {
    let info = place.await_info("a leader", |info| info["running"] == true);
    info["switch_process"]
        .as_str()
        .expect("it has a name")
        .to_owned()
}

#[test]
fn a_standby_takes_over_every_system() {
    let place = RackFolder::of_all_systems("[hosted.standby]\n");
    let mut last = None;
    every_system_goes_on(&place, &[], |up, round| {
        // The one that was killed is back by then.
        place.await_info("a standby", |_| {
            let lines = up.lines();
            let standing = lines.iter().filter(|line| line.contains("standing by"));
            standing.count() as u64 > round
        });
        let leader = leader(&place);
        assert_ne!(last.as_ref(), Some(&leader), "the other one took over");
        kill(up.child(&leader), Signal::KILL);
        last = Some(leader);
    });
}

#[test]
fn a_takeover_is_measured() {
    let place = RackFolder::of_all_systems("[hosted.standby]\n");
    let up = place.start(&["up"]);
    up.await_line("have joined");
    up.await_line("standing by");
    let output = place.run(&["perf", "failover", "-n", "1", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"], true, "{report:#}");
    let systems = report["systems"].as_array().unwrap();
    assert_eq!(systems.len(), 5);
    let measured = |system: &Value| system["worst_ms"].as_f64() > Some(0.0);
    assert!(systems.iter().all(measured), "{report:#}");
    assert_eq!(place.info()["switch_process"], "standby");
}

/// Two processes believe that they lead, when one that was stopped continues.
#[test]
fn etcd_elects_another_leader_if_one_dies_or_is_stopped() {
    if std::process::Command::new("etcd")
        .arg("--version")
        .output()
        .is_err()
    {
        return println!("skipped: there is no etcd; install Debian's etcd-server");
    }
    let number = 900;
    let [etcd, control, udp] = [number, number + 10, number + 20].map(free_port);
    let place = RackFolder::of_all_systems(&format!(
        "etcd = [\"http://{etcd}\"]\nlease_ms = 1000\n[hosted.standby]\n\
         control = \"{control}\"\nudp = \"{udp}\"\n",
    ));
    let mut stopped = None;
    every_system_goes_on(&place, &["--etcd"], |up, round| {
        if let Some(pid) = stopped.take() {
            kill(pid, Signal::CONT);
            up.await_line("leads no longer");
            up.await_line("standing by");
        }
        let leader = up.child(&leader(&place));
        match round {
            1 => {
                kill(leader, Signal::STOP);
                stopped = Some(leader);
            }
            _ => kill(leader, Signal::KILL),
        }
    });
}

/// Uses every system between three losses of the switch's process. `lose` is called with the
/// number of each.
fn every_system_goes_on(
    place: &RackFolder,
    arguments: &[&str],
    mut lose: impl FnMut(&Process, u64),
) {
    let all = ["up", place.config(), "--without", "compute0,compute1"];
    let mut up = Process::start(&[&all, arguments].concat());
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
    let page = writer.allocate().expect("there is space");

    let sequencer = SequencerService::new(&rack, 100).expect("there is capacity");
    sequencer.share("numbers").expect("the name is free");

    let (node, index) = (rack.any_node(), index_at(&rack, storage));

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
        lose(&up, round);
        await_restored(&up, &node, round);

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
