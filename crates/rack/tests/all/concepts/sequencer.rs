//! A range of numbers from the switch.

use super::capture::Recording;
use super::guide;
use super::places::NamedRegions;
use super::story::{Scene, Teller};
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig};
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::services::{
    AttachedSequencer, SequencerOptions, SequencerPlacement, SequencerService,
};
use rackweave_rack::{Address, RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::fabric::sequencer::index_of;
use rackweave_wire::{Extension, Headers};
use std::sync::{Arc, Mutex};

struct Once {
    client: AttachedSequencer,
    asked: bool,
    numbers: Arc<Mutex<Option<std::ops::Range<u64>>>>,
}

impl Actor for Once {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if !self.asked {
            self.asked = true;
            self.client.begin(3).unwrap();
        }
        if let Some(done) = self.client.poll(now, context.nic()) {
            *self.numbers.lock().unwrap() = Some(done.result.unwrap());
            return Step::Done;
        }
        Step::WaitForPacket
    }
}

struct SequencerScene;

impl Scene for SequencerScene {
    fn to_switch(&self, headers: &Headers, _: &[u8]) -> Option<String> {
        let Extension::AtomicEth(atomic) = headers.extension else {
            return None;
        };
        let sequencer = index_of(atomic.address).expect("it names a sequencer");
        Some(format!("sequencer {sequencer}: add {}", atomic.swap_or_add))
    }

    fn content(&self, _: &str, _: u32, _: &[u8]) -> Option<String> {
        None
    }
}

#[test]
fn numbers_come_in_one_round_trip() {
    let mut config = RackConfig {
        node: vec![NodeConfig::new("compute", Role::Compute)],
        ..RackConfig::default()
    };
    let switch = &mut config.switch;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    switch.sequencers = 1;
    let mut rack = SimulatedRack::new(&config).unwrap();
    let options = SequencerOptions {
        first: 1000,
        block: 1 << 20,
        ..SequencerOptions::new(SequencerPlacement::Switch)
    };
    let sequencer = SequencerService::with(&rack, &options).unwrap();
    let node = NodeId(0);
    let client = sequencer.client(node, SequencerConfig::default()).unwrap();
    let numbers = Arc::new(Mutex::new(None));
    let once = Once {
        client,
        asked: false,
        numbers: numbers.clone(),
    };
    let recording = Recording::begin(&mut rack);
    rack.spawn(node, Box::new(once));
    let until = rack.now() + Duration::from_millis(10);
    assert_eq!(rack.run(until), RunEnd::Done);
    let seen = recording.end(&mut rack);
    assert_eq!(*numbers.lock().unwrap(), Some(1000..1003));
    let places = NamedRegions::default();
    let teller = Teller::new(&rack, &["switch"], &SequencerScene, &places);
    let teller = teller.switch_at(Address::SWITCH.ip);
    guide::check("sequencer", &teller.tell(seen));
}
