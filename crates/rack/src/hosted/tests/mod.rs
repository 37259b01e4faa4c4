//! A hosted rack on threads: each has its own memory, and they communicate only over links and
//! control connections, as processes do.

mod cables;
mod flows;
mod foreign;
mod listeners;
mod panics;
mod programs;
mod proxy;
mod restart;
mod serving;
mod slow;
mod standby;
mod waiting;

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

#[test]
fn no_node_has_the_name_of_another_party() {
    let others = [rackweave_control::CONTROLLER_NAME, OPERATOR_NAME];
    let mut others = others
        .iter()
        .chain(&rackweave_control::keys::NAMES_RESERVED);
    assert!(others.all(|name| crate::config::hosted::NAMES_RESERVED.contains(name)));
}

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
            dead_after_ms: 10_000,
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
            is_standby: false,
            elector: None,
        })
        .unwrap()
    }

    fn node(&self, name: &str) -> Result<NodeProcess, HostedError> {
        self.node_by(name, None)
    }

    /// A node that finds the controller at another address.
    fn node_by(
        &self,
        name: &str,
        controller: Option<SocketAddr>,
    ) -> Result<NodeProcess, HostedError> {
        NodeProcess::new(NodeOptions {
            config: self.config.clone(),
            name: name.into(),
            controllers: controller.into_iter().collect(),
            jobs: Arc::new(Counting),
            serves_stores: true,
            waits_for_name: true,
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

/// Runs `count` items from node a to node b, and asserts that both ends report so.
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
    // The consumer may know it before the switch has its acknowledgement and reports to the
    // controller.
    eventually("the flow is over", || {
        rack.flow_status(flow.id).unwrap() == FlowStatus::Ended
    });
    flow
}

/// Waits until `holds`.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Time::from_secs(15);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Time::from_millis(5));
    }
}

/// Runs a process on a thread, to be stopped separately.
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
