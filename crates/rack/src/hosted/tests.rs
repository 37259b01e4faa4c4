//! A hosted rack on threads: each has its own memory, and they meet only on links and control
//! connections, as processes do.

use super::*;
use crate::config::{LinkKind, NodeConfig, RackConfig, Role};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_endpoint::flow::Taken;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration as Time, Instant};

const ITEM: usize = 4096;

/// Numbers the items that it pushes, or checks the numbers of those that it pops.
struct Counting;

impl Jobs for Counting {
    fn run(&self, name: &str, arguments: Value, job: &Job) -> Result<Value, String> {
        let rings: Vec<RingName> =
            serde_json::from_value(arguments["rings"].clone()).map_err(|e| e.to_string())?;
        let count = arguments["count"].as_u64().unwrap_or(0);
        let pace = Time::from_micros(arguments["pace_us"].as_u64().unwrap_or(0));
        let mut idle = 0;
        let mut wait = |moved: bool| {
            idle = if moved || job.progress().drive() {
                0
            } else {
                idle + 1
            };
            job.progress().relax(idle);
        };
        match name {
            "produce" => {
                let mut producers = Vec::new();
                for ring in &rings {
                    producers.push(job.producer(ring)?);
                }
                let mut next = 0;
                while next < count && !job.is_stopped() {
                    let mut item = [0; ITEM];
                    item[..8].copy_from_slice(&next.to_le_bytes());
                    item[ITEM - 8..].copy_from_slice(&next.to_le_bytes());
                    let moved = producers
                        .iter_mut()
                        .all(|producer| producer.push(&item).is_ok());
                    next += u64::from(moved);
                    wait(moved);
                    std::thread::sleep(pace);
                    if producers[0].is_aborted() {
                        return Err("the flow was broken off".into());
                    }
                }
                producers.iter_mut().for_each(|producer| producer.finish());
                while producers
                    .iter_mut()
                    .any(|producer| !producer.is_delivered())
                    && !job.is_stopped()
                {
                    wait(false);
                }
                Ok(json!(next))
            }
            "consume" => {
                let mut consumer = job.consumer(&rings[0])?;
                let mut next = 0u64;
                while !job.is_stopped() {
                    let mut item = [0; ITEM];
                    match consumer.pop(&mut item) {
                        Taken::Items(()) => {
                            if item[..8] != next.to_le_bytes()
                                || item[ITEM - 8..] != next.to_le_bytes()
                            {
                                return Err(format!("item {next} is not what was sent"));
                            }
                            next += 1;
                            job.report(next);
                            wait(true);
                        }
                        Taken::Empty => wait(false),
                        Taken::Ended => return Ok(json!(next)),
                        Taken::Aborted => return Err("the flow was broken off".into()),
                    }
                }
                Err("stopped".into())
            }
            other => Err(format!("no job {other:?}")),
        }
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

struct Rack {
    config: RackConfig,
    folder: PathBuf,
}

impl Rack {
    fn new(name: &str, link: LinkKind) -> Self {
        let folder = std::env::temp_dir().join(format!("rw-{name}-{}", std::process::id()));
        let hosted = HostedSection {
            control: free_port(),
            security: SecurityKind::Plain,
            directory: Some(folder.clone()),
            link,
            udp: UdpSocket::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap(),
            heartbeat_ms: 20,
            dead_after_ms: 2000,
            ..HostedSection::default()
        };
        let config = RackConfig {
            memory_limit: 64 << 20,
            node: vec![
                NodeConfig::new("a", Role::Storage),
                NodeConfig::new("b", Role::Compute),
            ],
            hosted: Some(hosted),
            ..RackConfig::default()
        };
        Self { config, folder }
    }

    fn switch(&self) -> SwitchProcess {
        SwitchProcess::new(SwitchOptions {
            config: self.config.clone(),
            listen: None,
        })
        .unwrap()
    }

    fn node(&self, name: &str) -> Result<NodeProcess, HostedError> {
        NodeProcess::new(NodeOptions {
            config: self.config.clone(),
            name: name.into(),
            controller: None,
            jobs: Arc::new(Counting),
        })
    }

    /// Runs switch and nodes on threads while `act` runs.
    fn run(&self, act: impl FnOnce(&AtomicBool)) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let switch = self.switch();
            let stop = &stop;
            scope.spawn(move || switch.run(stop, &|event| println!("switch: {event:?}")));
            for name in ["a", "b"] {
                let node = self.node(name).unwrap();
                scope.spawn(move || {
                    node.run(stop, &|event| println!("{name}: {event:?}"))
                        .unwrap();
                });
            }
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(stop)));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Runs `count` items from node a to node b, and demands that both ends say so.
fn run_flow(rack: &mut HostedRack, count: u64) -> HostedFlow {
    let flow = rack
        .create_flow(&[NodeId(0)], &[NodeId(1)], ITEM as u32, 256 << 10)
        .unwrap();
    let consume = json!({ "rings": [flow.consumers[0]], "count": count });
    let produce = json!({ "rings": flow.of_producer(0), "count": count });
    let jobs = [
        (
            NodeId(1),
            rack.start_job(NodeId(1), "consume", consume).unwrap(),
        ),
        (
            NodeId(0),
            rack.start_job(NodeId(0), "produce", produce).unwrap(),
        ),
    ];
    for (node, job) in jobs {
        let mut status = JobStatus::Running { done: 0 };
        eventually("the flow ends", || {
            status = rack.poll_job(node, job).unwrap();
            !matches!(status, JobStatus::Running { .. })
        });
        let result = json!(count);
        assert_eq!(status, JobStatus::Done { result });
    }
    assert_eq!(rack.flow_status(flow.id).unwrap(), FlowStatus::Ended);
    flow
}

fn items_pass(link: LinkKind) {
    let rack = Rack::new(link.name(), link);
    rack.run(|_| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        let status = client.wait_for_nodes(Time::from_secs(10)).unwrap();
        assert!(status.nodes.iter().all(|node| node.mtu == Some(4096)));
        for count in [0, 1000] {
            run_flow(&mut client, count);
        }
        let counters = client.node_counters(NodeId(1)).unwrap();
        assert!(counters["rcvd_pkts"] > 1000 || link == LinkKind::SharedMemory);
        assert_eq!(client.status().unwrap().lanes_used, 0);
    });
}

#[test]
fn items_pass_through_shared_memory() {
    items_pass(LinkKind::SharedMemory);
}

#[test]
fn items_pass_through_unix_datagrams() {
    items_pass(LinkKind::Unix);
}

#[test]
fn items_pass_through_udp() {
    items_pass(LinkKind::Udp);
}

/// Waits until `holds`.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Time::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Time::from_millis(5));
    }
}

/// A process on a thread, to be stopped alone.
fn while_running<R>(run: impl FnOnce(&AtomicBool) + Send, act: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || run(stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_switch(rack: &Rack) -> impl FnOnce(&AtomicBool) + Send {
    let switch = rack.switch();
    move |stop| switch.run(stop, &|event| println!("switch: {event:?}"))
}

fn run_node(rack: &Rack, name: &'static str) -> impl FnOnce(&AtomicBool) + Send {
    let node = rack.node(name).unwrap();
    move |stop| {
        node.run(stop, &|event| println!("{name}: {event:?}"))
            .unwrap();
    }
}

/// A flow without end: its jobs.
fn endless(rack: &mut HostedRack) -> (HostedFlow, [(NodeId, u64); 2]) {
    let flow = rack
        .create_flow(&[NodeId(0)], &[NodeId(1)], ITEM as u32, 256 << 10)
        .unwrap();
    let count = u64::MAX;
    let consume = json!({ "rings": [flow.consumers[0]], "count": count });
    let produce = json!({ "rings": flow.of_producer(0), "count": count });
    let jobs = [
        (
            NodeId(1),
            rack.start_job(NodeId(1), "consume", consume).unwrap(),
        ),
        (
            NodeId(0),
            rack.start_job(NodeId(0), "produce", produce).unwrap(),
        ),
    ];
    let (node, job) = jobs[0];
    eventually(
        "no item arrives",
        || matches!(rack.poll_job(node, job).unwrap(), JobStatus::Running { done } if done > 10),
    );
    (flow, jobs)
}

fn broken_off() -> JobStatus {
    let error = "the flow was broken off".into();
    JobStatus::Failed { error }
}

#[test]
fn a_node_that_dies_takes_its_flows_along_and_can_come_back() {
    let rack = Rack::new("dies", LinkKind::SharedMemory);
    while_running(run_switch(&rack), || {
        while_running(run_node(&rack, "a"), || {
            let mut client = HostedRack::connect(&rack.config).unwrap();
            let (flow, jobs) = while_running(run_node(&rack, "b"), || {
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                endless(&mut client)
            });
            eventually(
                "the death is noticed",
                || matches!(client.flow_status(flow.id).unwrap(), FlowStatus::Aborted { reason } if reason == "b has died"),
            );
            let (node, job) = jobs[1];
            eventually("the producer is told", || {
                client.poll_job(node, job).unwrap() == broken_off()
            });
            let error = client
                .poll_job(jobs[0].0, jobs[0].1)
                .unwrap_err()
                .to_string();
            assert!(error.contains("b has not joined or has died"), "{error}");
            while_running(run_node(&rack, "b"), || {
                let status = client.wait_for_nodes(Time::from_secs(10)).unwrap();
                assert_eq!(status.nodes[1].joins, 2);
                run_flow(&mut client, 500);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn nodes_outlive_the_switch_and_join_again() {
    let rack = Rack::new("outlives", LinkKind::Unix);
    while_running(run_node(&rack, "a"), || {
        while_running(run_node(&rack, "b"), || {
            let mut client = while_running(run_switch(&rack), || {
                eventually("the switch is up", || {
                    HostedRack::connect(&rack.config).is_ok()
                });
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                endless(&mut client);
                client
            });
            assert!(client.status().is_err(), "the switch has gone");
            while_running(run_switch(&rack), || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                run_flow(&mut client, 500);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn another_switch_process_takes_a_flow_over() {
    for link in [LinkKind::SharedMemory, LinkKind::Udp] {
        let rack = Rack::new("takeover", link);
        let count = 3000u64;
        while_running(run_node(&rack, "a"), || {
            while_running(run_node(&rack, "b"), || {
                let (mut client, mut over, mut flow, jobs) =
                    while_running(run_switch(&rack), || {
                        eventually("the switch is up", || {
                            HostedRack::connect(&rack.config).is_ok()
                        });
                        let mut client = HostedRack::connect(&rack.config).unwrap();
                        client.wait_for_nodes(Time::from_secs(10)).unwrap();
                        let ends = (&[NodeId(0)][..], &[NodeId(1)][..]);
                        let over = run_flow(&mut client, 5);
                        let flow = client
                            .create_flow(ends.0, ends.1, ITEM as u32, 64 << 10)
                            .unwrap();
                        let consume = json!({ "rings": [flow.consumers[0]], "count": count });
                        let rings = flow.of_producer(0);
                        let produce = json!({ "rings": rings, "count": count, "pace_us": 100 });
                        let jobs = [(1, "consume", consume), (0, "produce", produce)];
                        let jobs = jobs.map(|(node, name, arguments)| {
                            let node = NodeId(node);
                            (node, client.start_job(node, name, arguments).unwrap())
                        });
                        eventually("some items arrive", || {
                            match client.poll_job(jobs[0].0, jobs[0].1).unwrap() {
                                JobStatus::Running { done } => done > 20,
                                other => panic!("too early: {other:?}"),
                            }
                        });
                        (client, over, flow, jobs)
                    });
                assert!(client.status().is_err(), "the switch has gone");
                while_running(run_switch(&rack), || {
                    let limit = Time::from_secs(10);
                    client
                        .reconnect(&mut [&mut over, &mut flow], limit)
                        .unwrap();
                    assert_eq!(over.id, HostedFlow::OVER);
                    assert_eq!(client.flow_status(over.id).unwrap(), FlowStatus::Unknown);
                    // A second time it is refused, and nothing happens to the flow.
                    let mut other = HostedRack::connect(&rack.config).unwrap();
                    let again = other.reconnect(&mut [&mut flow.clone()], limit);
                    let error = again.unwrap_err().to_string();
                    assert!(error.contains("belongs to a flow that runs"), "{error}");
                    for (node, job) in jobs {
                        eventually("the flow ends", || {
                            let status = client.poll_job(node, job).unwrap();
                            let result = json!(count);
                            match status {
                                JobStatus::Running { .. } => false,
                                status => {
                                    assert_eq!(status, JobStatus::Done { result });
                                    true
                                }
                            }
                        });
                    }
                });
            });
        });
        std::fs::remove_dir_all(&rack.folder).unwrap();
    }
}

#[test]
fn a_command_that_goes_leaves_nothing_behind() {
    let rack = Rack::new("leaves", LinkKind::SharedMemory);
    rack.run(|_| {
        let mut other = HostedRack::connect(&rack.config).unwrap();
        other.wait_for_nodes(Time::from_secs(10)).unwrap();
        {
            let mut client = HostedRack::connect(&rack.config).unwrap();
            endless(&mut client);
            assert!(other.status().unwrap().lanes_used > 0);
        }
        eventually("the flow is closed", || {
            other.status().unwrap().lanes_used == 0
        });
    });
}

#[test]
fn with_keys_only_those_of_the_rack_come_in() {
    let mut rack = Rack::new("keys", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().security = SecurityKind::Tls;
    let keys = rack.config.hosted().keys();
    let error = rack.node("a").err().expect("no keys yet").to_string();
    assert!(error.contains("rackweave keygen"), "{error}");
    let names = ["a", "b", OPERATOR_NAME, rackweave_control::CONTROLLER_NAME];
    rackweave_control::keys::keygen(&keys, &names).unwrap();
    rack.run(|_| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        client.wait_for_nodes(Time::from_secs(10)).unwrap();
        run_flow(&mut client, 100);
        // The keys of another rack.
        let mut other = rack.config.clone();
        let foreign = rack.folder.join("foreign");
        rackweave_control::keys::keygen(&foreign, &names).unwrap();
        other.hosted.as_mut().unwrap().keys = Some(foreign);
        let error = HostedRack::connect(&other)
            .err()
            .expect("a wrong key")
            .to_string();
        assert!(error.contains("key"), "{error}");
        assert!(client.status().is_ok(), "nobody else is disturbed");
    });
}

#[test]
fn a_name_is_taken_once_and_a_foreign_configuration_refused() {
    let rack = Rack::new("names", LinkKind::Unix);
    rack.run(|stop| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        client.wait_for_nodes(Time::from_secs(10)).unwrap();
        // Its socket is taken too, which is seen first.
        let error = rack.node("a").unwrap().run(stop, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        let error = rack.node("other").err().expect("no such node");
        assert!(error.to_string().contains("a, b"), "{error}");
        let mut other = rack.config.clone();
        other.nic.mtu = 1024;
        let error = HostedRack::connect(&other)
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains("rack.toml"), "{error}");
    });
}
