//! Host errors: every mistake has its status, and the queue continues to work.

use crate::common::*;
use rackweave_base::Rkey;
use rackweave_target::{ConfigError, MemoryBackend, Target, TargetConfig, TargetError};
use rackweave_wire::nvme::{BlockRange, IoCommand, NSID_ALL, Sgl, Sqe, Status};

/// Runs one command on an I/O queue, with `data` in its capsule, and checks its status. Afterwards
/// the queue works as before.
fn check(change: impl FnOnce(&Rig, &mut Sqe), data: &[u8], expect: Status) {
    let (mut rig, _) = Rig::new();
    let (_, io) = rig.ready();
    let mut sqe = rig.read(77, 0, 1, 0);
    change(&rig, &mut sqe);
    let cqe = rig.command(io, sqe, data);
    assert_eq!(cqe.status.without_hints(), expect, "{sqe:?}");
    assert_eq!(rig.target.counters().errors[&expect], 1);
    assert_eq!(rig.bytes(0, 512), [0; 512], "nothing was written");
    let cqe = rig.command(io, rig.read(78, 0, 1, 0), &[]);
    assert_eq!(cqe.status, Status::SUCCESS);
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 3);
}

#[test]
fn opcodes_and_flags() {
    for opcode in [0x04, 0x05, 0x09, 0x0d, 0x80, 0xff] {
        check(|_, sqe| sqe.opcode = opcode, &[], Status::INVALID_OPCODE);
    }
    check(|_, sqe| sqe.fuse = 1, &[], Status::INVALID_FIELD);
    for psdt in [0b00, 0b10, 0b11] {
        check(|_, sqe| sqe.psdt = psdt, &[], Status::INVALID_FIELD);
    }
}

#[test]
fn namespaces_and_blocks() {
    for nsid in [0, 2, NSID_ALL] {
        check(|_, sqe| sqe.nsid = nsid, &[], Status::INVALID_NAMESPACE);
    }
    for first in [BLOCKS, BLOCKS + 1, u64::MAX] {
        let change = |rig: &Rig, sqe: &mut Sqe| *sqe = rig.read(77, first, 1, 0);
        check(change, &[], Status::LBA_OUT_OF_RANGE);
    }
    let change = |rig: &Rig, sqe: &mut Sqe| *sqe = rig.read(77, BLOCKS - 1, 2, 0);
    check(change, &[], Status::LBA_OUT_OF_RANGE);
    let zeroes = |_: &Rig, sqe: &mut Sqe| {
        *sqe = IoCommand::WriteZeroes(BlockRange::new(1, BLOCKS as u32)).emit(77, 1);
    };
    check(zeroes, &[], Status::LBA_OUT_OF_RANGE);
    // One block more than a command may move.
    let change = |rig: &Rig, sqe: &mut Sqe| *sqe = rig.read(77, 0, 33, 0);
    check(change, &[], Status::INVALID_FIELD);
    let change = |rig: &Rig, sqe: &mut Sqe| *sqe = rig.write(77, 0, 30_000, 0);
    check(change, &[], Status::INVALID_FIELD);
}

#[test]
fn descriptors() {
    for id in [0x00, 0x10, 0x20, 0x30, 0x41, 0x4f, 0x5a, 0xff] {
        check(|_, sqe| sqe.data[15] = id, &[], Status::SGL_TYPE);
    }
    // Data for the host cannot go to a capsule that the host sent.
    let change = |_: &Rig, sqe: &mut Sqe| {
        let sgl = Sgl::InCapsule {
            offset: 0,
            length: BLOCK,
        };
        *sqe = sqe.with_data(sgl);
    };
    check(change, &[0; 512], Status::SGL_TYPE);
    for length in [0, 511, 513, 1024] {
        let change = |rig: &Rig, sqe: &mut Sqe| *sqe = sqe.with_data(rig.sgl(0, length));
        check(change, &[], Status::SGL_LENGTH);
    }
    let change = |_: &Rig, sqe: &mut Sqe| *sqe = write_in_capsule(77, 0, 2);
    check(change, &[0; 1023], Status::SGL_OFFSET);
    for offset in [1, u64::MAX - 5] {
        let change = |_: &Rig, sqe: &mut Sqe| {
            let sgl = Sgl::InCapsule {
                offset,
                length: BLOCK,
            };
            *sqe = write_in_capsule(77, 0, 1).with_data(sgl);
        };
        check(change, &[0; 512], Status::SGL_OFFSET);
    }
}

#[test]
fn capsules_that_are_none() {
    let (mut rig, _) = Rig::new();
    let (_, io) = rig.ready();
    for (len, id) in [(63, 0x0202), (4, 0x0202), (3, 0xffff), (1, 0xffff)] {
        rig.send(io, &[2; 63][..len]);
        let (_, cqe) = rig.response();
        assert_eq!(cqe.status.without_hints(), Status::INVALID_FIELD);
        assert_eq!(cqe.command_id, id);
    }
    assert_eq!(rig.target.counters().unknown, 4);
    assert_eq!(
        rig.command(io, rig.read(1, 0, 1, 0), &[]).status,
        Status::SUCCESS
    );
}

#[test]
fn a_command_id_twice_in_flight() {
    let (mut rig, _) = Rig::new();
    let (_, io) = rig.ready();
    rig.fill(0, &[5; 512]);
    rig.awake = false;
    rig.post(io, rig.write(3, 0, 1, 0), &[]);
    rig.post(io, rig.write(3, 1, 1, 0), &[]);
    rig.settle();
    rig.awake = true;
    let mut statuses = [rig.response().1.status, rig.response().1.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [Status::SUCCESS, Status::COMMAND_ID_CONFLICT]);
    // Once it is answered, the id is free again.
    assert_eq!(
        rig.command(io, rig.write(3, 1, 1, 0), &[]).status,
        Status::SUCCESS
    );
}

#[test]
fn what_backends_say_reaches_the_host() {
    let (mut rig, disk) = Rig::new();
    let (_, io) = rig.ready();
    let status = |rig: &mut Rig, sqe| rig.command(io, sqe, &[]).status;
    disk.set_broken(5, true);
    let (read, write) = (rig.read(1, 4, 4, 0), rig.write(2, 4, 4, 0));
    assert_eq!(status(&mut rig, read), Status::READ_ERROR);
    assert_eq!(status(&mut rig, write), Status::WRITE_FAULT);
    disk.set_broken(5, false);
    assert_eq!(status(&mut rig, read), Status::SUCCESS);
    disk.set_blocks_free(Some(3));
    assert_eq!(status(&mut rig, write), Status::CAPACITY_EXCEEDED);
    disk.set_blocks_free(Some(4));
    assert_eq!(status(&mut rig, write), Status::SUCCESS);
    // Existing blocks can be written on a full device.
    assert_eq!(status(&mut rig, write), Status::SUCCESS);
    let other = rig.write(3, 100, 1, 0);
    assert_eq!(status(&mut rig, other), Status::CAPACITY_EXCEEDED);
    rig.settle();
    assert_eq!(rig.target.buffers_free(), 3);
    let counters = rig.target.counters();
    assert_eq!(counters.errors[&Status::CAPACITY_EXCEEDED], 2);
    assert_eq!(counters.bytes_written, 2 * 4 * u64::from(BLOCK));
}

#[test]
fn impossible_targets_are_refused() {
    let disk = || MemoryBackend::new(BLOCK, 1);
    let check = |config: TargetConfig, disk: MemoryBackend, expect: ConfigError| {
        let (mut rig, _) = Rig::new();
        let made = Target::new(config, &mut rig.nic, &rig.memory, vec![Box::new(disk)]);
        assert_eq!(made.err(), Some(TargetError::Config(expect)));
    };
    let nqn = TargetConfig {
        nqn: "disk".to_owned(),
        ..small()
    };
    check(nqn, disk(), ConfigError::Nqn("disk".to_owned()));
    for transfer_max in [0, 2048, 12288, 2 << 20] {
        let config = TargetConfig {
            transfer_max,
            ..small()
        };
        check(config, disk(), ConfigError::Transfer(transfer_max));
    }
    let config = TargetConfig {
        queue_entries: 1,
        ..small()
    };
    let queues = ConfigError::Queues {
        queues: 6,
        entries: 1,
    };
    check(config, disk(), queues);
    let config = TargetConfig {
        in_capsule_max: 100,
        ..small()
    };
    check(config, disk(), ConfigError::InCapsule(100));
    let config = TargetConfig {
        buffers: 0,
        ..small()
    };
    check(config, disk(), ConfigError::Buffers);
    for (block_size, blocks) in [(512, 0), (1000, 1), (256, 1), (32 << 10, 1)] {
        let namespace = ConfigError::Namespace {
            nsid: 1,
            block_size,
            blocks,
        };
        check(small(), MemoryBackend::new(block_size, blocks), namespace);
    }
}

#[test]
fn queues_are_bounded() {
    let (mut rig, _) = Rig::new();
    for _ in 0..6 {
        rig.open();
    }
    let full = rig.target.open_queue(&mut rig.nic);
    assert_eq!(full, Err(TargetError::TooManyQueues(6)));
    let last = rig.queues[5].target;
    rig.target.close_queue(&mut rig.nic, last).unwrap();
    let gone = rig.target.close_queue(&mut rig.nic, last);
    assert_eq!(gone, Err(TargetError::UnknownQueue(last)));
    rig.target.open_queue(&mut rig.nic).unwrap();
}

#[test]
fn a_wrong_key_breaks_that_queue_only() {
    let (mut rig, _) = Rig::new();
    let (admin, io) = rig.ready();
    let second = rig.open();
    assert_eq!(rig.connect(second, 2, 8, 1).status, Status::SUCCESS);
    for write in [false, true] {
        let sqe = if write {
            rig.write(1, 0, 1, 0)
        } else {
            rig.read(1, 0, 1, 0)
        };
        let Rkey(key) = rig.data.rkey;
        let wrong = Sgl::keyed(rig.data.address, BLOCK, Rkey(key ^ 1));
        let queue = if write { second } else { io };
        rig.post(queue, sqe.with_data(wrong), &[]);
        rig.settle();
        assert!(rig.responses.is_empty());
        let broken: Vec<_> = rig.target.broken().collect();
        assert!(broken.contains(&rig.queues[queue].target));
        assert_eq!(rig.target.buffers_free(), 3);
    }
    let status = rackweave_wire::nvme::Property::Status;
    assert_eq!(rig.get(admin, status), 1, "the controller lives on");
    let third = rig.open();
    assert_eq!(rig.connect(third, 3, 8, 1).status, Status::SUCCESS);
    assert_eq!(
        rig.command(third, rig.read(1, 0, 1, 0), &[]).status,
        Status::SUCCESS
    );
}
