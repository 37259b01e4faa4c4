//! Statistics of an embedded rack.

use super::*;
use crate::EmbeddedRack;
use crate::testing::Faults;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::{PushError, Taken, wait_until};

fn rack() -> EmbeddedRack {
    let config = RackConfig {
        driver_threads: 0,
        memory_limit: 64 << 20,
        ..RackConfig::default()
    };
    EmbeddedRack::new(&config).expect("the default fits")
}

/// Moves `items` items of 1 KiB from node 0 to node 2.
fn move_items(rack: &EmbeddedRack, items: u32) {
    let flow = rack
        .flow(&[NodeId(0)], &[NodeId(2)])
        .item_bytes(1024)
        .ring_bytes(64 << 10)
        .build()
        .expect("there is room");
    let mut producer = flow.take_producer(0).expect("it is a flow");
    let mut consumer = flow.take_consumer(0).expect("it is a flow");
    let mut left = items;
    wait_until(&*rack.progress(), || {
        while left > 0 {
            match producer.push(&[7; 1024]) {
                Ok(()) => left -= 1,
                Err(error) => {
                    assert_eq!(error, PushError::Full);
                    break;
                }
            }
            if left == 0 {
                producer.finish();
            }
        }
        loop {
            match consumer.peek(1) {
                Taken::Items(_) => consumer.release(1),
                Taken::Ended => return Some(()),
                Taken::Empty => return None,
                Taken::Aborted => panic!("{:?}", flow.state()),
            }
        }
    });
    while flow.state() == rackweave_controller::FlowState::Running {
        rack.progress().drive();
    }
}

#[test]
fn a_flow_is_told_of_item_by_item() {
    let rack = rack();
    let observer = rack.observer();
    let before = observer.look().expect("the rack is there");
    assert_eq!((before.flows_made, before.flows.len()), (0, 0));
    let names: Vec<_> = rack.config().node.iter().map(|node| &node.name).collect();
    let reported: Vec<_> = before.nodes.iter().map(|node| &node.name).collect();
    assert_eq!(reported, names);
    assert!(
        before
            .nodes
            .iter()
            .all(|node| !node.dead && node.bytes_in == 0)
    );
    let (first, second) = (5000, 300);
    move_items(&rack, first);
    move_items(&rack, second);
    let after = observer.look().expect("the rack is there");
    assert!(after.elapsed_seconds > before.elapsed_seconds);
    let moved = |at: usize| {
        let flow: &FlowStatistics = &after.flows[at];
        assert_eq!((flow.state.as_str(), flow.items_waiting), ("ended", 0));
        assert_eq!(
            (&flow.producers[0], &flow.consumers[0]),
            (names[0], names[2])
        );
        assert_eq!(flow.items_pushed, flow.items_delivered);
        assert_eq!(flow.bytes_delivered, flow.items_delivered * 1024);
        flow.items_delivered
    };
    assert_eq!((after.flows_made, after.flows.len()), (2, 2));
    assert_eq!((moved(0), moved(1)), (first.into(), second.into()));
    // Every item crossed both links once, with headers around it.
    let payload = u64::from(first + second) * 1024;
    let (source, target) = (&after.nodes[0], &after.nodes[2]);
    assert!(source.bytes_out > payload && target.bytes_in > payload);
    assert_eq!(source.bytes_out, source.counters["rdma_tx_bytes"]);
    assert_eq!(source.packets_out, source.counters["sent_pkts"]);
    let switch = &after.switches[0];
    assert!(switch.counters["packets_in"] >= source.packets_out);
    assert!(switch.drops.contains_key("drop_egress_full"));
    assert!(after.pages.is_none() && after.sequencers.is_empty());
}

#[test]
fn a_look_does_not_wait_for_the_controller() {
    let rack = rack();
    let observer = rack.observer();
    move_items(&rack, 10);
    let before = observer.look().expect("the rack is there");
    let during = rack
        .shared()
        .control(|_, _| observer.look())
        .expect("the rack is there");
    assert_eq!(during.flows, before.flows);
    assert_eq!(during.nodes, before.nodes);
}

#[test]
fn a_dead_node_is_told_and_a_rack_that_is_gone_tells_nothing() {
    let rack = rack();
    let observer = rack.observer();
    rack.crash_node(NodeId(1));
    let reported = observer.look().expect("the rack is there").nodes;
    let dead: Vec<bool> = reported.iter().map(|node| node.dead).collect();
    assert_eq!(dead, [false, true, false, false]);
    drop(rack);
    assert_eq!(observer.look(), None);
}

#[test]
fn drops_are_apart_from_other_counters() {
    let all = ["sent_pkts", "drop_bad_icrc", "truncated", "out_of_buffer"];
    let all = all.into_iter().map(|name| (name.to_owned(), 1)).collect();
    let (drops, counters) = split::split_nic(all);
    assert_eq!(Vec::from_iter(drops.keys()), ["drop_bad_icrc", "truncated"]);
    assert_eq!(
        Vec::from_iter(counters.keys()),
        ["out_of_buffer", "sent_pkts"]
    );
}

#[test]
fn what_is_told_survives_json() {
    let rack = rack();
    move_items(&rack, 3);
    let reported = rack.observer().look().expect("the rack is there");
    let json = serde_json::to_string(&reported).expect("it has text as keys");
    let back: RackStatistics = serde_json::from_str(&json).expect("it is what was written");
    assert_eq!(back, reported);
}
