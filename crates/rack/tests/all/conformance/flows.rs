//! Flows: shuffle, replication, members.

use super::AMPLE;
use rackweave_controller::FlowError;
use rackweave_controller::{FlowShape, FlowState};
use rackweave_endpoint::flow::{Consumer, Producer, Taken};
use rackweave_rack::services::wait_within;
use rackweave_rack::statistics::RackStatistics;
use rackweave_rack::{Flow, Node, Rack};

const ITEM: u32 = 64;
const ITEMS: u64 = 100;

fn item(number: u64) -> [u8; ITEM as usize] {
    let mut bytes = [number as u8; ITEM as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number of an item that has arrived whole.
fn number_of(bytes: &[u8; ITEM as usize]) -> u64 {
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("it is long enough"));
    assert_eq!(*bytes, item(number), "whole");
    number
}

fn push(node: &Node, producer: &mut Producer, number: u64) {
    let pushed = wait_within(node, AMPLE, || producer.push(&item(number)).ok());
    assert_eq!(pushed, Some(()), "item {number} finds room");
}

/// From storage nodes to compute nodes.
fn flow(rack: &Rack, shape: FlowShape, members: usize) -> Flow {
    let (from, to) = (["storage0", "storage1"], ["compute0", "compute1"]);
    let flow = rack.flow(&from[..members], &to[..members]).shape(shape);
    let made = flow.item_bytes(ITEM).ring_bytes(1 << 14).build();
    made.expect("there is room")
}

/// The next item of a consumer; `None` at the end of the stream.
fn pop(node: &Node, consumer: &mut Consumer) -> Option<u64> {
    let mut bytes = [0; ITEM as usize];
    let taken = wait_within(node, AMPLE, || match consumer.pop(&mut bytes) {
        Taken::Empty => None,
        taken => Some(taken),
    });
    match taken.expect("something comes") {
        Taken::Items(()) => Some(number_of(&bytes)),
        Taken::Ended => None,
        other => panic!("{other:?}"),
    }
}

fn all(node: &Node, consumer: &mut Consumer) -> Vec<u64> {
    core::iter::from_fn(|| pop(node, consumer)).collect()
}

fn ended(rack: &Rack, flow: &Flow) {
    let state = wait_within(&rack.any_node(), AMPLE, || {
        Some(flow.state()).filter(|state| *state != FlowState::Running)
    });
    assert_eq!(state, Some(FlowState::Ended));
}

pub fn a_shuffle_brings_each_item_once(rack: &Rack) {
    let flow = flow(rack, FlowShape::Shuffle, 2);
    let node = rack.any_node();
    for index in 0..2u64 {
        let mut rings = flow.take_producers(index as usize).expect("they are here");
        for number in 0..ITEMS {
            let ring = &mut rings[number as usize % 2];
            push(&node, ring, index * ITEMS + number);
        }
        rings.iter_mut().for_each(Producer::finish);
    }
    for index in 0..2 {
        let mut consumer = flow.take_consumer(index).expect("it is here");
        let mut came = all(&node, &mut consumer);
        came.sort_unstable();
        let expected = (0..2 * ITEMS).filter(|number| number % 2 == index as u64);
        assert_eq!(came, expected.collect::<Vec<_>>());
    }
    ended(rack, &flow);
    assert_eq!(flow.losses(), []);
}

/// An observer of a rack sees what has flowed, and does not keep the rack alive.
pub fn what_flowed_is_counted(rack: &Rack) {
    let observer = rack.observer();
    let before = observer.look().expect("the rack is there");
    assert_eq!(before.flows_made, 0);
    let flow = flow(rack, FlowShape::Balance, 1);
    let (mut producer, node) = (flow.take_producer(0).expect("it is here"), rack.any_node());
    let mut consumer = flow.take_consumer(0).expect("it is here");
    (0..ITEMS).for_each(|number| push(&node, &mut producer, number));
    producer.finish();
    assert_eq!(all(&node, &mut consumer).len() as u64, ITEMS);
    ended(rack, &flow);
    let after = observer.look().expect("the rack is there");
    assert_eq!(after.flows_made, 1);
    let seen = &after.flows[0];
    assert_eq!((seen.id, &*seen.shape), (flow.id().0, "balance"));
    let packets = |it: &RackStatistics| it.nodes.iter().map(|node| node.packets_out).sum::<u64>();
    assert!(packets(&after) > packets(&before), "nodes have sent");
    assert!(after.elapsed_seconds >= before.elapsed_seconds);
    assert_eq!(after.nodes.len(), rack.config().node.len());
    assert!(after.nodes.iter().all(|node| !node.dead));
}

pub fn replicas_see_one_order(rack: &Rack) {
    let flow = flow(rack, FlowShape::Replicate, 2);
    let node = rack.any_node();
    let mut rings = [0, 1].map(|at| flow.take_producer(at).expect("they are here"));
    for number in 0..ITEMS {
        for (at, ring) in rings.iter_mut().enumerate() {
            push(&node, ring, at as u64 * ITEMS + number);
        }
    }
    rings.iter_mut().for_each(Producer::finish);
    let came = [0, 1].map(|at| all(&node, &mut flow.take_consumer(at).expect("it is here")));
    assert_eq!(came[0], came[1], "one order everywhere");
    assert_eq!(came[0].len() as u64, 2 * ITEMS);
    ended(rack, &flow);
}

pub fn members_come_and_go(rack: &Rack) {
    let mut flow = flow(rack, FlowShape::Balance, 1);
    let node = rack.any_node();
    let mut first = flow.take_producer(0).expect("it is here");
    push(&node, &mut first, 0);
    let mut consumers = vec![flow.take_consumer(0).expect("it is here")];
    assert_eq!(pop(&node, &mut consumers[0]), Some(0));
    assert_eq!(flow.add_consumer("compute1"), Ok(1));
    assert_eq!(flow.add_producer("storage1"), Ok(1));
    assert_eq!(flow.set_weight(Some(3)), Ok(()));
    consumers.push(flow.take_consumer(1).expect("it is here"));
    let mut second = flow.take_producer(1).expect("it is here");
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
    assert!(flow.remove_consumer(1).is_err(), "it has ended");
}

/// A second consumer and a second producer join; the first consumer and the second producer leave.
pub fn every_shape_scales_out_and_in(rack: &Rack) {
    for shape in [FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate] {
        let mut flow = flow(rack, shape, 1);
        let (node, changes) = (rack.any_node(), shape != FlowShape::Shuffle);
        let mut first = flow.take_producer(0).expect("it is here");
        (0..10).for_each(|number| push(&node, &mut first, number));
        let mut consumers = vec![flow.take_consumer(0).expect("it is here")];
        if changes {
            assert_eq!(flow.add_consumer("compute1"), Ok(1), "{shape:?}");
            consumers.push(flow.take_consumer(1).expect("it is here"));
        }
        assert_eq!(flow.add_producer("storage1"), Ok(1), "{shape:?}");
        let mut second = flow.take_producer(1).expect("it is here");
        for number in 10..ITEMS {
            push(&node, &mut first, number);
            push(&node, &mut second, ITEMS + number);
        }
        second.finish();
        let mut came = vec![Vec::new()];
        if changes {
            assert_eq!(flow.remove_consumer(0), Ok(()), "{shape:?}");
            came = vec![all(&node, &mut consumers.remove(0)), Vec::new()];
        }
        let (last, stays) = (came.len() - 1, &mut consumers[0]);
        let removed = wait_within(&node, AMPLE, || {
            let mut bytes = [0; ITEM as usize];
            match stays.pop(&mut bytes) {
                Taken::Items(()) => came[last].push(number_of(&bytes)),
                Taken::Empty => {}
                other => panic!("{shape:?}: {other:?}"),
            }
            match flow.remove_producer(1) {
                Err(FlowError::ProducerBusy { .. }) => None,
                removed => Some(removed),
            }
        });
        assert_eq!(removed, Some(Ok(())), "{shape:?}");
        push(&node, &mut first, 2 * ITEMS);
        first.finish();
        came[last].extend(all(&node, stays));
        assert_scaled(shape, &came);
        ended(rack, &flow);
    }
}

/// Everything came: once, or to replicas in one order, of which the first saw the beginning and the
/// second the end.
fn assert_scaled(shape: FlowShape, came: &[Vec<u64>]) {
    let first = (0..ITEMS).chain([2 * ITEMS]);
    let mut expected: Vec<u64> = first.chain(ITEMS + 10..2 * ITEMS).collect();
    expected.sort_unstable();
    let mut all = came.concat();
    if shape == FlowShape::Replicate {
        let joined = came[0].iter().position(|it| *it == came[1][0]);
        let both = &came[0][joined.unwrap_or(came[0].len())..];
        assert!(came[1].starts_with(both), "one order");
        all = [&came[0][..came[0].len() - both.len()], &came[1]].concat();
    }
    all.sort_unstable();
    assert_eq!(all, expected, "{shape:?}");
}

/// Items of the doorbell test; its rings have far fewer slots.
const RUNG: u64 = 500;

/// The switch polls once in a thousand seconds.
pub fn doorbells_need_no_polls(rack: &Rack) {
    for shape in [FlowShape::Shuffle, FlowShape::Balance, FlowShape::Replicate] {
        let flow = rack.flow(["storage0"], ["compute0"]).shape(shape);
        let flow = flow.item_bytes(ITEM).ring_bytes(ITEM * 16).doorbells(true);
        let mut spec = flow.spec().expect("the nodes exist");
        spec.poll_interval = rackweave_base::Duration::from_secs(1000);
        spec.poll_interval_max = spec.poll_interval;
        let flow = rack.create_flow(spec).expect("there is room");
        let (from, to) = (rack.node("storage0"), rack.node("compute0"));
        let (from, to) = (from.expect("it is here"), to.expect("it is here"));
        let bells = flow.producer_bells(0).expect("it has doorbells");
        let bell = flow.consumer_bell(0).expect("it has one");
        let mut producer = flow.take_producer(0).expect("it is here");
        let mut consumer = flow.take_consumer(0).expect("it is here");
        let (mut pushed, mut popped, mut bytes) = (0, 0, [0; ITEM as usize]);
        let done = wait_within(&to, AMPLE, || {
            while pushed < RUNG && producer.push(&item(pushed)).is_ok() {
                pushed += 1;
                if pushed == RUNG {
                    producer.finish();
                }
                // A full send queue is harmless: those in it carry the same word.
                let _ = from.with(|verbs| bells[0].ring(verbs));
            }
            loop {
                match consumer.pop(&mut bytes) {
                    Taken::Items(()) => assert_eq!(bytes, item(popped), "{shape:?}"),
                    Taken::Empty => return None,
                    end => return Some(end),
                }
                popped += 1;
                let _ = to.with(|verbs| bell.ring(verbs));
            }
        });
        assert_eq!(done, Some(Taken::Ended), "{shape:?}, {popped} of {pushed}");
        assert_eq!(popped, RUNG, "{shape:?}");
        ended(rack, &flow);
    }
}

pub fn one_that_is_closed_says_so(rack: &Rack) {
    let flow = flow(rack, FlowShape::Shuffle, 2);
    flow.close();
    let state = flow.state();
    assert!(matches!(state, FlowState::Aborted(_)), "{state:?}");
    let mut consumer = flow.take_consumer(0).expect("its memory is kept");
    let reported = wait_within(&rack.any_node(), AMPLE, || {
        matches!(consumer.pop(&mut [0; ITEM as usize]), Taken::Aborted).then_some(())
    });
    assert_eq!(reported, Some(()), "its consumer is told");
}

/// Dropping a flow closes it, and its ends see that.
pub fn one_that_is_dropped_is_closed(rack: &Rack) {
    let lanes = rack.config().switch.lanes;
    for _ in 0..lanes / 8 {
        // Earlier flows leave nothing behind: each takes several lanes.
        drop(flow(rack, FlowShape::Balance, 1));
    }
    let flow = flow(rack, FlowShape::Shuffle, 2);
    let mut producers = flow.take_producers(0).expect("they are here");
    let mut consumer = flow.take_consumer(0).expect("it is here");
    drop(flow);
    let seen = wait_within(&rack.any_node(), AMPLE, || {
        matches!(consumer.pop(&mut [0; ITEM as usize]), Taken::Aborted).then_some(())
    });
    assert_eq!(seen, Some(()), "its consumer sees it");
    assert!(producers[0].is_aborted(), "its producers see it, too");
}

pub fn each_end_has_one_owner(rack: &Rack) {
    let flow = flow(rack, FlowShape::Shuffle, 2);
    let consumer = flow.take_consumer(0).expect("nobody has it");
    assert_eq!(flow.take_consumer(0).unwrap_err(), FlowError::Taken);
    let to_second = flow.take_producer_to(0, 1).expect("nobody has it");
    assert_eq!(flow.take_producers(0).unwrap_err(), FlowError::Taken);
    assert_eq!(flow.take_producer(0).unwrap_err(), FlowError::Several(2));
    drop((consumer, to_second));
    assert!(flow.take_consumer(0).is_ok(), "it was given back");
    assert_eq!(flow.take_producers(0).map(|ends| ends.len()), Ok(2));
    assert_eq!(flow.take_consumer(2).unwrap_err(), FlowError::NotHere);
}

pub fn what_cannot_be_is_refused(rack: &Rack) {
    let to = ["compute0"];
    let odd = rack.flow(["storage0"], to).item_bytes(7).build();
    let error = odd.expect_err("items are multiples of eight bytes");
    assert!(error.to_string().contains('7'), "{error}");
    let nobody = rack.flow(["storage9"], to).build();
    let error = nobody.expect_err("there is no such node").to_string();
    assert!(
        error.contains("storage9") && error.contains("storage0"),
        "{error}"
    );
}
