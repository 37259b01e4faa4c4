//! Commands for the same blocks keep their order, across queues and across the end of a queue.

use crate::common::*;
use rackweave_base::Instant;
use rackweave_target::{Backend, Io, IoDone, MemoryBackend};
use rackweave_wire::nvme::Status;
use std::sync::{Arc, Mutex};

/// A backend that executes its requests on demand, newest first: the most harmful order.
#[derive(Clone)]
struct Backwards {
    disk: MemoryBackend,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    under_way: Vec<Io>,
    /// How many may complete.
    allowed: usize,
}

impl Backwards {
    fn rig() -> (Rig, Self) {
        let backend = Self {
            disk: MemoryBackend::new(BLOCK, BLOCKS),
            state: Arc::default(),
        };
        let namespaces: Vec<Box<dyn Backend>> = vec![Box::new(backend.clone())];
        (Rig::with(small(), namespaces), backend)
    }

    fn allow(&self, count: usize) {
        self.state.lock().unwrap().allowed = count;
    }

    fn under_way(&self) -> usize {
        self.state.lock().unwrap().under_way.len()
    }
}

impl Backend for Backwards {
    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }

    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn submit(&mut self, _: Instant, io: Io) -> Result<(), Io> {
        self.state.lock().unwrap().under_way.push(io);
        Ok(())
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        let mut state = self.state.lock().unwrap();
        while state.allowed > 0
            && let Some(io) = state.under_way.pop()
        {
            state.allowed -= 1;
            self.disk.submit(now, io).expect("it has space for all");
            self.disk.poll(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let state = self.state.lock().unwrap();
        (state.allowed > 0 && !state.under_way.is_empty()).then_some(Instant::ZERO)
    }
}

/// Two I/O queues.
fn two_queues(rig: &mut Rig) -> (usize, usize) {
    let (_, first) = rig.ready();
    let second = rig.open();
    assert_eq!(rig.connect(second, 2, 8, 1).status, Status::SUCCESS);
    (first, second)
}

#[test]
fn a_write_of_a_queue_that_ended_does_not_overtake_a_newer_one() {
    let (mut rig, backend) = Backwards::rig();
    let (dead, alive) = two_queues(&mut rig);
    // When the queue ends, the backend has one of its writes, and a second one waits behind it.
    rig.post(dead, write_in_capsule(1, 5, 2), &[1; 1024]);
    rig.settle();
    rig.post(dead, write_in_capsule(2, 6, 1), &[2; 512]);
    rig.settle();
    assert_eq!(backend.under_way(), 1);
    rig.target
        .close_queue(&mut rig.nic, rig.queues[dead].target)
        .unwrap();
    assert!(rig.target.is_draining());
    rig.post(alive, write_in_capsule(3, 6, 2), &[3; 1024]);
    rig.post(alive, rig.read(4, 5, 3, 0), &[]);
    rig.post(alive, write_in_capsule(5, 9, 1), &[5; 512]);
    rig.settle();
    // Other blocks do not conflict: of these, the backend has only the last.
    assert_eq!(backend.under_way(), 2);
    assert_eq!(rig.target.counters().order_waits, 3);
    backend.allow(1);
    assert_eq!(rig.response().1.command_id, 5);
    assert!(rig.target.is_draining());
    backend.allow(100);
    let first = rig.response();
    let second = rig.response();
    assert_eq!((first.0, first.1.command_id), (alive, 3));
    assert_eq!((second.0, second.1.command_id), (alive, 4));
    rig.settle();
    assert!(!rig.target.is_draining());
    assert_eq!(backend.disk.bytes(5), [1; 512]);
    assert_eq!(backend.disk.bytes(6), [3; 512], "the newer write");
    assert_eq!(backend.disk.bytes(7), [3; 512]);
    assert_eq!(rig.bytes(0, 512), [1; 512]);
    assert_eq!(rig.bytes(512, 1024), [3; 1024], "after both writes");
    assert_eq!(rig.target.buffers_free(), 3);
}

#[test]
fn live_queues_keep_the_order_too() {
    let (mut rig, backend) = Backwards::rig();
    let (first, second) = two_queues(&mut rig);
    for id in 0..6 {
        let queue = [first, second][usize::from(id % 2)];
        rig.post(queue, write_in_capsule(id, 3, 1), &[id as u8 + 1; 512]);
        // The next one is sent when this one has arrived.
        rig.settle();
    }
    assert_eq!(backend.under_way(), 1);
    backend.allow(100);
    let order: Vec<u16> = (0..6).map(|_| rig.response().1.command_id).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    assert_eq!(backend.disk.bytes(3), [6; 512]);
    // Reads do not wait for each other.
    backend.allow(0);
    for id in 0..3 {
        rig.post(first, rig.read(id, 3, 1, 0), &[]);
    }
    rig.settle();
    assert_eq!(backend.under_way(), 3);
    backend.allow(100);
    rig.settle();
    assert_eq!(rig.responses.len(), 3);
}
