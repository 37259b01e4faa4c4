//! The sequencers in the switch of an embedded rack.

use super::EmbeddedRack;
use crate::RackConfig;
use core::ops::Range;
use rackweave_base::{Instant, NodeId};
use rackweave_controller::SequencerSpec;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::sequencer::{AtomicSequencer, Sequencer, SequencerConfig, SequencerError};

fn next(
    rack: &EmbeddedRack,
    client: &mut AtomicSequencer,
    count: u64,
) -> Result<Range<u64>, SequencerError> {
    let (node, progress) = (rack.node_at(NodeId(0)), rack.progress());
    assert!(client.begin(count).is_ok());
    loop {
        if let Some(done) = node.with(|nic| client.poll(Instant::ZERO, nic)) {
            return done.result;
        }
        progress.drive();
    }
}

#[test]
fn numbers_go_on_after_a_restart_of_the_switch() {
    let mut config = RackConfig::default();
    config.switch.consumer_rings = 0;
    config.switch.producer_rings = 0;
    config.switch.sequencers = 1;
    let rack = EmbeddedRack::new(&config).expect("it fits tofino1");
    let spec = SequencerSpec {
        first: 7,
        block: 64,
    };
    let id = rack.create_sequencer(spec).expect("there is room");
    let made = rack.node_at(NodeId(0)).with(|nic| {
        let shape = SequencerConfig::default();
        AtomicSequencer::new(nic, rack.memory(), shape)
    });
    let mut client = made.expect("the NIC has room");
    let from = (NodeId(0), client.qpn());
    let attributes = PairAttributes::default();
    let attach = || rack.attach_sequencer(id, from, &attributes);
    client.connected(attach().expect("there is room"));
    assert_eq!(next(&rack, &mut client, 3), Ok(7..10));
    rack.restart_switch().expect("it fits as before");
    assert!(
        next(&rack, &mut client, 1).is_err(),
        "the connection is gone"
    );
    client.connected(attach().expect("it has its place still"));
    assert_eq!(next(&rack, &mut client, 2), Ok(71..73));
    assert_eq!(rack.sequencer_reserved(id), Some(135));
}

#[test]
fn sequencers_beside_flows_are_refused_by_the_first_tofino() {
    let mut config = RackConfig::default();
    config.switch.sequencers = 1;
    let refused = EmbeddedRack::new(&config).expect_err("no room");
    assert!(refused.to_string().contains("register units"), "{refused}");
}
