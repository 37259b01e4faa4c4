//! The sequencers in the switch of an embedded rack.

use super::EmbeddedRack;
use crate::RackConfig;
use crate::services::{SequencerOptions, SequencerPlacement, SequencerService};
use crate::testing::Faults;
use rackweave_base::NodeId;

#[test]
fn numbers_go_on_after_a_restart_of_the_switch() {
    let mut config = RackConfig::default();
    config.switch.consumer_rings = 0;
    config.switch.producer_rings = 0;
    config.switch.sequencers = 1;
    let rack = EmbeddedRack::new(&config).expect("it fits tofino1");
    let options = SequencerOptions {
        first: 7,
        block: 64,
        ..SequencerOptions::new(SequencerPlacement::Switch)
    };
    let sequencer = SequencerService::with(&rack, &options).expect("there is room");
    let mut client = sequencer.connect(NodeId(0)).expect("the NIC has room");
    assert_eq!(client.next(3), Ok(7..10));
    rack.restart_switch().expect("it fits as before");
    assert_eq!(client.next(2), Ok(71..73));
    assert_eq!(sequencer.reserved(), Some(135));
}

#[test]
fn sequencers_beside_flows_are_refused_by_the_first_tofino() {
    let mut config = RackConfig::default();
    config.switch.sequencers = 1;
    let refused = EmbeddedRack::new(&config).expect_err("no room");
    assert!(refused.to_string().contains("register units"), "{refused}");
}
