//! Queues that break or close while commands are in flight, and buffers that must be freed.

use crate::common::*;
use rackweave_base::Instant;
use rackweave_target::{Backend, Io, IoDone, MemoryBackend, Target, TargetConfig, TargetError};
use rackweave_wire::nvme::property::Configuration;
use rackweave_wire::nvme::{IoCommand, Property, Status};
use rackweave_wire::{Headers, Opcode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A backend that completes nothing while it is stalled.
struct Stalling {
    disk: MemoryBackend,
    stalled: Arc<AtomicBool>,
}

impl Backend for Stalling {
    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }

    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.disk.submit(now, io)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        if !self.stalled.load(Ordering::Relaxed) {
            self.disk.poll(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let stalled = self.stalled.load(Ordering::Relaxed);
        self.disk.poll_timeout().filter(|_| !stalled)
    }
}

fn stalling(config: TargetConfig) -> (Rig, MemoryBackend, Arc<AtomicBool>) {
    let disk = MemoryBackend::new(BLOCK, BLOCKS);
    let stalled = Arc::new(AtomicBool::new(false));
    let backend = Stalling {
        disk: disk.clone(),
        stalled: stalled.clone(),
    };
    (Rig::with(config, vec![Box::new(backend)]), disk, stalled)
}

#[test]
fn a_host_that_vanishes_breaks_its_queues_and_frees_its_buffers() {
    let (mut rig, _) = Rig::new();
    let (_, io) = rig.ready();
    for id in 0..7 {
        rig.post(io, rig.read(id, 0, 32, 0), &[]);
    }
    let mut packets = 0;
    rig.lose = Box::new(move |side, _| {
        packets += 1;
        side == Side::Host && packets > 12
    });
    rig.settle();
    let qpn = rig.queues[io].target;
    assert!(rig.target.broken().any(|broken| broken == qpn));
    assert_eq!(rig.target.buffers_free(), 3);
    rig.target.close_queue(&mut rig.nic, qpn).unwrap();
    // To another host the target behaves like a new one.
    rig.lose = Box::new(|_, _| false);
    rig.responses.clear();
    let third = rig.open();
    assert_eq!(rig.connect(third, 3, 8, 1).status, Status::SUCCESS);
    assert_eq!(
        rig.command(third, rig.read(1, 0, 1, 0), &[]).status,
        Status::SUCCESS
    );
}

#[test]
fn what_the_backend_has_keeps_its_buffer_when_the_queue_closes() {
    let config = TargetConfig {
        queues_max: 2,
        ..small()
    };
    let (mut rig, disk, stalled) = stalling(config);
    let (_, io) = rig.ready();
    rig.settle();
    stalled.store(true, Ordering::Relaxed);
    rig.fill(0, &[7; 1024]);
    rig.post(io, rig.write(1, 5, 2, 0), &[]);
    rig.post(io, write_in_capsule(2, 9, 1), &[8; 512]);
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 2);
    rig.target
        .close_queue(&mut rig.nic, rig.queues[io].target)
        .unwrap();
    // The backend still writes from the queue's memory, so the queue must not be reused.
    assert_eq!(rig.target.buffers_free(), 2);
    let taken = rig.target.open_queue(&mut rig.nic);
    assert_eq!(taken, Err(TargetError::TooManyQueues(2)));
    stalled.store(false, Ordering::Relaxed);
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 3);
    assert_eq!(disk.bytes(6), [7; 512]);
    assert_eq!(disk.bytes(9), [8; 512]);
    rig.target.open_queue(&mut rig.nic).unwrap();
}

#[test]
fn flushes_at_a_backend_that_stalls_hold_no_queue() {
    let config = TargetConfig {
        queues_max: 2,
        ..small()
    };
    let (mut rig, _, stalled) = stalling(config);
    let (admin, controller) = rig.connect_admin();
    let enable = Configuration::ENABLE.emit();
    rig.set(admin, Property::Configuration, enable.into());
    stalled.store(true, Ordering::Relaxed);
    let mut last = 0;
    // Far more of them than there are queues and buffers.
    for round in 0..20 {
        last = rig.open();
        assert_eq!(
            rig.connect(last, 1, small().queue_entries, controller)
                .status,
            Status::SUCCESS
        );
        rig.post(last, IoCommand::Flush.emit(7, 1), &[]);
        rig.settle();
        if round < 19 {
            rig.target
                .close_queue(&mut rig.nic, rig.queues[last].target)
                .unwrap();
        }
    }
    assert!(!rig.target.is_draining());
    assert_eq!(rig.responses.len(), 0);
    stalled.store(false, Ordering::Relaxed);
    // Completions of abandoned requests are not attributed to the last one.
    let (queue, end) = rig.response();
    assert_eq!(
        (queue, end.command_id, end.status),
        (last, 7, Status::SUCCESS)
    );
    rig.settle();
    assert!(rig.responses.is_empty());
}

#[test]
fn commands_that_wait_go_with_their_queue() {
    let config = TargetConfig {
        buffers: 1,
        ..small()
    };
    let (mut rig, _, stalled) = stalling(config);
    let (_, io) = rig.ready();
    let other = rig.open();
    assert_eq!(rig.connect(other, 2, 8, 1).status, Status::SUCCESS);
    stalled.store(true, Ordering::Relaxed);
    for id in 0..3 {
        rig.post(io, rig.read(id, 0, 1, 0), &[]);
    }
    rig.settle();
    rig.post(other, rig.read(9, 0, 1, 4096), &[]);
    rig.settle();
    rig.target
        .close_queue(&mut rig.nic, rig.queues[io].target)
        .unwrap();
    stalled.store(false, Ordering::Relaxed);
    let (queue, cqe) = rig.response();
    assert_eq!(
        (queue, cqe.command_id, cqe.status),
        (other, 9, Status::SUCCESS)
    );
    rig.settle();
    assert!(rig.responses.is_empty());
    assert_eq!(rig.target.buffers_free(), 1);
    assert_eq!(rig.target.counters().reads, 4);
}

#[test]
fn a_buffer_is_not_used_again_before_its_write_completed() {
    let disk = MemoryBackend::new(BLOCK, BLOCKS);
    let config = TargetConfig {
        buffers: 1,
        ..small()
    };
    let mut rig = Rig::with(config, vec![Box::new(disk)]);
    let (_, io) = rig.ready();
    rig.command(
        io,
        write_in_capsule(1, 0, 2),
        &[[1; 512], [2; 512]].concat(),
    );
    rig.settle();
    // The host's acknowledgements are lost: it has the data and the answer, but the target does not
    // know.
    let deaf = Arc::new(AtomicBool::new(true));
    let lost = deaf.clone();
    rig.lose = Box::new(move |side, packet| {
        let headers = Headers::of(packet).unwrap();
        let acknowledges = headers.bth.opcode == Opcode::Acknowledge;
        side == Side::Host && acknowledges && lost.load(Ordering::Relaxed)
    });
    assert_eq!(
        rig.command(io, rig.read(2, 0, 1, 0), &[]).status,
        Status::SUCCESS
    );
    rig.post(io, rig.read(3, 1, 1, 4096), &[]);
    // Long enough for the command to arrive, but not for the queue pair to give up.
    for _ in 0..6 {
        rig.step();
    }
    assert_eq!(rig.target.broken().count(), 0);
    assert!(rig.responses.is_empty());
    assert_eq!(rig.target.buffers_free(), 0);
    assert_eq!(rig.target.counters().buffer_waits, 1);
    assert_eq!(rig.bytes(0, 512), [1; 512]);
    deaf.store(false, Ordering::Relaxed);
    assert_eq!(rig.response().1.status, Status::SUCCESS);
    assert_eq!(
        (rig.bytes(0, 512), rig.bytes(4096, 512)),
        (vec![1; 512], vec![2; 512])
    );
}

#[test]
fn queues_come_and_go() {
    let (mut rig, _) = Rig::new();
    let (admin, _) = rig.ready();
    for round in 0..20 {
        let io = rig.open();
        assert_eq!(
            rig.connect(io, 2, 8, 1).status,
            Status::SUCCESS,
            "round {round}"
        );
        for id in 0..4 {
            rig.post(io, rig.read(id, 0, 16, 0), &[]);
        }
        for _ in 0..round {
            rig.step();
        }
        rig.close(io);
    }
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 3);
    let property = rackweave_wire::nvme::Property::Status;
    assert_eq!(rig.get(admin, property), 1);
}

#[test]
fn a_target_leaves_nothing_behind() {
    // Here the NIC can hold exactly one target's regions and completion queues at a time.
    let (mut rig, disk) = Rig::new();
    let (_, io) = rig.ready();
    rig.command(io, write_in_capsule(1, 3, 1), &[6; 512]);
    rig.post(io, rig.read(2, 0, 1, 0), &[]);
    for _ in 0..100 {
        let next = Target::new(
            small(),
            &mut rig.nic,
            &rig.memory,
            vec![Box::new(disk.clone())],
        );
        let before = core::mem::replace(&mut rig.target, next.unwrap());
        before.destroy(&mut rig.nic);
    }
    rig.responses.clear();
    let (_, io) = rig.ready();
    assert_eq!(
        rig.command(io, rig.read(1, 3, 1, 0), &[]).status,
        Status::SUCCESS
    );
    assert_eq!(rig.bytes(0, 512), [6; 512]);
}
