//! Switch processes that end, and others that restore the controller's state.

use super::programs::{AMPLE, join, pages, rack_of_programs, shared_index};
use super::proxy::Gate;
use super::waiting::through_gate;
use super::*;
use crate::messaging::{Dialing, Listener};
use crate::services::{IndexService, PageOptions, PageService, SequencerService, wait_within};
use rackweave_controller::FlowState;
use rackweave_endpoint::index::Access;
use rackweave_endpoint::messaging::MessagingConfig;

/// Runs a switch until it has restored the state of an earlier one, and `act` then.
pub(super) fn restarted<R>(rack: &Rack, act: impl FnOnce(Vec<String>) -> R) -> R {
    let (report, reported) = std::sync::mpsc::channel();
    let report = std::sync::Mutex::new(report);
    let switch = rack.switch();
    let run = move |stop: &AtomicBool| {
        switch.run(stop, &|event| {
            println!("switch: {event:?}");
            let _gone = report.lock().expect("no holder panics").send(event);
        });
    };
    while_running(run, || {
        loop {
            match reported.recv_timeout(AMPLE).expect("it restores the state") {
                SwitchEvent::Restored { absent } => break act(absent),
                SwitchEvent::StateLeft { why } => panic!("{why}"),
                _ => {}
            }
        }
    })
}

fn connect(rack: &Rack) -> HostedRack {
    eventually("the switch is up", || {
        HostedRack::connect(&rack.config).is_ok()
    });
    HostedRack::connect(&rack.config).unwrap()
}

#[test]
fn flows_of_a_command_go_on_in_the_next_switch_process() {
    for link in [LinkKind::SharedMemory, LinkKind::Udp] {
        let rack = Rack::new("restart-flows", link);
        let count = 3000u64;
        let start = || {
            let mut client = connect(&rack);
            client.wait_for_nodes(Time::from_secs(10)).unwrap();
            let ended = run_flow(&mut client, 5);
            let (a, b) = (NodeId(0), NodeId(1));
            let flow = client.create_flow(&[a], &[b], ITEM as u32, 64 << 10);
            let flow = flow.unwrap();
            let consume = json!({ "rings": [flow.consumers[0]], "count": count });
            let produce = json!({ "rings": flow.of_producer(0), "count": count, "pace_us": 100 });
            let consumer = client.start_job(b, "consume", consume).unwrap();
            let producer = client.start_job(a, "produce", produce).unwrap();
            eventually("some items arrive", || {
                match client.poll_job(b, consumer).unwrap() {
                    JobStatus::Running { done } => done > 20,
                    other => panic!("too early: {other:?}"),
                }
            });
            (client, ended, flow, [(b, consumer), (a, producer)])
        };
        let go_on = || {
            let (mut client, ended, flow, jobs) = while_running(run_switch(&rack), start);
            assert!(client.status().is_err(), "the switch has gone");
            restarted(&rack, |absent| {
                assert!(absent.is_empty(), "{absent:?}");
                client.reconnect(Time::from_secs(10)).unwrap();
                assert_eq!(client.flow_status(ended.id).unwrap(), FlowStatus::Ended);
                for (node, job) in jobs {
                    let mut status = JobStatus::Running { done: 0 };
                    eventually("the flow ends", || {
                        status = client.poll_job(node, job).unwrap();
                        !matches!(status, JobStatus::Running { .. })
                    });
                    let result = json!(count);
                    assert_eq!(status, JobStatus::Done { result });
                }
                eventually("the flow is over", || {
                    client.flow_status(flow.id).unwrap() == FlowStatus::Ended
                });
                assert_eq!(client.status().unwrap().lanes_used, 0);
                run_flow(&mut client, 100);
            });
        };
        while_running(run_node(&rack, "a"), || {
            while_running(run_node(&rack, "b"), go_on);
        });
        std::fs::remove_dir_all(&rack.folder).unwrap();
    }
}

#[test]
fn pages_sequencers_flows_and_names_of_programs_outlive_the_switch_process() {
    let rack = rack_of_programs("restart-programs", LinkKind::SharedMemory);
    while_running(run_node(&rack, "storage"), || {
        let (first, second, made, sequencer, flow) = while_running(run_switch(&rack), || {
            let [first, second] = ["first", "second"].map(|name| join(&rack.config, name));
            let made = pages(&first);
            let sequencer = SequencerService::new(&first, 100).unwrap();
            sequencer.share("numbers").unwrap();
            let flow = first.flow(["first"], ["second"]).item_bytes(64).build();
            let flow = flow.unwrap();
            flow.share("items").unwrap();
            (first, second, made, sequencer, flow)
        });
        let mut numbers = Vec::new();
        let mut producer = flow.take_producer(0).unwrap();
        let mut consumer = None;
        let (writer, found) = restarted(&rack, |absent| {
            assert!(absent.is_empty(), "{absent:?}");
            let found = pages(&second);
            (made.worker(NodeId(1)).unwrap(), found)
        });
        let reader = restarted(&rack, |_| found.worker(NodeId(2)).unwrap());
        let page = restarted(&rack, |_| writer.allocate().unwrap());
        for round in 0..3u64 {
            restarted(&rack, |absent| {
                assert!(absent.is_empty(), "{absent:?}");
                let write = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&round.to_le_bytes());
                assert_eq!(writer.change(page, write), Ok(()));
                assert_eq!(reader.read(page).map(|it| it.data().u64_le(0)), Ok(round));
                let there = SequencerService::find(&second, "numbers").unwrap();
                let mut client = there.connect(NodeId(2)).unwrap();
                numbers.extend(client.next(5).unwrap());
                let mut client = sequencer.connect(NodeId(1)).unwrap();
                numbers.extend(client.next(5).unwrap());
                let consumer = consumer.get_or_insert_with(|| {
                    let shared = second.shared_flow("items").unwrap();
                    let end = shared.take_consumer(0).unwrap();
                    (shared, end)
                });
                while producer.push(&[round as u8; 64]).is_err() {
                    first.any_node().drive();
                }
                let mut item = [0; 64];
                let came = wait_within(&second.any_node(), AMPLE, || {
                    match consumer.1.pop(&mut item) {
                        Taken::Items(()) => Some(true),
                        Taken::Empty => None,
                        Taken::Ended | Taken::Aborted => Some(false),
                    }
                });
                assert_eq!((came, item), (Some(true), [round as u8; 64]));
                assert_eq!(flow.state(), FlowState::Running);
                assert_eq!(first.lost_pages().unwrap(), []);
            });
        }
        let mut once = numbers.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), numbers.len(), "{numbers:?}");
        restarted(&rack, |_| {
            drop((producer, consumer, flow, sequencer, made, writer, first));
            let name = || SequencerService::find(&second, "numbers");
            eventually("what a program made goes with it", || name().is_err());
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// Replies of a program, in the middle of what a switch process asks it to restore its pages.
const MIDWAY: u64 = 14;

#[test]
fn a_switch_process_that_ends_while_it_restores_changes_nothing() {
    restored_halfway("restart-ended", false);
}

/// What nodes were given halfway, such as the number of the directory, is not given to them again.
#[test]
fn a_switch_process_that_dies_while_it_restores_is_followed_by_another() {
    restored_halfway("restart-died", true);
}

/// A switch process restores the state of an earlier one, and ends halfway. If it dies there, its
/// file is as it was then.
fn stop_halfway(rack: &Rack, gate: &Gate, dies: bool) {
    let file = rack.folder.join("controller.state");
    gate.close_after(MIDWAY);
    let (report, restored) = std::sync::mpsc::channel();
    let report = std::sync::Mutex::new(report);
    let switch = rack.switch();
    let run = move |stop: &AtomicBool| {
        switch.run(stop, &|event| {
            if let SwitchEvent::Restored { absent } = event {
                report.lock().unwrap().send(absent).unwrap();
            }
        });
    };
    let halfway = while_running(run, || {
        gate.wait_until_it_keeps();
        assert!(restored.try_recv().is_err(), "it is halfway");
        let halfway = std::fs::read(&file).unwrap();
        let opens = gate.clone();
        match dies {
            true => {
                opens.open();
                restored.recv_timeout(AMPLE).unwrap();
            }
            // The request to end comes first.
            false => {
                _ = std::thread::spawn(move || {
                    std::thread::sleep(Time::from_millis(100));
                    opens.open();
                })
            }
        }
        halfway
    });
    if dies {
        std::fs::write(&file, halfway).unwrap();
    }
}

/// A switch process ends, or dies, while it restores the state of an earlier one, and the next one
/// does it again.
fn restored_halfway(name: &str, dies: bool) {
    let rack = rack_of_programs(name, LinkKind::SharedMemory);
    let (through, gate) = through_gate(&rack);
    while_running(run_node(&rack, "storage"), || {
        let (program, made) = while_running(run_switch(&rack), || {
            let program = join(&through, "first");
            // A request that the node repeats to no directory ends with an error.
            let options = PageOptions {
                time_limit: Time::from_secs(5),
                ..PageOptions::default()
            };
            let made = PageService::new(&program, &options).expect("there is capacity");
            (program, made)
        });
        let (writer, page) = restarted(&rack, |_| {
            let writer = made.worker(NodeId(1)).unwrap();
            let page = writer.allocate().unwrap();
            (writer, page)
        });
        let write = |number: u64| {
            writer.change(page, |bytes| {
                bytes[..8].copy_from_slice(&number.to_le_bytes());
            })
        };
        for round in 0..3 {
            stop_halfway(&rack, &gate, dies);
            restarted(&rack, |absent| {
                assert!(absent.is_empty(), "{absent:?}");
                assert_eq!(program.lost_pages().unwrap(), []);
                assert_eq!(write(round), Ok(()));
                assert_eq!(writer.read(page).map(|it| it.data().u64_le(0)), Ok(round));
            });
        }
        restarted(&rack, |_| drop((writer, made, program)));
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// Node `a` is a new process when the next switch process runs.
#[test]
fn a_node_that_dies_while_the_switch_is_down_is_dead() {
    let mut rack = Rack::new("restart-death", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().dead_after_ms = 2_000;
    while_running(run_node(&rack, "b"), || {
        let (mut client, flow, jobs) = while_running(run_node(&rack, "a"), || {
            while_running(run_switch(&rack), || {
                let mut client = connect(&rack);
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                let (flow, jobs) = flows::endless(&mut client);
                (client, flow, jobs)
            })
        });
        while_running(run_node(&rack, "a"), || {
            restarted(&rack, |absent| {
                assert_eq!(absent, ["a"]);
                client.reconnect(Time::from_secs(10)).unwrap();
                let status = client.flow_status(flow.id).unwrap();
                assert!(matches!(status, FlowStatus::Aborted { .. }), "{status:?}");
                let (node, job) = jobs[0];
                let error = "the flow was broken off".to_owned();
                eventually("the consumer is told", || {
                    client.poll_job(node, job).unwrap()
                        == JobStatus::Failed {
                            error: error.clone(),
                        }
                });
                run_flow(&mut client, 100);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_state_that_cannot_be_used_is_reported_and_the_rack_starts_anew() {
    let rack = Rack::new("restart-damaged", LinkKind::SharedMemory);
    let file = rack.folder.join("controller.state");
    let change = |what: &str| {
        let good = std::fs::read_to_string(&file).unwrap();
        let bad = match what {
            "cut short" => good[..good.len() / 2].to_owned(),
            "no heading" => "{}\n".to_owned(),
            "changed" => good.replacen("members", "numbers", 1),
            "empty" => String::new(),
            _ => good.replacen(&format!("{:016x}", rack.config.agreement()), "0", 1),
        };
        std::fs::write(&file, bad).unwrap();
    };
    while_running(run_node(&rack, "a"), || {
        while_running(run_node(&rack, "b"), || {
            let work = || {
                let mut client = connect(&rack);
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                run_flow(&mut client, 10);
            };
            while_running(run_switch(&rack), work);
            for what in ["cut short", "no heading", "changed", "empty", "foreign"] {
                change(what);
                let left = std::sync::Mutex::new(Vec::new());
                let switch = rack.switch();
                let run = |stop: &AtomicBool| {
                    switch.run(stop, &|event| {
                        if let SwitchEvent::StateLeft { why } = event {
                            left.lock().unwrap().push(why);
                        }
                    });
                };
                while_running(run, work);
                assert_eq!(left.lock().unwrap().len(), 1, "{what}");
            }
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn switches_have_the_plan_of_an_index_again() {
    let rack = rack_of_programs("restart-index", LinkKind::SharedMemory);
    let (storage, index) = while_running(run_switch(&rack), || {
        let storage = join(&rack.config, "storage");
        let index = shared_index(&storage);
        (storage, index)
    });
    let serve = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            index.serve();
            storage.any_node().drive();
        }
    };
    while_running(serve, || {
        restarted(&rack, |absent| {
            assert!(absent.is_empty(), "{absent:?}");
            let program = join(&rack.config, "first");
            let found = IndexService::find(&program, "words").unwrap();
            for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
                let mut client = found.connect(NodeId(1), access).unwrap();
                assert_eq!(client.get(7), Ok(Some(b"seven"[..].into())));
            }
            let counters = index.network_counters().unwrap();
            let below: u64 = counters.by_depth[1..].iter().sum();
            assert!(below > 0, "the switch has the plan: {counters:?}");
        });
    });
    drop((index, storage));
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// The next switch process makes another rack of the same nodes.
#[test]
fn a_listener_accepts_connections_although_the_state_was_lost() {
    let rack = rack_of_programs("restart-listener", LinkKind::SharedMemory);
    let any = ([127, 0, 0, 1], 0).into();
    let (programs, mut listener) = while_running(run_switch(&rack), || {
        let programs = ["first", "second"].map(|name| join(&rack.config, name));
        let (first, node) = (&programs[0], programs[0].any_node());
        let listener = Listener::bind(first, &node, any, MessagingConfig::default());
        (programs, listener.unwrap())
    });
    listener.set_patience(AMPLE);
    std::fs::remove_file(rack.folder.join("controller.state")).unwrap();
    let [first, second] = &programs;
    let former = first.identity();
    while_running(run_switch(&rack), || {
        eventually("both have joined the other rack", || {
            first.identity() != former && first.identity() == second.identity()
        });
        let (node, to) = (second.any_node(), listener.local_addr());
        let dialing = Dialing::start(second, &node, to, MessagingConfig::default(), AMPLE);
        let (dialed, accepted) = listener.connect(dialing.unwrap()).unwrap();
        let (mut up, _down) = dialed.split();
        let (_downs, mut ups) = accepted.split();
        up[0].send(3, b"again").unwrap();
        let mut came = Vec::new();
        assert!(ups[0].receive(&mut came).unwrap().is_some());
        assert_eq!(came, b"again");
    });
    drop((listener, programs));
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
