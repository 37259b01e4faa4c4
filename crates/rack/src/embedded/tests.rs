//! An embedded rack with and without driver threads.

use super::*;
use crate::config::FaultSection;
use core::sync::atomic::Ordering;
use rackweave_base::Qpn;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::{PushError, Taken, wait_until};
use rackweave_verbs::{Access, CompletionStatus, Operation, QpCapabilities, Region, WorkRequest};

fn rack(driver_threads: u32, faults: FaultSection) -> EmbeddedRack {
    let config = RackConfig {
        driver_threads,
        faults,
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    EmbeddedRack::new(&config).unwrap()
}

/// What is to be done about the request does not matter here.
#[test]
fn a_request_to_the_controller_needs_no_doorbell() {
    let rack = rack(0, FaultSection::default());
    let node = rack.node_at(NodeId(0));
    while node.drive() {}
    let alarm = rack.shared().page_alarm();
    alarm.store(true, Ordering::Release);
    node.drive();
    assert!(!alarm.load(Ordering::Acquire), "nobody has looked at it");
}

/// Moves `items` items through a flow of two producers and two consumers, all in this thread.
fn shuffle(rack: &EmbeddedRack, items: u32) {
    let (sources, targets) = ([NodeId(0), NodeId(1)], [NodeId(2), NodeId(3)]);
    let flow = rack
        .flow(&sources, &targets)
        .item_bytes(1024)
        .ring_bytes(64 << 10)
        .build()
        .unwrap();
    let mut producers: Vec<_> = (0..2)
        .flat_map(|at| flow.take_producers(at).unwrap())
        .collect();
    let mut consumers: Vec<_> = (0..2).map(|at| flow.take_consumer(at).unwrap()).collect();
    let mut left = vec![items; producers.len()];
    let mut ended = [false; 2];
    let (mut received, mut sum) = (0, 0u64);
    let progress = rack.progress();
    wait_until(&*progress, || {
        for (producer, left) in producers.iter_mut().zip(&mut left) {
            while *left > 0 {
                let mut item = [0; 1024];
                item[..4].copy_from_slice(&left.to_le_bytes());
                match producer.push(&item) {
                    Ok(()) => *left -= 1,
                    Err(error) => {
                        assert_eq!(error, PushError::Full);
                        break;
                    }
                }
                if *left == 0 {
                    producer.finish();
                }
            }
        }
        for (at, consumer) in consumers.iter_mut().enumerate() {
            loop {
                match consumer.peek(1) {
                    Taken::Items(item) => {
                        sum += u64::from(u32::from_le_bytes(item.array(0)));
                        received += 1;
                        consumer.release(1);
                    }
                    Taken::Ended => ended[at] = true,
                    Taken::Empty => {}
                    Taken::Aborted => panic!("{:?}", flow.state()),
                }
                if ended[at] || consumer.peek(1) == Taken::Empty {
                    break;
                }
            }
        }
        (ended == [true; 2]).then_some(())
    });
    assert_eq!(received, 4 * items);
    assert_eq!(sum, 4 * u64::from(items) * (u64::from(items) + 1) / 2);
}

#[test]
fn a_shuffle_needs_no_thread() {
    shuffle(&rack(0, FaultSection::default()), 500);
}

#[test]
fn a_shuffle_with_two_driver_threads() {
    shuffle(&rack(2, FaultSection::default()), 500);
}

#[test]
fn a_shuffle_over_bad_links() {
    let mut config = RackConfig {
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    config.faults = FaultSection {
        loss: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.02,
        ..Default::default()
    };
    config.transfer.timeout_us = 2000;
    shuffle(&EmbeddedRack::new(&config).unwrap(), 100);
}

fn region(rack: &EmbeddedRack, node: NodeId) -> (Region, rackweave_verbs::CqId, Qpn) {
    let block = rack.memory().allocate(4096).unwrap();
    rack.node_at(node).with(|nic| {
        let pd = nic.create_pd();
        let region = nic.register(pd, block, Access::all()).unwrap();
        let cq = nic.create_cq(16).unwrap();
        let qpn = nic
            .create_qp(pd, cq, cq, QpCapabilities::default())
            .unwrap();
        (region, cq, qpn)
    })
}

#[test]
fn one_sided_operations_go_from_node_to_node() {
    let rack = rack(1, FaultSection::default());
    let (near, cq, near_qp) = region(&rack, NodeId(0));
    let (far, _, far_qp) = region(&rack, NodeId(3));
    let ends = ((NodeId(0), near_qp), (NodeId(3), far_qp));
    rack.connect(ends.0, ends.1, &PairAttributes::default())
        .unwrap();
    far.block.write(100, b"remote memory");
    let read = Operation::Read {
        address: far.address + 100,
        rkey: far.rkey,
    };
    let request = WorkRequest::new(7, read, &[near.segment(0, 13)]);
    let node = rack.node_at(NodeId(0));
    node.with(|nic| nic.post_send(near_qp, request)).unwrap();
    let progress = rack.progress();
    let completion = wait_until(&*progress, || {
        let mut completions = Vec::new();
        node.poll(|nic| nic.poll_cq(cq, 1, &mut completions));
        completions.pop()
    });
    assert_eq!(
        (completion.id, completion.status),
        (7, CompletionStatus::Success)
    );
    let mut bytes = [0; 13];
    near.block.read(0, &mut bytes);
    assert_eq!(&bytes, b"remote memory");
}

#[test]
fn keys_of_equal_racks_differ() {
    let config = RackConfig::default();
    let keys = || {
        let rack = EmbeddedRack::new(&config).unwrap();
        let keys: Vec<_> = (0..4).map(|at| region(&rack, NodeId(at)).0.rkey).collect();
        (keys, rack.identity())
    };
    let (first, second) = (keys(), keys());
    assert_ne!(first.0, second.0, "every key of both racks");
    assert_ne!(first.1, second.1);
}

#[test]
fn a_crash_breaks_the_flow_off_and_tells_the_others() {
    let rack = rack(1, FaultSection::default());
    let flow = rack
        .flow(&[NodeId(0), NodeId(1)], &[NodeId(2)])
        .item_bytes(64)
        .ring_bytes(4096)
        .build()
        .unwrap();
    rack.crash_node(NodeId(1));
    let state = flow.state();
    assert_eq!(format!("{state:?}"), "Aborted(NodeDied(node1))");
    assert_eq!(flow.take_consumer(0).unwrap().peek(1), Taken::Aborted);
}

#[test]
fn a_restart_of_the_switch_goes_unnoticed() {
    let rack = rack(1, FaultSection::default());
    let flow = rack
        .flow(&[NodeId(0)], &[NodeId(2)])
        .item_bytes(64)
        .ring_bytes(4096)
        .build()
        .unwrap();
    let mut producer = flow.take_producer(0).unwrap();
    let mut consumer = flow.take_consumer(0).unwrap();
    let progress = rack.progress();
    let (mut pushed, mut popped) = (0u64, 0u64);
    for round in 0..50 {
        let goal = (round + 1) * 100;
        wait_until(&*progress, || {
            while pushed < goal && producer.push(&pushed.to_le_bytes()).is_ok() {
                pushed += 1;
            }
            let mut item = [0; 64];
            while consumer.pop(&mut item) == Taken::Items(()) {
                assert_eq!(item[..8], popped.to_le_bytes());
                popped += 1;
            }
            (pushed == goal && (popped == goal || round % 2 == 0)).then_some(())
        });
        rack.restart_switch().unwrap();
    }
}

/// Threads push and pop while members of the flow join and leave.
#[test]
fn members_come_and_go_under_threads() {
    use rackweave_controller::FlowShape;
    use std::thread;
    const ITEMS: u64 = 20_000;
    for shape in [FlowShape::Balance, FlowShape::Replicate] {
        let rack = rack(1, FaultSection::default());
        let flow = rack.flow([NodeId(0), NodeId(1)], [NodeId(2)]).shape(shape);
        let mut flow = flow.item_bytes(64).ring_bytes(16 << 10).build().unwrap();
        let take = |consumer: rackweave_endpoint::flow::Consumer| {
            let progress = rack.progress();
            move || {
                let mut consumer = consumer;
                let mut popped = Vec::new();
                let mut item = [0; 64];
                wait_until(&*progress, || {
                    match consumer.pop(&mut item) {
                        Taken::Items(()) => {
                            popped.push(u64::from_le_bytes(*item.first_chunk().unwrap()));
                        }
                        Taken::Empty => return None,
                        Taken::Ended => return Some(()),
                        Taken::Aborted => panic!("aborted"),
                    }
                    None
                });
                popped
            }
        };
        let popped = thread::scope(|scope| {
            for at in 0..2 {
                let mut producer = flow.take_producer(at).unwrap();
                let progress = rack.progress();
                scope.spawn(move || {
                    for number in 0..ITEMS {
                        let item = (at as u64) << 32 | number;
                        let pushed = producer.push_wait(&*progress, &item.to_le_bytes());
                        pushed.unwrap();
                    }
                    producer.finish();
                });
            }
            let mut takers = vec![scope.spawn(take(flow.take_consumer(0).unwrap()))];
            for node in [3, 0] {
                let joined = flow.add_consumer(NodeId(node)).unwrap();
                takers.push(scope.spawn(take(flow.take_consumer(joined).unwrap())));
            }
            // It may have ended already; then there is no consumer to remove.
            let _ = flow.remove_consumer(1);
            let done = takers.into_iter().map(|taker| taker.join().unwrap());
            done.collect::<Vec<_>>()
        });
        match shape {
            FlowShape::Replicate => {
                let all = &popped[0];
                assert_eq!(all.len() as u64, 2 * ITEMS);
                assert!(all.ends_with(&popped[2]));
            }
            _ => {
                let mut all = popped.concat();
                all.sort_unstable();
                let expect = (0..2).flat_map(|p| (0..ITEMS).map(move |n| p << 32 | n));
                assert!(all.into_iter().eq(expect), "each item once");
            }
        }
    }
}
