//! Operations that wait for a node that has not replied yet, and operations that must not.

use super::flows::endless;
use super::proxy::{Gate, proxy};
use super::*;
use std::thread::Scope;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const S: NodeId = NodeId(2);

/// A rack with one more node, whose nodes may delay a reply for long.
fn patient(name: &str, link: LinkKind) -> Rack {
    let mut rack = Rack::new(name, link);
    rack.config.node.push(NodeConfig::new("s", Role::Compute));
    rack.config.hosted.as_mut().unwrap().dead_after_ms = 30_000;
    rack
}

/// A node whose replies pass a gate.
pub(super) fn gated(rack: &Rack, name: &str) -> (NodeProcess, Gate) {
    let gate = Gate::default();
    let passing = gate.clone();
    let through = proxy(rack.config.hosted().control, move || passing.pass());
    (rack.node_by(name, Some(through)).unwrap(), gate)
}

/// A configuration for programs whose replies pass a gate.
pub(super) fn through_gate(rack: &Rack) -> (RackConfig, Gate) {
    let (gate, hosted) = (Gate::default(), rack.config.hosted());
    let passing = gate.clone();
    let hosted = HostedSection {
        control: proxy(hosted.control, move || passing.pass()),
        ..hosted
    };
    let through = RackConfig {
        hosted: Some(hosted),
        ..rack.config.clone()
    };
    (through, gate)
}

fn run(node: &NodeProcess) -> impl FnOnce(&AtomicBool) + Send {
    |stop| node.run(stop, &|event| println!("{event:?}")).unwrap()
}

fn await_joins(client: &mut HostedRack, nodes: &[(NodeId, u64)]) {
    eventually("the nodes join", || {
        let status = client.status().unwrap();
        nodes.iter().all(|&(node, joins)| {
            let node = &status.nodes[usize::from(node.0)];
            node.joined && node.joins == joins
        })
    });
}

fn await_no_lanes(client: &mut HostedRack) {
    eventually("no lane is left", || {
        client.status().unwrap().lanes_used == 0
    });
}

/// Runs another command on a thread, whose handle shows whether it is done.
fn meanwhile<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    rack: &'scope Rack,
    act: impl FnOnce(&mut HostedRack) -> R + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, R> {
    let mut client = HostedRack::connect(&rack.config).unwrap();
    scope.spawn(move || act(&mut client))
}

/// While a flow is set up with node s, and another with s as a member is taken down, s holds its
/// replies back. Other commands set up, use and close flows, and nodes join and die, before s
/// replies.
#[test]
fn a_node_that_keeps_its_answers_keeps_only_its_own_flows_waiting() {
    for link in [LinkKind::SharedMemory, LinkKind::Udp] {
        let rack = patient("waiting", link);
        while_running(run_switch(&rack), || {
            let (s, gate) = gated(&rack, "s");
            let a = rack.node("a").unwrap();
            while_running(run(&s), || {
                while_running(run(&a), || {
                    others_go_on(&rack, &a, &gate);
                    eventually("nothing is left", || {
                        a.core.owes_nothing() && s.core.owes_nothing()
                    });
                });
            });
        });
        std::fs::remove_dir_all(&rack.folder).unwrap();
    }
}

fn others_go_on(rack: &Rack, a: &NodeProcess, gate: &Gate) {
    let mut client = HostedRack::connect(&rack.config).unwrap();
    await_joins(&mut client, &[(A, 1), (S, 1)]);
    let over = client.create_flow(&[S], &[A], ITEM as u32, 64 << 10);
    let over = over.unwrap();
    let produce = json!({ "rings": over.of_producer(0), "count": 20 });
    client.start_job(S, "produce", produce).unwrap();
    gate.close_after(0);
    gate.wait_until_it_keeps();
    // The stream ends without the controller, which then takes the flow down.
    let consume = json!({ "rings": [over.consumers[0]] });
    let consume = client.start_job(A, "consume", consume).unwrap();
    eventually("the stream ends", || {
        matches!(client.poll_job(A, consume).unwrap(), JobStatus::Done { .. })
    });
    std::thread::scope(|scope| {
        let taken_down = meanwhile(scope, rack, |client| {
            loop {
                match client.flow_status(over.id).unwrap() {
                    FlowStatus::Running => std::thread::yield_now(),
                    status => break status,
                }
            }
        });
        let rings = a.core.regions.list().len();
        let set_up = meanwhile(scope, rack, |client| {
            let flow = client.create_flow(&[S], &[A], ITEM as u32, 64 << 10)?;
            client.close_flow(flow.id)
        });
        eventually("the consumer's ring is made", || {
            a.core.regions.list().len() > rings
        });
        let broken = while_running(run_node(rack, "b"), || {
            await_joins(&mut client, &[(B, 1)]);
            run_flow(&mut client, 500);
            endless(&mut client).0
        });
        eventually("the death is noticed", || {
            let status = client.flow_status(broken.id).unwrap();
            matches!(status, FlowStatus::Aborted { reason } if reason == "b has died")
        });
        while_running(run_node(rack, "b"), || {
            await_joins(&mut client, &[(B, 2)]);
            let flow = client.create_flow(&[B], &[A], ITEM as u32, 64 << 10);
            client.close_flow(flow.unwrap().id).unwrap();
        });
        assert!(!taken_down.is_finished(), "an answer is still due");
        assert!(!set_up.is_finished(), "an answer is still due");
        gate.open();
        assert_eq!(taken_down.join().unwrap(), FlowStatus::Ended);
        set_up.join().unwrap().unwrap();
    });
    await_no_lanes(&mut client);
}

/// Node s is disconnected while a flow with it is set up, at many points of the set-up: node a, the
/// other member, holds its replies back from that point on until s is gone. The flow is not set up,
/// or is aborted afterwards, and nothing of it is left anywhere.
#[test]
fn a_member_that_dies_while_its_flow_is_set_up_takes_the_flow_along() {
    let rack = patient("midway", LinkKind::Udp);
    let switch = rack.switch();
    let core = switch.core.clone();
    let run_switch = |stop: &AtomicBool| switch.run(stop, &|event| println!("switch: {event:?}"));
    let (mut refused, mut broken) = (0, 0);
    while_running(run_switch, || {
        let (a, gate) = gated(&rack, "a");
        let s = rack.node("s").unwrap();
        while_running(run(&s), || {
            while_running(run(&a), || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                // As either end, since the last request differs. There are some fifty requests in
                // all.
                let points = (0..72).step_by(6);
                for (answers, ends) in points.flat_map(|n| [(n, [A, S]), (n, [S, A])]) {
                    let joins = 1 + refused + broken;
                    await_joins(&mut client, &[(A, 1), (S, joins)]);
                    gate.close_after(answers);
                    let [from, to] = ends;
                    let made = std::thread::scope(|scope| {
                        let made = meanwhile(scope, &rack, |client| {
                            let made = client.create_flow(&[from], &[to], ITEM as u32, 64 << 10);
                            made.map(|flow| {
                                let mut status = FlowStatus::Running;
                                eventually("the death is noticed", || {
                                    status = client.flow_status(flow.id).unwrap();
                                    status != FlowStatus::Running
                                });
                                status
                            })
                        });
                        gate.wait_until_it_keeps();
                        core.member(S).unwrap().cut();
                        gate.open();
                        made.join().unwrap()
                    });
                    match made {
                        Ok(FlowStatus::Aborted { reason }) => {
                            assert_eq!(reason, "s has died");
                            broken += 1;
                        }
                        Ok(status) => panic!("{status:?}"),
                        Err(_) => refused += 1,
                    }
                    await_no_lanes(&mut client);
                    eventually("nothing is left", || {
                        a.core.owes_nothing() && s.core.owes_nothing()
                    });
                }
            });
        });
    });
    assert!(refused > 0 && broken > 0, "{refused} {broken}");
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// Commands make and close flows concurrently while node s is disconnected repeatedly. Flows
/// without s always succeed; at the end all resources are free again.
#[test]
fn flows_and_deaths_at_once_leave_nothing_behind() {
    const COMMANDS: usize = 4;
    let mut rack = patient("crowd", LinkKind::SharedMemory);
    // As many as all commands may have at a time: a ring that is not freed is soon missing.
    rack.config.switch.consumer_rings = 2 * COMMANDS as u16;
    rack.config.switch.producer_rings = 2 * COMMANDS as u16;
    let switch = rack.switch();
    let core = switch.core.clone();
    let run_switch = |stop: &AtomicBool| switch.run(stop, &|event| println!("switch: {event:?}"));
    let nodes = ["a", "b", "s"].map(|name| rack.node(name).unwrap());
    let [a, b, s] = &nodes;
    let make_flows = |client: &mut HostedRack, own: usize| {
        for at in own..own + 24 {
            let others = [A, B, S];
            let ends = [others[at % 3], others[(at / 3) % 3]];
            let made = client.create_flow(&ends[..1], &ends[1..], ITEM as u32, 64 << 10);
            match made {
                Ok(flow) => client.close_flow(flow.id).unwrap(),
                Err(error) => assert!(ends.contains(&S), "{ends:?}: {error}"),
            }
        }
    };
    while_running(run_switch, || {
        while_running(run(a), || {
            while_running(run(b), || {
                while_running(run(s), || {
                    let mut client = HostedRack::connect(&rack.config).unwrap();
                    await_joins(&mut client, &[(A, 1), (B, 1), (S, 1)]);
                    let joins = std::thread::scope(|scope| {
                        let commands: [_; COMMANDS] = core::array::from_fn(|own| {
                            meanwhile(scope, &rack, move |client| make_flows(client, own))
                        });
                        let mut joins = 1;
                        while commands.iter().any(|command| !command.is_finished()) {
                            core.member(S).unwrap().cut();
                            joins += 1;
                            await_joins(&mut client, &[(S, joins)]);
                        }
                        for command in commands {
                            command.join().unwrap();
                        }
                        joins
                    });
                    assert!(joins > 1, "s was never cut off");
                    await_no_lanes(&mut client);
                    eventually("nothing is left", || {
                        nodes.iter().all(|node| node.core.owes_nothing())
                    });
                    let all = [B; 2 * COMMANDS];
                    let flow = client.create_flow(&[A], &all, ITEM as u32, 64 << 10);
                    flow.expect("all numbers are free");
                });
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
