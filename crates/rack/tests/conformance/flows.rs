//! Flows: shuffle, replication, members.

use crate::AMPLE;
use rackweave_base::NodeId;
use rackweave_controller::{FlowShape, FlowState};
use rackweave_endpoint::flow::{Consumer, Producer, Taken};
use rackweave_rack::services::wait_within;
use rackweave_rack::{Flow, Node, Rack};

const ITEM: u32 = 64;
const ITEMS: u64 = 100;

fn ids(rack: &Rack, names: [&str; 2]) -> [NodeId; 2] {
    names.map(|name| rack.node(name).expect("it is here").id())
}

fn item(number: u64) -> [u8; ITEM as usize] {
    let mut bytes = [number as u8; ITEM as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn push(node: &Node, producer: &mut Producer, number: u64) {
    let pushed = wait_within(node, AMPLE, || producer.push(&item(number)).ok());
    assert_eq!(pushed, Some(()), "item {number} finds room");
}

/// The next item of a consumer; nothing at the end of the stream.
fn pop(node: &Node, consumer: &mut Consumer) -> Option<u64> {
    let mut bytes = [0; ITEM as usize];
    let taken = wait_within(node, AMPLE, || match consumer.pop(&mut bytes) {
        Taken::Empty => None,
        taken => Some(taken),
    });
    match taken.expect("something comes") {
        Taken::Items(()) => {
            let number = u64::from_le_bytes(*bytes.first_chunk().expect("it is long enough"));
            assert_eq!(bytes, item(number), "whole");
            Some(number)
        }
        Taken::Ended => None,
        other => panic!("{other:?}"),
    }
}

fn all(node: &Node, consumer: &mut Consumer) -> Vec<u64> {
    core::iter::from_fn(|| pop(node, consumer)).collect()
}

fn ended(rack: &Rack, flow: &Flow) {
    let state = wait_within(&rack.any_node(), AMPLE, || {
        rack.flow_state(flow.id)
            .filter(|state| *state != FlowState::Running)
    });
    assert_eq!(state, Some(FlowState::Ended));
}

pub fn a_shuffle_brings_each_item_once(rack: &Rack) {
    let (from, to) = (
        ids(rack, ["storage0", "storage1"]),
        ids(rack, ["compute0", "compute1"]),
    );
    let spec = rack.flow_spec(&from, &to, ITEM, 1 << 14);
    let flow = rack.create_flow(spec).expect("there is room");
    let node = rack.any_node();
    for index in 0..2u64 {
        let mut rings = flow.producers(index as usize).expect("they are here");
        for number in 0..ITEMS {
            let ring = &mut rings[number as usize % 2];
            push(&node, ring, index * ITEMS + number);
        }
        rings.iter_mut().for_each(Producer::finish);
    }
    for index in 0..2 {
        let mut consumer = flow.consumer(index).expect("it is here");
        let mut came = all(&node, &mut consumer);
        came.sort_unstable();
        let expected = (0..2 * ITEMS).filter(|number| number % 2 == index as u64);
        assert_eq!(came, expected.collect::<Vec<_>>());
    }
    ended(rack, &flow);
    assert_eq!(rack.losses(flow.id), []);
}

pub fn replicas_see_one_order(rack: &Rack) {
    let (from, to) = (
        ids(rack, ["storage0", "storage1"]),
        ids(rack, ["compute0", "compute1"]),
    );
    let mut spec = rack.flow_spec(&from, &to, ITEM, 1 << 14);
    spec.shape = FlowShape::Replicate;
    let flow = rack.create_flow(spec).expect("there is room");
    let node = rack.any_node();
    let mut rings = [0, 1].map(|at| flow.producers(at).expect("they are here").remove(0));
    for number in 0..ITEMS {
        for (at, ring) in rings.iter_mut().enumerate() {
            push(&node, ring, at as u64 * ITEMS + number);
        }
    }
    rings.iter_mut().for_each(Producer::finish);
    let came = [0, 1].map(|at| all(&node, &mut flow.consumer(at).expect("it is here")));
    assert_eq!(came[0], came[1], "one order everywhere");
    assert_eq!(came[0].len() as u64, 2 * ITEMS);
    ended(rack, &flow);
}

pub fn members_come_and_go(rack: &Rack) {
    let (from, to) = (
        ids(rack, ["storage0", "storage1"]),
        ids(rack, ["compute0", "compute1"]),
    );
    let mut spec = rack.flow_spec(&from[..1], &to[..1], ITEM, 1 << 14);
    spec.shape = FlowShape::Balance;
    let mut flow = rack.create_flow(spec).expect("there is room");
    let node = rack.any_node();
    let mut first = flow.producers(0).expect("it is here").remove(0);
    push(&node, &mut first, 0);
    let mut consumers = vec![flow.consumer(0).expect("it is here")];
    assert_eq!(pop(&node, &mut consumers[0]), Some(0));
    assert_eq!(rack.add_consumer(&mut flow, to[1]), Ok(1));
    assert_eq!(rack.add_producer(&mut flow, from[1]), Ok(1));
    assert_eq!(rack.set_weight(flow.id, Some(3)), Ok(()));
    consumers.push(flow.consumer(1).expect("it is here"));
    let mut second = flow.producers(1).expect("it is here").remove(0);
    for number in 1..ITEMS {
        push(&node, &mut first, number);
        push(&node, &mut second, ITEMS + number);
    }
    first.finish();
    second.finish();
    let mut came: Vec<_> = consumers.iter_mut().flat_map(|it| all(&node, it)).collect();
    came.sort_unstable();
    let expected = (1..ITEMS).chain(ITEMS + 1..2 * ITEMS);
    assert_eq!(came, expected.collect::<Vec<_>>());
    ended(rack, &flow);
    assert!(rack.remove_consumer(flow.id, 1).is_err(), "it has ended");
}

pub fn one_that_is_closed_says_so(rack: &Rack) {
    let (from, to) = (
        ids(rack, ["storage0", "storage1"]),
        ids(rack, ["compute0", "compute1"]),
    );
    let flow = rack.create_flow(rack.flow_spec(&from, &to, ITEM, 1 << 14));
    let flow = flow.expect("there is room");
    rack.close_flow(flow.id);
    let state = rack.flow_state(flow.id).expect("it is known");
    assert!(matches!(state, FlowState::Aborted(_)), "{state:?}");
    let mut consumer = flow.consumer(0).expect("its memory is kept");
    let told = wait_within(&rack.any_node(), AMPLE, || {
        matches!(consumer.pop(&mut [0; ITEM as usize]), Taken::Aborted).then_some(())
    });
    assert_eq!(told, Some(()), "its consumer is told");
    let refused = rack.create_flow(rack.flow_spec(&from, &to, 7, 1 << 14));
    let error = refused.expect_err("items are multiples of eight bytes");
    assert!(error.to_string().contains('7'), "{error}");
}
