//! Direct cables between nodes that share memory.

use super::programs::{AMPLE, join, rack_of_programs};
use super::restart::restarted;
use super::*;
use crate::services::{
    SequencerClient, SequencerOptions, SequencerPlacement, SequencerService, SequencerServiceError,
};
use rackweave_base::{Packet, PortId};
use rackweave_switch::{Direction, Tap};

/// Takes a number that is in the memory of another node.
fn next(client: &mut SequencerClient) -> Result<u64, SequencerServiceError> {
    Ok(client.next_within(1, AMPLE)?.start)
}

/// How many packets pass the switch while `act` runs.
fn at_switch(config: &RackConfig, act: impl FnOnce()) -> u64 {
    let count = || {
        let status = HostedRack::connect(config).unwrap().status().unwrap();
        status
            .switch_counters
            .get("packets_in")
            .copied()
            .unwrap_or(0)
    };
    let before = count();
    act();
    count() - before
}

/// Numbers in the memory of node `first`, and a client of them at node `second`.
struct Ends {
    client: SequencerClient,
    _numbers: SequencerService,
    _racks: [crate::Rack; 2],
}

impl Ends {
    fn new(config: &RackConfig) -> Self {
        let [first, second] = ["first", "second"].map(|name| join(config, name));
        let placement = SequencerPlacement::Memory(NodeId(1));
        let numbers = SequencerService::with(&first, &SequencerOptions::new(placement)).unwrap();
        numbers.share("numbers").unwrap();
        let found = SequencerService::find(&second, "numbers").unwrap();
        let client = found.connect(NodeId(2)).unwrap();
        Self {
            client,
            _numbers: numbers,
            _racks: [first, second],
        }
    }

    /// How many packets pass the switch while ten numbers are taken.
    fn ten(&mut self, config: &RackConfig) -> u64 {
        let client = &mut self.client;
        at_switch(config, || (0..10).for_each(|_| _ = next(client).unwrap()))
    }
}

fn with_rack(name: &str, link: LinkKind, act: impl FnOnce(&RackConfig, &SwitchProcess)) {
    with_config(&rack_of_programs(name, link), act);
}

fn with_config(rack: &Rack, act: impl FnOnce(&RackConfig, &SwitchProcess)) {
    let switch = rack.switch();
    while_running(
        |stop| switch.run(stop, &|event| println!("switch: {event:?}")),
        || act(&rack.config, &switch),
    );
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn packets_that_no_program_acts_on_do_not_pass_the_switch() {
    with_rack("cables", LinkKind::SharedMemory, |config, switch| {
        let mut ends = Ends::new(config);
        eventually("there is a cable", || ends.ten(config) == 0);
        // A tap has to see all packets.
        switch.set_tap(Some(Box::new(Deaf)));
        assert!(ends.ten(config) >= 20);
        switch.set_tap(None);
        std::thread::sleep(Time::from_millis(100));
        assert!(ends.ten(config) >= 20);
    });
}

/// A tap that ignores what it is shown.
struct Deaf;

impl Tap for Deaf {
    fn packet(
        &mut self,
        _: rackweave_base::Instant,
        _: PortId,
        _: Direction,
        _: &Packet,
        _: Option<&'static str>,
    ) {
    }
}

#[test]
fn both_ends_cut_a_cable_when_one_of_them_is_gone() {
    let rack = Rack::new("cables-cut", LinkKind::SharedMemory);
    let switch = rack.switch();
    let core = switch.core.clone();
    let cables = |node: &NodeProcess| node.core.pump.peek(|machine| machine.cables());
    let run = |node: &NodeProcess, stop: &AtomicBool| node.run(stop, &|_| {}).unwrap();
    let [a, b] = ["a", "b"].map(|name| rack.node(name).unwrap());
    while_running(
        |stop| switch.run(stop, &|event| println!("switch: {event:?}")),
        || {
            while_running(
                |stop| run(&a, stop),
                || {
                    while_running(
                        |stop| run(&b, stop),
                        || {
                            eventually("there is a cable", || {
                                if let Some(member) = core.member(NodeId(0)) {
                                    core.connect_directly(&member, NodeId(1));
                                }
                                cables(&a) == [NodeId(1)] && cables(&b) == [NodeId(0)]
                            });
                        },
                    );
                    eventually("a has cut it", || cables(&a).is_empty());
                },
            );
        },
    );
    assert!(cables(&b).is_empty());
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn other_links_and_racks_with_faults_have_no_cables() {
    let check = |name: &str, link, change: &dyn Fn(&mut RackConfig)| {
        let mut rack = rack_of_programs(name, link);
        change(&mut rack.config);
        with_config(&rack, |config, _| {
            let mut ends = Ends::new(config);
            for _ in 0..3 {
                assert!(ends.ten(config) >= 20);
                std::thread::sleep(Time::from_millis(60));
            }
        });
    };
    check("cables-unix", LinkKind::Unix, &|_| {});
    check("cables-forbidden", LinkKind::SharedMemory, &|config| {
        config.hosted.as_mut().unwrap().direct = false;
    });
    check("cables-faults", LinkKind::SharedMemory, &|config| {
        config.faults.loss = 0.001;
    });
}

#[test]
fn cables_go_on_without_a_controller_and_with_the_next_one() {
    let rack = rack_of_programs("cables-again", LinkKind::SharedMemory);
    let config = &rack.config;
    let mut ends = while_running(run_switch(&rack), || {
        let mut ends = Ends::new(config);
        eventually("there is a cable", || ends.ten(config) == 0);
        ends
    });
    (0..10).for_each(|_| _ = next(&mut ends.client).unwrap());
    restarted(&rack, |absent| {
        assert!(absent.is_empty(), "{absent:?}");
        assert_eq!(
            ends.ten(config),
            0,
            "the next controller knows of the cable"
        );
        drop(ends);
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
