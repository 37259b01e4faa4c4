//! The blocking handles.

use super::rig::{COMPUTE, Rig, STORAGE, small};
use crate::messaging::MessageReceiver;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use std::sync::{Arc, Mutex};

/// The storage node. While its thread waits, the compute node sends messages of a package each, and
/// finishes; it acknowledges nothing before `hears_at`.
struct Storage(Mutex<Ends>);

struct Ends {
    rig: Rig,
    unsent: u32,
    hears_at: Instant,
}

impl Ends {
    fn step(&mut self) {
        let Self { rig, unsent, .. } = self;
        while *unsent > 0 && rig.sender().try_send(*unsent, &[7; 900]).unwrap() {
            *unsent -= 1;
        }
        if *unsent == 0 {
            rig.sender().finish().unwrap();
        }
        rig.step(Duration::from_millis(1));
        if rig.network.now >= self.hears_at {
            rig.network.mute.clear();
        }
    }
}

impl Progress for Storage {
    fn drive(&self) -> bool {
        self.0.lock().unwrap().step();
        true
    }

    fn relax(&self, _: u32) {}
}

impl NodeAccess for Storage {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        act(&mut self.0.lock().unwrap().rig.network.nics[STORAGE]);
    }

    fn now(&self) -> Instant {
        self.0.lock().unwrap().rig.network.now
    }
}

/// A program that turns to something else once it has seen the end keeps no sender waiting.
#[test]
fn a_receiver_has_reported_all_when_it_returns_the_end() {
    let mut rig = Rig::new(&small());
    rig.network.mute.push(COMPUTE);
    let receiver = rig.nodes[STORAGE].receivers.remove(0);
    let hears_at = rig.network.now + Duration::from_micros(700);
    let storage = Arc::new(Storage(Mutex::new(Ends {
        rig,
        unsent: 7,
        hears_at,
    })));
    let mut receiver = MessageReceiver::new(storage.clone(), receiver);
    let mut bytes = Vec::new();
    for _ in 0..7 {
        assert!(receiver.receive(&mut bytes).unwrap().is_some());
    }
    assert!(storage.now() < hears_at, "nothing is acknowledged yet");
    assert_eq!(receiver.receive(&mut bytes).unwrap(), None);
    assert!(!receiver.machine().owes());
    let mut ends = storage.0.lock().unwrap();
    ends.rig.run(Duration::from_millis(1));
    assert!(ends.rig.sender().is_consumed());
}
