//! The target over files, with both engines.

use crate::common::*;
use rackweave_target::{Engine, FileBackend, FileOptions, TargetConfig};
use rackweave_wire::nvme::{BlockRange, IoCommand, Sgl, Status};
use std::path::PathBuf;

/// A unique path; the file there is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("rackweave-target-wire-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _never_made = std::fs::remove_file(&self.0);
    }
}

fn check(engine: Engine, name: &str) {
    const SIZE: u32 = 4096;
    let path = Scratch::new(name);
    let options = FileOptions {
        engine,
        depth: 4,
        ..FileOptions::default()
    };
    let file = FileBackend::create(&path.0, SIZE, 64, &options).unwrap();
    let config = TargetConfig {
        transfer_max: 64 << 10,
        ..small()
    };
    let mut rig = Rig::with(config, vec![Box::new(file)]);
    let (_, io) = rig.ready();
    let data = pattern(16 * SIZE as usize, 9);
    rig.fill(0, &data);
    let command = |rig: &Rig, id, command: IoCommand, offset| {
        let length = command.range().unwrap().count * SIZE;
        command.emit(id, 1).with_data(rig.sgl(offset, length))
    };
    // As many at a time as the queue takes, more than the backend does.
    for id in 0..7 {
        let write = IoCommand::Write(BlockRange::new(u64::from(id) * 2, 2));
        let sqe = command(&rig, id, write, u64::from(id) * 2 * u64::from(SIZE));
        rig.post(io, sqe, &[]);
    }
    for _ in 0..7 {
        assert_eq!(rig.response().1.status, Status::SUCCESS);
    }
    let carried = IoCommand::Write(BlockRange::new(14, 1)).emit(8, 1);
    let carried = carried.with_data(Sgl::InCapsule {
        offset: 0,
        length: SIZE,
    });
    let fifteenth = &data[14 * SIZE as usize..15 * SIZE as usize];
    assert_eq!(rig.command(io, carried, fifteenth).status, Status::SUCCESS);
    let zero = IoCommand::WriteZeroes(BlockRange::new(3, 2)).emit(9, 1);
    assert_eq!(rig.command(io, zero, &[]).status, Status::SUCCESS);
    let flush = IoCommand::Flush.emit(10, 1);
    assert_eq!(rig.command(io, flush, &[]).status, Status::SUCCESS);

    let mut expect = data[..15 * SIZE as usize].to_vec();
    expect[3 * SIZE as usize..5 * SIZE as usize].fill(0);
    let read = command(&rig, 11, IoCommand::Read(BlockRange::new(0, 16)), 1 << 20);
    assert_eq!(rig.command(io, read, &[]).status, Status::SUCCESS);
    let mut read = rig.bytes(1 << 20, 16 * SIZE as usize);
    assert!(read[expect.len()..].iter().all(|byte| *byte == 0));
    read.truncate(expect.len());
    assert!(read == expect);
    // The file has the same content.
    drop(rig);
    let bytes = std::fs::read(&path.0).unwrap();
    assert_eq!(bytes.len(), 64 * SIZE as usize);
    assert!(bytes[..expect.len()] == expect);
}

#[test]
fn blocks_in_a_file() {
    check(Engine::Auto, "auto");
}

#[test]
fn blocks_in_a_file_without_io_uring() {
    check(Engine::Positional, "positional");
}
