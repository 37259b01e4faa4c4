//! The world with real state machines: software NICs around a forwarding switch.

use crate::support::{Kind, LONG, Loop, NicSettings, What, config, nic, rack, run_to_end};
use rackweave_base::{Duration, Instant, NodeId, PortId};
use rackweave_link::FaultConfig;
use rackweave_sim::{
    Actor, CableModel, Context, EcnModel, LinkModel, Step, Stop, SwitchPort, World, WorldConfig,
    WorldError,
};
use rackweave_verbs::Mtu;
use std::fmt::Write as _;

#[test]
fn latencies_and_bandwidths_are_those_of_the_models() {
    let mut table = String::new();
    for (kind, len, depth) in [
        (Kind::Read, 8, 1),
        (Kind::Read, 1024, 1),
        (Kind::Read, 65536, 1),
        (Kind::Write, 64, 1),
        (Kind::Write, 1024, 1),
        (Kind::FetchAdd, 8, 1),
        (Kind::Write, 64, 16),
        (Kind::Write, 4096, 32),
        (Kind::Write, 65536, 8),
        (Kind::Read, 65536, 8),
    ] {
        let mut rack = rack(config(1, 2), NicSettings::default());
        let (a, b) = rack.connect(0, 1, Mtu::B4096);
        let count = if depth == 1 { 20 } else { 400 };
        let measured = rack.stream(
            a,
            b,
            What {
                kind,
                len,
                depth,
                count,
            },
        );
        run_to_end(&mut rack.world);
        let measured = measured.borrow();
        assert_eq!(measured.failed, 0);
        let span = measured.finished.unwrap().since(Instant::ZERO);
        let bits = (u64::from(len) * count as u64 * 8) as f64 / span.as_nanos() as f64;
        let median = measured.median().as_nanos();
        let rate = count as f64 * 1e3 / span.as_nanos() as f64;
        writeln!(
            table,
            "{:<8} {len:>5} bytes, depth {depth:>2}: median {median:>6} ns, {rate:>6.3} M/s, {bits:>5.1} Gbit/s",
            format!("{kind:?}"),
        )
        .unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_read_takes_what_its_parts_take() {
    let mut rack = rack(config(1, 2), NicSettings::default());
    let (a, b) = rack.connect(0, 1, Mtu::B1024);
    let what = What {
        kind: Kind::Read,
        len: 8,
        depth: 1,
        count: 1,
    };
    let measured = rack.stream(a, b, what);
    run_to_end(&mut rack.world);
    // The empty poll and the post; out; two cables and a pass through the switch each way; in; the
    // memory read and out again; in; and the spin.
    let line = |bytes: u64| (bytes + 4 + 20) * 80;
    let request = line(14 + 20 + 8 + 12 + 16 + 4);
    let response = line(14 + 20 + 8 + 12 + 4 + 8 + 4).max(84 * 80);
    let post = 27 + 100;
    let nics = 300 + 300 + (300 + 547) + 300;
    let switch = 4 * 10 + 2 * 500;
    let wires = 2 * request + 2 * response;
    let sum = post + nics + switch + wires / 1000 + 40;
    let latency = measured.borrow().latencies[0].as_nanos();
    // Each of four arrivals is rounded up to a nanosecond.
    assert!((sum..=sum + 4).contains(&latency), "{latency} is not {sum}");
}

#[test]
fn two_writers_to_one_node_share_its_link() {
    let mut rack = rack(config(4, 3), NicSettings::default());
    for writer in 0..2 {
        let (a, b) = rack.connect(writer, 2, Mtu::B4096);
        let what = What {
            kind: Kind::Write,
            len: 16384,
            depth: 8,
            count: 1000,
        };
        rack.stream(a, b, what);
    }
    let half = Instant::from_nanos(1_000_000);
    assert_eq!(rack.world.run(half), Stop::Deadline);
    let before = rack.world.link_report(NodeId(2)).unwrap().from_switch;
    let span = Duration::from_micros(500);
    assert_eq!(rack.world.run(half + span), Stop::Deadline);
    let after = rack.world.link_report(NodeId(2)).unwrap().from_switch;
    assert!(
        after.utilisation(&before, span) > 0.99,
        "{}",
        after.utilisation(&before, span)
    );
    assert!(after.goodput(&before, span) > 12.0e9);
    for writer in 0..2 {
        let report = rack.world.link_report(NodeId(writer)).unwrap().to_switch;
        let share = report.link.payload_bytes as f64 * 8.0 / 1.5e6;
        assert!((46.0..52.0).contains(&share), "{share} Gbit/s");
    }
}

#[test]
fn incast_is_marked_and_slowed_down() {
    let run = |congestion| {
        let settings = NicSettings {
            congestion,
            window_packets: 512,
            ..NicSettings::default()
        };
        let mut rack = rack(config(4, 4), settings);
        for writer in 0..3 {
            let (a, b) = rack.connect(writer, 3, Mtu::B4096);
            rack.stream(
                a,
                b,
                What {
                    kind: Kind::Write,
                    len: 1 << 20,
                    depth: 4,
                    count: 100_000,
                },
            );
        }
        assert_eq!(
            rack.world.run(Instant::from_nanos(5_000_000)),
            Stop::Deadline
        );
        rack.world.link_report(NodeId(3)).unwrap().from_switch.link
    };
    let (without, with) = (run(false), run(true));
    assert!(without.drops > 0 && without.marks > 0, "{without:?}");
    assert!(
        with.drops < without.drops / 4,
        "{with:?} against {without:?}"
    );
}

fn faulty(seed: u64, loss: f64) -> (u64, u64, u64) {
    let faults = FaultConfig {
        loss,
        duplicate: loss,
        reorder: loss,
        corrupt: loss,
        ..FaultConfig::default()
    };
    let config = WorldConfig {
        faults,
        ..config(seed, 3)
    };
    let mut rack = rack(config, NicSettings::default());
    for (from, to, kind) in [
        (0, 1, Kind::Write),
        (1, 2, Kind::Read),
        (2, 0, Kind::FetchAdd),
    ] {
        let (a, b) = rack.connect(from, to, Mtu::B1024);
        let len = if kind == Kind::FetchAdd { 8 } else { 5000 };
        rack.stream(
            a,
            b,
            What {
                kind,
                len,
                depth: 8,
                count: 200,
            },
        );
    }
    run_to_end(&mut rack.world);
    let faults = rack.world.link_report(NodeId(0)).unwrap().to_switch.faults;
    (rack.world.trace_hash(), rack.world.events(), faults.lost)
}

#[test]
fn a_seed_repeats_a_run_and_another_does_not() {
    let first = faulty(7, 0.01);
    assert!(first.2 > 0, "something was lost");
    assert_eq!(faulty(7, 0.01), first);
    assert_ne!(faulty(8, 0.01).0, first.0);
    assert_ne!(faulty(7, 0.0).0, first.0);
}

#[test]
fn a_crashed_node_answers_no_more() {
    let mut rack = rack(config(2, 2), NicSettings::default());
    let (a, b) = rack.connect(0, 1, Mtu::B1024);
    let measured = rack.stream(
        a,
        b,
        What {
            kind: Kind::Write,
            len: 64,
            depth: 4,
            count: 1 << 20,
        },
    );
    let bystander = rack.world.spawn(NodeId(1), Box::new(Idle));
    assert_eq!(rack.world.run(Instant::from_nanos(100_000)), Stop::Deadline);
    let before = measured.borrow().latencies.len();
    assert!(before > 10);
    assert!(rack.world.crash(NodeId(1)));
    assert!(!rack.world.crash(NodeId(1)), "only once");
    assert!(rack.world.nic(NodeId(1)).is_none());
    assert!(rack.world.is_done(bystander), "its actors end with it");
    run_to_end(&mut rack.world);
    // Answers already sent still arrive, and then the retries run out.
    assert!(measured.borrow().latencies.len() <= before + 4);
    assert!(measured.borrow().failed > 0);
    let spawned = rack.world.spawn(NodeId(1), Box::new(Idle));
    assert!(rack.world.is_done(spawned), "nothing runs on a dead node");
    let again = nic(1, 3, NicSettings::default(), &rack.memory);
    assert!(rack.world.revive(NodeId(1), again));
    let spawned = rack.world.spawn(NodeId(1), Box::new(Idle));
    assert!(!rack.world.is_done(spawned));
}

#[test]
fn a_cut_cable_is_survived_if_it_is_mended_in_time() {
    let mut rack = rack(config(2, 2), NicSettings::default());
    let (a, b) = rack.connect(0, 1, Mtu::B1024);
    let measured = rack.stream(
        a,
        b,
        What {
            kind: Kind::Write,
            len: 4096,
            depth: 4,
            count: 2000,
        },
    );
    rack.world.at(Instant::from_nanos(50_000), 1);
    rack.world.at(Instant::from_nanos(1_300_000), 2);
    assert_eq!(rack.world.run(LONG), Stop::Control(1));
    assert_eq!(rack.world.now(), Instant::from_nanos(50_000));
    assert!(rack.world.set_link_down(NodeId(1), true));
    assert_eq!(rack.world.run(Instant::from_nanos(60_000)), Stop::Deadline);
    let stuck = measured.borrow().latencies.len();
    assert_eq!(rack.world.run(LONG), Stop::Control(2));
    assert_eq!(measured.borrow().latencies.len(), stuck, "nothing passes");
    rack.world.set_link_down(NodeId(1), false);
    run_to_end(&mut rack.world);
    assert_eq!(
        (measured.borrow().latencies.len(), measured.borrow().failed),
        (2000, 0)
    );
    assert!(
        rack.world
            .link_report(NodeId(1))
            .unwrap()
            .from_switch
            .faults
            .partitioned
            > 0
    );
}

#[test]
fn a_full_queue_drops_and_the_nics_repair_it() {
    let mut config = config(5, 3);
    for node in &mut config.nodes {
        node.from_switch = LinkModel {
            queue_bytes: 20_000,
            ..node.from_switch
        };
    }
    let mut rack = rack(config, NicSettings::default());
    let streams: Vec<_> = (0..2)
        .map(|writer| {
            let (a, b) = rack.connect(writer, 2, Mtu::B1024);
            rack.stream(
                a,
                b,
                What {
                    kind: Kind::Write,
                    len: 8192,
                    depth: 4,
                    count: 300,
                },
            )
        })
        .collect();
    run_to_end(&mut rack.world);
    assert!(streams.iter().all(|stream| stream.borrow().failed == 0));
    let link = rack.world.link_report(NodeId(2)).unwrap().from_switch.link;
    assert!(link.drops > 0 && link.queue_bytes_max <= 20_000, "{link:?}");
}

#[test]
fn marks_reach_the_nics() {
    let mut config = config(5, 3);
    let ecn = EcnModel {
        bytes_min: 0,
        bytes_max: 1,
        probability_max: 1.0,
    };
    config.nodes[2].from_switch.ecn = Some(ecn);
    let mut rack = rack(
        config,
        NicSettings {
            congestion: true,
            ..NicSettings::default()
        },
    );
    let streams: Vec<_> = (0..2)
        .map(|writer| {
            let (a, b) = rack.connect(writer, 2, Mtu::B1024);
            rack.stream(
                a,
                b,
                What {
                    kind: Kind::Write,
                    len: 8192,
                    depth: 4,
                    count: 50,
                },
            )
        })
        .collect();
    run_to_end(&mut rack.world);
    assert!(
        streams.iter().all(|stream| stream.borrow().failed == 0),
        "the ICRC masks the mark"
    );
    let link = rack.world.link_report(NodeId(2)).unwrap();
    assert!(link.from_switch.link.marks > 10, "{link:?}");
}

/// Spins forever.
struct Idle;

impl Actor for Idle {
    fn step(&mut self, _context: &mut Context<'_>) -> Step {
        Step::WaitForPacket
    }
}

#[test]
fn news_reaches_the_controller_after_its_latency() {
    let mut rack = rack(config(1, 2), NicSettings::default());
    let (a, b) = rack.connect(0, 1, Mtu::B1024);
    rack.world.switch_mut().program_mut().digest_every = 3;
    rack.stream(
        a,
        b,
        What {
            kind: Kind::Write,
            len: 64,
            depth: 1,
            count: 3,
        },
    );
    // Two WRITEs with their acknowledgements make four packets; the third packet makes a digest.
    run_to_end(&mut rack.world);
    let third = rack.world.now();
    assert_eq!(rack.world.run(LONG), Stop::Digest);
    assert!(rack.world.now().since(third) < Duration::from_micros(100));
    assert_eq!(rack.world.poll_digest(), Some(3));
    assert_eq!(rack.world.poll_digest(), Some(6));
    assert_eq!(rack.world.poll_digest(), None);
}

#[test]
fn an_injected_task_recirculates_in_virtual_time() {
    let mut rack = rack(config(1, 1), NicSettings::default());
    let now = rack.world.now();
    rack.world.switch_mut().inject(now, Loop(9));
    rack.world.kick();
    assert_eq!(rack.world.run(LONG), Stop::Digest);
    // Ten passes, and the latency to the controller.
    assert_eq!(rack.world.now(), Instant::from_nanos(10 * 500 + 100_000));
}

/// Node 0 at one switch, node 1 at the other, a cable between the remaining ports.
#[test]
fn a_cable_between_switches_has_faults_of_its_own() {
    let place = |switch, port| SwitchPort {
        switch,
        port: PortId(port),
    };
    let given = rack(config(6, 2), NicSettings::default());
    let mut config = config(6, 2);
    config.places = vec![place(0, 0), place(1, 1)];
    config.cables = vec![CableModel {
        ends: [place(0, 1), place(1, 0)],
        link: LinkModel::default(),
    }];
    let switches = (0..2).map(|_| {
        let program = crate::support::Forward {
            ports: 2,
            digest_every: 0,
            tasks: Vec::new(),
            packets: 0,
        };
        let budget = rackweave_switch::Budget::Software { bytes: 1 << 20 };
        rackweave_switch::Switch::load(program, budget, Default::default()).unwrap()
    });
    let nics = (0..2).map(|at| nic(at, 6, NicSettings::default(), &given.memory));
    let (nics, switches) = (nics.collect(), switches.collect());
    let world = World::with_switches(config, given.memory.clone(), nics, switches).unwrap();
    let mut rack = given.with_world(world);
    let faults = FaultConfig {
        loss: 0.1,
        ..FaultConfig::default()
    };
    rack.world.set_cable_faults(0, faults).unwrap();
    let wrong = FaultConfig {
        loss: 2.0,
        ..FaultConfig::default()
    };
    assert!(rack.world.set_cable_faults(0, wrong).is_err());
    let (a, b) = rack.connect(0, 1, Mtu::B1024);
    let what = What {
        kind: Kind::Read,
        len: 4096,
        depth: 4,
        count: 100,
    };
    let measured = rack.stream(a, b, what);
    run_to_end(&mut rack.world);
    assert_eq!(measured.borrow().failed, 0);
    let ways = rack.world.cable_report(0).unwrap();
    assert!(ways.iter().all(|way| way.faults.lost > 0), "{ways:?}");
    for node in 0..2 {
        let link = rack.world.link_report(NodeId(node)).unwrap();
        assert_eq!(link.to_switch.faults.lost + link.from_switch.faults.lost, 0);
    }
    assert_eq!(
        (rack.world.switch_count(), rack.world.cable_count()),
        (2, 1)
    );
    assert!(rack.world.cable_report(1).is_none());
}

#[test]
fn a_world_needs_a_nic_for_every_node_and_faults_that_make_sense() {
    let build = |config: WorldConfig, nics: usize| {
        let given = rack(crate::support::config(0, 1), NicSettings::default());
        let nics = (0..nics)
            .map(|at| nic(at, 0, NicSettings::default(), &given.memory))
            .collect();
        let program = crate::support::Forward {
            ports: 1,
            digest_every: 0,
            tasks: Vec::new(),
            packets: 0,
        };
        let budget = rackweave_switch::Budget::Software { bytes: 1 << 20 };
        let switch = rackweave_switch::Switch::load(program, budget, Default::default()).unwrap();
        World::new(config, given.memory, nics, switch).err()
    };
    assert_eq!(
        build(config(0, 2), 1),
        Some(WorldError::Nodes { models: 2, nics: 1 })
    );
    let faults = FaultConfig {
        loss: 2.0,
        ..FaultConfig::default()
    };
    let error = build(
        WorldConfig {
            faults,
            ..config(0, 1)
        },
        1,
    )
    .unwrap();
    assert!(error.to_string().contains("`loss` is 2"), "{error}");
    let place = |switch, port| SwitchPort {
        switch,
        port: PortId(port),
    };
    let at = |places: Vec<SwitchPort>| WorldConfig {
        places,
        ..config(0, 2)
    };
    assert_eq!(
        build(at(vec![place(0, 0)]), 2),
        Some(WorldError::Places {
            nodes: 2,
            places: 1
        })
    );
    for second in [place(0, 3), place(0, 99), place(1, 0)] {
        let error = build(at(vec![place(0, 3), second]), 2);
        assert_eq!(error, Some(WorldError::Port(second)), "taken, or not there");
    }
    let mut rack = rack(config(0, 1), NicSettings::default());
    assert!(rack.world.set_faults(NodeId(0), faults).is_err());
    assert!(!rack.world.crash(NodeId(9)) && rack.world.link_report(NodeId(9)).is_none());
    assert_eq!(rack.world.run(LONG), Stop::Stalled);
}
