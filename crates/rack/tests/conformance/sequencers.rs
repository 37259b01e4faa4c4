//! Sequencers in the switch.

use crate::AMPLE;
use rackweave_rack::Rack;
use rackweave_rack::services::{SequencerClient, SequencerService};

fn client(rack: &Rack, sequencer: &SequencerService, name: &str) -> SequencerClient {
    let node = rack.node(name).expect("it is here");
    let mut client = sequencer.connect(&node).expect("there is room");
    client.set_time_limit(AMPLE);
    client
}

pub fn no_number_comes_twice(rack: &Rack) {
    let sequencer = SequencerService::new(rack, 100).expect("there is room");
    let mut clients = ["compute0", "compute1", "storage0"].map(|at| client(rack, &sequencer, at));
    let mut next = 100;
    for round in 0..50 {
        for client in &mut clients {
            let range = client.next(round % 7 + 1).expect("the switch answers");
            assert_eq!(
                range,
                next..next + round % 7 + 1,
                "in the order of the calls"
            );
            next = range.end;
        }
    }
    let other = SequencerService::new(rack, 5).expect("there is room");
    let mut independent = client(rack, &other, "compute0");
    assert_eq!(independent.next(1), Ok(5..6));
    assert!(clients[0].next(0).is_err(), "no numbers are no numbers");
}

pub fn the_next_sequencer_begins_where_this_one_ended(rack: &Rack) {
    let sequencer = SequencerService::new(rack, 1).expect("there is room");
    let mut first = client(rack, &sequencer, "compute0");
    let had = first.next(10).expect("the switch answers");
    let reserved = sequencer.reserved().expect("it is there");
    assert!(reserved >= had.end);
    drop((first, sequencer));
    let sequencer = SequencerService::new(rack, reserved).expect("there is room again");
    let mut second = client(rack, &sequencer, "compute0");
    assert_eq!(second.next(1), Ok(reserved..reserved + 1));
}
