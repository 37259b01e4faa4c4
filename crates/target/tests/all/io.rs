//! Reads and writes in all forms, many at a time, with few buffers.

use crate::common::*;
use rackweave_target::{MemoryBackend, TargetConfig};
use rackweave_wire::nvme::{BlockRange, IoCommand, Sgl, Status};

const BYTES: usize = BLOCK as usize;

#[test]
fn what_is_written_is_read() {
    let (mut rig, disk) = Rig::new();
    let (_, io) = rig.ready();
    // The maximum of a command, by reference.
    let keyed = pattern(32 * BYTES, 1);
    rig.fill(0, &keyed);
    let cqe = rig.command(io, rig.write(1, 100, 32, 0), &[]);
    assert_eq!(cqe.status, Status::SUCCESS);
    // The maximum of a capsule.
    let carried = pattern(8 * BYTES, 2);
    let cqe = rig.command(io, write_in_capsule(2, 200, 8), &carried);
    assert_eq!(cqe.status, Status::SUCCESS);
    // Not at the start of the capsule's data, and not aligned.
    let write = IoCommand::Write(BlockRange::new(300, 2)).emit(3, 1);
    let sqe = write.with_data(Sgl::InCapsule {
        offset: 40,
        length: 2 * BLOCK,
    });
    let cqe = rig.command(io, sqe, &carried[..40 + 2 * BYTES]);
    assert_eq!(cqe.status, Status::SUCCESS);

    let at = 1 << 20;
    assert_eq!(
        rig.command(io, rig.read(4, 100, 32, at), &[]).status,
        Status::SUCCESS
    );
    assert_eq!(rig.bytes(at as usize, keyed.len()), keyed);
    assert_eq!(
        rig.command(io, rig.read(5, 200, 8, at), &[]).status,
        Status::SUCCESS
    );
    assert_eq!(rig.bytes(at as usize, carried.len()), carried);
    assert_eq!(
        rig.command(io, rig.read(6, 300, 2, at), &[]).status,
        Status::SUCCESS
    );
    assert_eq!(
        rig.bytes(at as usize, 2 * BYTES),
        carried[40..40 + 2 * BYTES]
    );
    assert_eq!(disk.bytes(131), keyed[31 * BYTES..]);

    let counters = rig.target.counters();
    assert_eq!((counters.writes, counters.reads), (3, 3));
    assert_eq!(counters.bytes_written, (32 + 8 + 2) * u64::from(BLOCK));
    assert_eq!(counters.bytes_read, (32 + 8 + 2) * u64::from(BLOCK));
    assert!(counters.errors.is_empty());
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 3);
}

#[test]
fn write_zeroes_flush_and_force() {
    let (mut rig, disk) = Rig::new();
    let (_, io) = rig.ready();
    rig.command(io, write_in_capsule(1, 10, 4), &[0xff; 4 * BYTES]);
    let zero = IoCommand::WriteZeroes(BlockRange::new(11, 2));
    assert_eq!(
        rig.command(io, zero.emit(2, 1), &[]).status,
        Status::SUCCESS
    );
    for (block, byte) in [(10, 0xff), (11, 0), (12, 0), (13, 0xff)] {
        assert_eq!(disk.bytes(block), [byte; BYTES]);
    }
    // Write Zeroes is not limited by the transfer size.
    let zero = IoCommand::WriteZeroes(BlockRange::new(0, BLOCKS as u32));
    assert_eq!(
        rig.command(io, zero.emit(3, 1), &[]).status,
        Status::SUCCESS
    );
    assert_eq!(disk.bytes(13), [0; BYTES]);
    assert_eq!(disk.flushes(), 0);
    let flush = IoCommand::Flush.emit(4, 1);
    assert_eq!(rig.command(io, flush, &[]).status, Status::SUCCESS);
    assert_eq!(disk.flushes(), 1);
    let mut force = write_in_capsule(5, 20, 1);
    force.dwords[2] |= 1 << 30;
    assert_eq!(rig.command(io, force, &[3; BYTES]).status, Status::SUCCESS);
    assert_eq!((disk.flushes(), disk.bytes(20)), (2, vec![3; BYTES]));
    assert_eq!(rig.target.counters().write_zeroes, 2);
}

#[test]
fn the_head_follows_the_queue_s_size() {
    let (mut rig, _) = Rig::new();
    let (admin, _) = rig.ready();
    let _ = admin;
    let io = rig.open();
    // A queue of three entries; Connect took one.
    assert_eq!(rig.connect(io, 2, 3, 1).sq_head, 1);
    let heads: Vec<u16> = (0..5)
        .map(|id| rig.command(io, IoCommand::Flush.emit(id, 1), &[]).sq_head)
        .collect();
    assert_eq!(heads, [2, 0, 1, 2, 0]);
}

#[test]
fn commands_wait_for_buffers_in_order() {
    let disk = MemoryBackend::new(BLOCK, BLOCKS);
    let config = TargetConfig {
        buffers: 1,
        ..small()
    };
    let mut rig = Rig::with(config, vec![Box::new(disk)]);
    let (_, io) = rig.ready();
    rig.fill(0, &pattern(7 * BYTES, 3));
    for id in 0..7 {
        let sqe = rig.write(id, u64::from(id), 1, u64::from(id) * u64::from(BLOCK));
        rig.post(io, sqe, &[]);
    }
    let order: Vec<u16> = (0..7).map(|_| rig.response().1.command_id).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
    for id in 0..7 {
        rig.post(
            io,
            rig.read(id, u64::from(id), 1, 8192 + u64::from(id) * 512),
            &[],
        );
    }
    let order: Vec<u16> = (0..7).map(|_| rig.response().1.command_id).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(rig.bytes(8192, 7 * BYTES), pattern(7 * BYTES, 3));
    assert!(rig.target.counters().buffer_waits >= 12);
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 1);
}

#[test]
fn commands_wait_for_the_backend() {
    let disk = MemoryBackend::new(BLOCK, BLOCKS).with_depth(1);
    let mut rig = Rig::with(small(), vec![Box::new(disk.clone())]);
    let (_, io) = rig.ready();
    rig.awake = false;
    for id in 0..7 {
        rig.post(
            io,
            write_in_capsule(id, id.into(), 1),
            &[id as u8 + 1; BYTES],
        );
    }
    rig.settle();
    rig.awake = true;
    for _ in 0..7 {
        assert_eq!(rig.response().1.status, Status::SUCCESS);
    }
    for id in 0..7 {
        assert_eq!(disk.bytes(id), [id as u8 + 1; BYTES]);
    }
    assert!(rig.target.counters().backend_waits >= 6);
}

#[test]
fn namespaces_are_apart() {
    let disks = [MemoryBackend::new(512, 16), MemoryBackend::new(4096, 4)];
    let boxed = disks.iter().map(|disk| Box::new(disk.clone()) as Box<_>);
    let mut rig = Rig::with(small(), boxed.collect());
    let (_, io) = rig.ready();
    let write = |nsid, first, length| {
        let sqe = IoCommand::Write(BlockRange::new(first, 1)).emit(1, nsid);
        sqe.with_data(Sgl::InCapsule { offset: 0, length })
    };
    let status = |rig: &mut Rig, sqe, data: &[u8]| rig.command(io, sqe, data).status;
    assert_eq!(
        status(&mut rig, write(1, 3, 512), &[1; 512]),
        Status::SUCCESS
    );
    assert_eq!(
        status(&mut rig, write(2, 3, 4096), &[2; 4096]),
        Status::SUCCESS
    );
    assert_eq!(disks[0].bytes(3), [1; 512]);
    assert_eq!(disks[1].bytes(3), [2; 4096]);
    let beyond = status(&mut rig, write(2, 4, 4096), &[2; 4096]);
    assert_eq!(beyond, Status::LBA_OUT_OF_RANGE);
}

#[test]
fn data_may_lie_anywhere_in_a_capsule() {
    let disk = MemoryBackend::new(BLOCK, BLOCKS);
    let config = TargetConfig {
        in_capsule_max: 12 << 10,
        ..small()
    };
    let mut rig = Rig::with(config, vec![Box::new(disk.clone())]);
    let (_, io) = rig.ready();
    let capsule = pattern(12 << 10, 5);
    for (id, offset) in [(1, 0), (2, 4096), (3, 4095), (4, 8192), (5, 11776), (6, 1)] {
        let write = IoCommand::Write(BlockRange::new(u64::from(id), 1)).emit(id, 1);
        let sqe = write.with_data(Sgl::InCapsule {
            offset: offset as u64,
            length: BLOCK,
        });
        assert_eq!(rig.command(io, sqe, &capsule).status, Status::SUCCESS);
        assert!(disk.bytes(id.into()) == capsule[offset..offset + BYTES]);
    }
}
