//! Sequencer services.

use super::{COMPUTE, rack, rack_with};
use crate::services::{FOREVER, SequencerService, wait_within};
use crate::testing::Faults;
use rackweave_base::NodeId;
use std::thread::scope;

#[test]
fn no_number_comes_twice_from_any_node_or_thread() {
    let sequencer = SequencerService::new(&rack(), 100).expect("there is room");
    let take = |node| {
        let mut client = sequencer.connect(node).expect("there is room");
        let ranges = (1..50).map(|count| client.next(count).expect("the switch answers"));
        ranges.flatten().collect::<Vec<_>>()
    };
    let mut all = scope(|scope| {
        let other = scope.spawn(|| take(COMPUTE[1]));
        let mut all = take(COMPUTE[0]);
        all.extend(other.join().expect("it does not panic"));
        all
    });
    all.sort_unstable();
    // 1 + 2 + … + 49 numbers for each of two clients.
    assert!(all.iter().copied().eq(100..100 + 2 * 1225), "{all:?}");
    assert!(
        sequencer
            .reserved()
            .is_some_and(|reserved| reserved >= 100 + 2 * 1225)
    );
}

#[test]
fn a_client_goes_on_after_a_restart_of_the_switch() {
    let rack = rack();
    let sequencer = SequencerService::new(&rack, 0).expect("there is room");
    let mut client = sequencer.connect(COMPUTE[0]).expect("there is room");
    assert_eq!(client.next(3), Ok(0..3));
    rack.restart_switch().expect("it fits as before");
    let range = client.next(1).expect("it connects again");
    assert!(range.start >= 3);
    // The caller of a call that is polled decides what follows.
    rack.restart_switch().expect("it fits as before");
    if client.begin(1).is_ok() {
        let done = wait_within(&rack.any_node(), FOREVER, || client.poll());
        assert!(done.is_some_and(|done| done.result.is_err()));
    }
    client.reconnect().expect("the sequencer is there");
    assert!(client.next(1).is_ok_and(|next| next.start >= range.end));
}

#[test]
fn a_switch_without_sequencers_refuses() {
    let rack = rack_with(|config| config.switch.sequencers = 0);
    assert!(SequencerService::new(&rack, 0).is_err());
    let sequencer = SequencerService::new(&super::rack(), 0).expect("there is room");
    let refused = sequencer.connect(NodeId(77)).expect_err("no such node");
    assert!(refused.to_string().contains("node77"), "{refused}");
}
