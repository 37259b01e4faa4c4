//! Sequencers of all kinds: in the switch, in a node's memory, in a server.

use super::AMPLE;
use rackweave_rack::Rack;
use rackweave_rack::services::{
    CounterServerSpec, SequencerClient, SequencerOptions, SequencerPlacement, SequencerService,
};

/// A sequencer of each kind, which begins at `first`.
fn of_all_kinds(rack: &Rack, first: u64) -> [SequencerService; 3] {
    let home = rack.node("storage1").expect("it is here").id();
    let placements = [
        SequencerPlacement::Switch,
        SequencerPlacement::Memory(home),
        SequencerPlacement::Server(CounterServerSpec::new(home)),
    ];
    placements.map(|placement| {
        let options = SequencerOptions {
            first,
            ..SequencerOptions::new(placement)
        };
        SequencerService::with(rack, &options).expect("there is room")
    })
}

fn client(rack: &Rack, sequencer: &SequencerService, name: &str) -> SequencerClient {
    let node = rack.node(name).expect("it is here");
    let mut client = sequencer.connect(&node).expect("there is room");
    client.set_time_limit(AMPLE);
    client
}

pub fn no_number_comes_twice(rack: &Rack) {
    for sequencer in of_all_kinds(rack, 100) {
        let nodes = ["compute0", "compute1", "storage0"];
        let mut clients = nodes.map(|at| client(rack, &sequencer, at));
        let mut next = 100;
        for round in 0..50 {
            for client in &mut clients {
                let count = round % 7 + 1;
                let range = client.next(count).expect("it answers");
                assert_eq!(range, next..next + count, "in the order of the calls");
                next = range.end;
            }
        }
        assert!(clients[0].next(0).is_err(), "no numbers are no numbers");
    }
}

pub fn each_counts_for_itself(rack: &Rack) {
    let [a, b] = [5, 1000].map(|first| of_all_kinds(rack, first));
    for (first, all) in [(5, a), (1000, b)] {
        for sequencer in &all {
            let mut client = client(rack, sequencer, "compute0");
            assert_eq!(client.next(1), Ok(first..first + 1));
        }
    }
}

pub fn a_client_that_went_leaves_its_place_to_others(rack: &Rack) {
    // More than fit at a time.
    for sequencer in of_all_kinds(rack, 0) {
        for round in 0..40 {
            let mut client = client(rack, &sequencer, "compute0");
            assert_eq!(client.next(1), Ok(round..round + 1));
            if round % 2 == 0 {
                client.reconnect().expect("there is room");
            }
        }
    }
}

pub fn the_next_sequencer_begins_where_this_one_ended(rack: &Rack) {
    for (kind, sequencer) in of_all_kinds(rack, 1).into_iter().enumerate() {
        let mut first = client(rack, &sequencer, "compute0");
        let had = first.next(10).expect("it answers");
        let reserved = sequencer.reserved().expect("it is there");
        assert!(reserved >= had.end);
        drop((first, sequencer));
        let mut all = of_all_kinds(rack, reserved).into_iter();
        let next = all.nth(kind).expect("there is room again");
        let mut second = client(rack, &next, "compute0");
        assert_eq!(second.next(1), Ok(reserved..reserved + 1));
    }
}
