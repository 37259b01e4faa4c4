//! Sequencers in the switch, with real NICs at the other end: every packet lost, duplicated or
//! delayed once, limits that are raised in time, restarts.

use crate::common::{Fate, TestRack, pipeline_config};
use core::ops::Range;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{Controller, SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, Sequencer, SequencerConfig, SequencerError,
};
use rackweave_programs::PipelineConfig;
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::sequencer::{STAGE_BESIDE_ENGINE, SequencerConfig as Sizes};
use rackweave_verbs::CompletionStatus;

fn config() -> PipelineConfig {
    PipelineConfig {
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        sequencer: Sizes {
            sequencers: 2,
            clients: 3,
            first_stage: STAGE_BESIDE_ENGINE,
        },
        ..pipeline_config()
    }
}

fn attributes() -> PairAttributes {
    PairAttributes {
        timeout: Duration::from_micros(100),
        ..PairAttributes::default()
    }
}

struct Bench {
    rack: TestRack,
    controller: Controller,
    id: SequencerId,
    clients: Vec<AtomicSequencer>,
}

impl Bench {
    /// As many clients of one sequencer as `configs`, each on a node of its own.
    fn new(configs: &[SequencerConfig], spec: SequencerSpec) -> Self {
        let (mut rack, mut controller) = TestRack::with_config(configs.len(), 5, 1, config());
        let id = controller.create_sequencer(&mut rack, spec).unwrap();
        let memory = rack.memory.clone();
        let mut clients = Vec::new();
        for (nic, &config) in rack.nics.iter_mut().zip(configs) {
            clients.push(AtomicSequencer::new(nic, &memory, config).unwrap());
        }
        let mut bench = Self {
            rack,
            controller,
            id,
            clients,
        };
        for at in 0..configs.len() {
            bench.attach(at);
        }
        bench
    }

    fn attach(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let (node, site) = (NodeId(at as u16), &mut self.rack);
        let (from, id) = ((node, client.qpn()), self.id);
        let attached = self
            .controller
            .attach_sequencer(site, id, from, &attributes());
        client.connected(attached.unwrap());
    }

    /// Polls all clients and steps the rack, for at most `steps` steps or until no call is pending.
    fn run(&mut self, steps: usize) -> Vec<(usize, Result<Range<u64>, SequencerError>)> {
        let mut all = Vec::new();
        for _ in 0..steps {
            for (at, client) in self.clients.iter_mut().enumerate() {
                while let Some(done) = client.poll(self.rack.now, &mut self.rack.nics[at]) {
                    all.push((at, done.result));
                }
            }
            if self.clients.iter().all(|client| client.is_empty()) {
                break;
            }
            self.rack.step();
            self.controller.handle_digests(&mut self.rack);
        }
        all
    }

    fn ranges(&mut self) -> Vec<Range<u64>> {
        let done = self.run(100_000);
        let good = done.into_iter().map(|(_, result)| result);
        good.collect::<Result<_, _>>().unwrap()
    }
}

fn shape(requests_max: u32, combine_max: u32) -> SequencerConfig {
    SequencerConfig {
        requests_max,
        combine_max,
        ..SequencerConfig::default()
    }
}

/// No hole and no overlap from `first` on; returns the end.
fn assert_whole(mut ranges: Vec<Range<u64>>, first: u64) -> u64 {
    ranges.sort_by_key(|range| range.start);
    let mut next = first;
    for range in ranges {
        assert_eq!(range.start, next, "a hole or a number twice");
        next = range.end;
    }
    next
}

/// Two clients, one that combines and one with many requests in flight; one packet has a fate.
fn with_fate(number: u64, fate: Fate) -> u64 {
    let mut bench = Bench::new(&[shape(16, 1), shape(1, 64)], SequencerSpec::default());
    let start = bench.rack.packets;
    bench.rack.fate = Box::new(move |at, _| {
        if at == start + number {
            fate
        } else {
            Fate::Deliver
        }
    });
    let mut asked = 0;
    let mut ranges = Vec::new();
    for round in 0..3 {
        for call in 0..12 {
            let count = 1 + (round * 12 + call) % 5;
            for client in &mut bench.clients {
                client.begin(count).unwrap();
                asked += count;
            }
        }
        ranges.extend(bench.ranges());
    }
    assert_eq!(ranges.len(), 72);
    let end = assert_whole(ranges, 0);
    assert_eq!(end, asked, "packet {number}, {fate:?}");
    bench.rack.packets - start
}

#[test]
fn no_number_is_lost_or_doubled_whatever_happens_to_a_packet() {
    let packets = with_fate(u64::MAX, Fate::Deliver);
    assert!(packets > 70, "{packets}");
    for fate in [Fate::Lose, Fate::Duplicate, Fate::Delay] {
        for number in 0..packets {
            with_fate(number, fate);
        }
    }
}

#[test]
fn limits_are_raised_before_they_are_reached() {
    let spec = SequencerSpec {
        first: 1000,
        block: 32,
    };
    let mut bench = Bench::new(&[shape(1, 1)], spec);
    let mut end = 1000;
    for round in 0..100 {
        let count = 1 + round % 16;
        bench.clients[0].begin(count).unwrap();
        end = assert_whole(bench.ranges(), end);
        let reserved = bench.controller.sequencer_reserved(bench.id).unwrap();
        assert!(reserved >= end && reserved - end <= 48, "{reserved} {end}");
    }
    // More than was recorded: refused, and the client has to reconnect.
    bench.clients[0].begin(64).unwrap();
    let done = bench.run(1000);
    let refused = SequencerError::Broken(CompletionStatus::RemoteOperation);
    assert_eq!(done, [(0, Err(refused))]);
    let broken = Err(BeginError::Broken(refused));
    assert_eq!(bench.clients[0].begin(1), broken);
    bench.attach(0);
    bench.clients[0].begin(1).unwrap();
    assert_whole(bench.ranges(), end);
}

#[test]
fn after_a_restart_a_sequencer_goes_on_where_nothing_was_handed_out() {
    let spec = SequencerSpec {
        first: 0,
        block: 64,
    };
    let mut bench = Bench::new(&[shape(4, 1), shape(1, 8)], spec);
    let mut end = 0;
    for round in 0..5u64 {
        for client in &mut bench.clients {
            for _ in 0..4 {
                client.begin(1 + round).unwrap();
            }
        }
        let ranges = bench.ranges();
        let first = ranges.iter().map(|range| range.start).min().unwrap();
        assert!(first >= end, "{first} was handed out before");
        end = assert_whole(ranges, first);
        // Some calls are pending when it happens, and fail.
        for client in &mut bench.clients {
            client.begin(1).unwrap();
        }
        for (at, client) in bench.clients.iter_mut().enumerate() {
            let sent = client.poll(bench.rack.now, &mut bench.rack.nics[at]);
            assert_eq!(sent, None);
        }
        let reserved = bench.controller.sequencer_reserved(bench.id).unwrap();
        bench.rack.restart_switch();
        bench.controller.switch_restarted(&mut bench.rack).unwrap();
        let done = bench.run(1000);
        assert_eq!(done.len(), 2);
        for (_, result) in done {
            let flushed = SequencerError::Broken(CompletionStatus::Flushed);
            assert_eq!(result, Err(flushed));
        }
        for at in 0..2 {
            bench.attach(at);
        }
        end = end.max(reserved);
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_and_told() {
    let mut bench = Bench::new(
        &[shape(1, 1), shape(1, 1), shape(1, 1)],
        SequencerSpec::default(),
    );
    let (rack, controller) = (&mut bench.rack, &mut bench.controller);
    let spec = SequencerSpec::default();
    let second = controller.create_sequencer(rack, spec).unwrap();
    let full = controller.create_sequencer(rack, spec).unwrap_err();
    assert_eq!(
        full.to_string(),
        "the switch has room for 2 sequencers, all in use; raise switch.sequencers"
    );
    controller.close_sequencer(rack, second);
    let third = controller.create_sequencer(rack, spec).unwrap();
    assert_ne!(third, second);
    let memory = rack.memory.clone();
    let more = AtomicSequencer::new(&mut rack.nics[0], &memory, shape(1, 1)).unwrap();
    let from = (NodeId(0), more.qpn());
    let attributes = attributes();
    let mut attach = |id, from| controller.attach_sequencer(rack, id, from, &attributes);
    let unknown = attach(second, from).unwrap_err();
    assert_eq!(unknown, SequencerSetUpError::Unknown(second));
    let full = attach(third, from).unwrap_err();
    assert!(full.to_string().contains("raise switch.sequencer_clients"));
    let nowhere = attach(third, (NodeId(9), from.1)).unwrap_err();
    assert!(matches!(nowhere, SequencerSetUpError::Lane(_)), "{nowhere}");
    let used = controller.lanes_used();
    controller.detach_sequencer(rack, (NodeId(1), bench.clients[1].qpn()));
    assert_eq!(controller.lanes_used(), used - 1);
    assert!(
        controller
            .attach_sequencer(rack, third, from, &attributes)
            .is_ok()
    );
    let mut check = |first, block, what: &str| {
        let spec = SequencerSpec { first, block };
        let error = controller.create_sequencer(rack, spec).unwrap_err();
        assert!(error.to_string().starts_with(what), "{error}");
    };
    check(0, 24, "numbers in a block: 24 is out of range");
    check(0, 8, "numbers in a block: 8 is out of range");
    check(0, 1 << 49, "numbers in a block");
    check(u64::MAX, 16, "the first number: 18446744073709551615");
}

#[test]
fn a_client_of_a_closed_sequencer_is_refused() {
    let mut bench = Bench::new(&[shape(1, 1)], SequencerSpec::default());
    let id = bench.id;
    bench.controller.close_sequencer(&mut bench.rack, id);
    // Another takes its place in the switch.
    let spec = SequencerSpec::default();
    let other = bench.controller.create_sequencer(&mut bench.rack, spec);
    assert!(other.is_ok());
    bench.clients[0].begin(1).unwrap();
    let gone = SequencerError::Broken(CompletionStatus::RemoteAccess);
    assert_eq!(bench.run(1000), [(0, Err(gone))]);
}

#[test]
fn the_dead_leave_their_places() {
    let mut bench = Bench::new(&[shape(1, 1), shape(1, 1)], SequencerSpec::default());
    let used = bench.controller.lanes_used();
    bench.rack.dead[0] = true;
    bench.controller.node_died(&mut bench.rack, NodeId(0));
    assert_eq!(bench.controller.lanes_used(), used - 1);
    bench.clients[0] = {
        let memory = bench.rack.memory.clone();
        AtomicSequencer::new(&mut bench.rack.nics[0], &memory, shape(1, 1)).unwrap()
    };
    bench.rack.dead[0] = false;
    bench.attach(0);
    bench.clients[0].begin(3).unwrap();
    bench.clients[1].begin(3).unwrap();
    assert_eq!(assert_whole(bench.ranges(), 0), 6);
}
