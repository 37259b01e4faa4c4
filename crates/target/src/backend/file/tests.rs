//! Files under both engines: contents, file ends, limits, and files that are refused.

use super::requests::error;
use super::*;
use crate::{IoError, IoKind, RegionRange};
use rackweave_base::{Block, Memory};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;

const SIZE: u32 = 4096;

/// A unique path; the file there is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("rackweave-target-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _never_made = std::fs::remove_file(&self.0);
    }
}

/// All engines that this system has, with and without page cache.
fn all() -> Vec<FileOptions> {
    let mut all = Vec::new();
    for engine in [Engine::Auto, Engine::Positional] {
        for direct in [true, false] {
            all.push(FileOptions {
                engine,
                direct,
                ..FileOptions::default()
            });
        }
    }
    all
}

fn block(bytes: usize) -> Block {
    Memory::new(64 << 20).allocate(bytes).unwrap()
}

fn io(tag: u64, kind: IoKind, first: u64, blocks: u32, memory: &Block) -> Io {
    let place = RegionRange {
        block: memory.clone(),
        offset: 0,
    };
    let buffer = matches!(kind, IoKind::Read | IoKind::Write).then_some(place);
    Io {
        tag,
        kind,
        block: first,
        blocks,
        buffer,
    }
}

/// Polls until `count` requests have ended.
fn wait(file: &mut FileBackend, count: usize) -> BTreeMap<u64, Result<(), IoError>> {
    let mut done = Vec::new();
    while done.len() < count {
        assert!(file.poll_timeout().is_some());
        file.poll(Instant::ZERO, &mut done);
        std::thread::yield_now();
    }
    assert_eq!(done.len(), count);
    done.iter().map(|done| (done.tag, done.result)).collect()
}

fn run(file: &mut FileBackend, io: Io) -> Result<(), IoError> {
    let tag = io.tag;
    file.submit(Instant::ZERO, io).unwrap();
    wait(file, 1)[&tag]
}

fn bytes(memory: &Block, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read(0, &mut bytes);
    bytes
}

#[test]
fn blocks_keep_what_they_are_given() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("keep-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 300, &options).unwrap();
        assert_ne!(file.engine(), Engine::Auto);
        let memory = block(32 * SIZE as usize);
        memory.write(0, &[0xff; SIZE as usize]);
        assert_eq!(run(&mut file, io(1, IoKind::Read, 299, 1, &memory)), Ok(()));
        assert_eq!(bytes(&memory, SIZE as usize), [0; SIZE as usize], "sparse");
        let data: Vec<u8> = (0..32 * SIZE).map(|at| (at / 7) as u8).collect();
        memory.write(0, &data);
        assert_eq!(run(&mut file, io(2, IoKind::Write, 7, 32, &memory)), Ok(()));
        let zero = io(3, IoKind::WriteZeroes, 10, 20, &memory);
        assert_eq!(run(&mut file, zero), Ok(()));
        assert_eq!(run(&mut file, io(4, IoKind::Flush, 0, 0, &memory)), Ok(()));
        memory.write(0, &[1; SIZE as usize]);
        assert_eq!(run(&mut file, io(5, IoKind::Read, 7, 32, &memory)), Ok(()));
        let mut expect = data;
        expect[3 * SIZE as usize..23 * SIZE as usize].fill(0);
        assert!(bytes(&memory, expect.len()) == expect, "{options:?}");
        assert_eq!(file.poll_timeout(), None);
        // After reopening, everything is where it was.
        drop(file);
        let mut file = FileBackend::open(&path.0, SIZE, None, &options).unwrap();
        assert_eq!(file.blocks(), 300);
        memory.write(0, &[1; SIZE as usize]);
        assert_eq!(run(&mut file, io(6, IoKind::Read, 7, 32, &memory)), Ok(()));
        assert!(bytes(&memory, expect.len()) == expect, "{options:?}");
    }
}

#[test]
fn the_depth_is_kept_and_all_end() {
    for (number, options) in all().into_iter().enumerate() {
        let options = FileOptions {
            depth: 5,
            ..options
        };
        let path = Scratch::new(&format!("depth-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 64, &options).unwrap();
        let memories: Vec<Block> = (0..64).map(|_| block(SIZE as usize)).collect();
        let mut ended = 0;
        for (tag, memory) in (0..64).zip(&memories) {
            memory.write(0, &[tag as u8 + 1; SIZE as usize]);
            let mut write = io(tag, IoKind::Write, tag, 1, memory);
            while let Err(refused) = file.submit(Instant::ZERO, write) {
                assert!(tag - ended as u64 >= 5, "refused at the depth only");
                write = refused;
                let mut done = Vec::new();
                file.poll(Instant::ZERO, &mut done);
                ended += done.len();
            }
        }
        wait(&mut file, 64 - ended);
        drop(file);
        let bytes = std::fs::read(&path.0).unwrap();
        for (number, block) in bytes.chunks(SIZE as usize).enumerate() {
            assert!(block.iter().all(|byte| *byte == number as u8 + 1));
        }
    }
}

#[test]
fn an_engine_can_go_while_it_works() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("drop-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 64, &options).unwrap();
        let memory = block(64 * SIZE as usize);
        for tag in 0..20 {
            let read = io(tag, IoKind::Read, 0, 64, &memory);
            file.submit(Instant::ZERO, read).unwrap();
        }
        file.poll(Instant::ZERO, &mut Vec::new());
        drop(file);
        // Nothing writes to the memory any more: the engine has waited.
        memory.write(0, &[9; SIZE as usize]);
        assert_eq!(bytes(&memory, SIZE as usize), [9; SIZE as usize]);
    }
}

#[test]
fn a_thread_that_submits_may_end() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("thread-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 64, &options).unwrap();
        let memory = block(SIZE as usize);
        memory.write(0, &[4; SIZE as usize]);
        let mut done = Vec::new();
        std::thread::scope(|scope| {
            let submit = || {
                for tag in 0..50 {
                    let write = io(tag, IoKind::Write, tag, 1, &memory);
                    file.submit(Instant::ZERO, write).unwrap();
                }
                let flush = io(50, IoKind::Flush, 0, 0, &memory);
                file.submit(Instant::ZERO, flush).unwrap();
                file.poll(Instant::ZERO, &mut done);
            };
            scope.spawn(submit).join().unwrap();
        });
        let rest = wait(&mut file, 51 - done.len());
        let all = rest.values().chain(done.iter().map(|done| &done.result));
        assert!(all.into_iter().all(Result::is_ok), "{options:?}");
    }
}

/// Submits these flushes at once and returns their results.
fn flushes(file: &mut FileBackend, tags: std::ops::Range<u64>) -> Vec<Result<(), IoError>> {
    let memory = block(SIZE as usize);
    let count = tags.clone().count();
    for tag in tags {
        let flush = io(tag, IoKind::Flush, 0, 0, &memory);
        file.submit(Instant::ZERO, flush).unwrap();
    }
    wait(file, count).into_values().collect()
}

#[test]
fn flushes_that_come_together_share_a_sync() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("group-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 8, &options).unwrap();
        let ended = flushes(&mut file, 0..20);
        assert!(ended.iter().all(Result::is_ok));
        assert_eq!(file.syncs(), 2, "one for the first, one for the rest");
        assert_eq!(flushes(&mut file, 20..21), [Ok(())]);
        assert_eq!(file.syncs(), 3);
        // Files do not grow without bound.
        let bound = FileOptions {
            depth: 2,
            ..options
        };
        let mut file = FileBackend::open(&path.0, SIZE, None, &bound).unwrap();
        let memory = block(SIZE as usize);
        let mut flush = |tag| {
            let flush = io(tag, IoKind::Flush, 0, 0, &memory);
            file.submit(Instant::ZERO, flush).is_ok()
        };
        assert_eq!(
            [flush(1), flush(2), flush(3), flush(4)],
            [true, true, true, false]
        );
        wait(&mut file, 3);
    }
}

#[test]
fn after_a_failed_sync_every_flush_fails() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("failed-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 8, &options).unwrap();
        let memory = block(SIZE as usize);
        file.syncs.broken = true;
        let mut ended = flushes(&mut file, 0..3);
        // The failed flush reports its cause; those that waited for the next fail because of it.
        let (full, media) = (Err(IoError::NoSpace), Err(IoError::MediaError));
        assert_eq!(ended.remove(0), full);
        assert_eq!(ended, [media, media]);
        file.syncs.broken = false;
        assert_eq!(flushes(&mut file, 3..5), [media, media]);
        assert_eq!(file.syncs(), 1);
        assert_eq!(file.poll_timeout(), None);
        assert_eq!(run(&mut file, io(9, IoKind::Write, 0, 1, &memory)), Ok(()));
        assert_eq!(run(&mut file, io(9, IoKind::Read, 0, 1, &memory)), Ok(()));
        drop(file);
        let mut file = FileBackend::open(&path.0, SIZE, None, &options).unwrap();
        assert_eq!(flushes(&mut file, 0..1), [Ok(())]);
    }
}

#[test]
fn behind_the_end_of_a_file_there_are_zeroes() {
    for (number, options) in all().into_iter().enumerate() {
        let path = Scratch::new(&format!("end-{number}"));
        let mut file = FileBackend::create(&path.0, SIZE, 8, &options).unwrap();
        let memory = block(8 * SIZE as usize);
        memory.write(0, &[5; 8 * SIZE as usize]);
        assert_eq!(run(&mut file, io(1, IoKind::Write, 0, 8, &memory)), Ok(()));
        let shorter = std::fs::File::options().write(true).open(&path.0).unwrap();
        shorter.set_len(2 * u64::from(SIZE) + 1000).unwrap();
        assert_eq!(run(&mut file, io(2, IoKind::Read, 0, 8, &memory)), Ok(()));
        let read = bytes(&memory, 8 * SIZE as usize);
        let kept = 2 * SIZE as usize + 1000;
        assert!(read[..kept].iter().all(|byte| *byte == 5), "{options:?}");
        assert!(read[kept..].iter().all(|byte| *byte == 0), "{options:?}");
        memory.write(0, &[5; SIZE as usize]);
        assert_eq!(run(&mut file, io(3, IoKind::Read, 5, 1, &memory)), Ok(()));
        assert_eq!(bytes(&memory, SIZE as usize), [0; SIZE as usize]);
    }
}

#[test]
fn files_that_are_refused() {
    let options = FileOptions::default();
    let path = Scratch::new("refused");
    let refused = |made: Result<FileBackend, FileError>| made.unwrap_err();
    let missing = refused(FileBackend::open(&path.0, SIZE, None, &options));
    assert!(matches!(missing, FileError::System { action: "open", .. }));
    FileBackend::create(&path.0, SIZE, 8, &options).unwrap();
    let again = refused(FileBackend::create(&path.0, SIZE, 8, &options));
    assert!(matches!(again, FileError::Exists(_)));
    std::fs::File::options()
        .write(true)
        .open(&path.0)
        .unwrap()
        .set_len(8 * u64::from(SIZE) - 1)
        .unwrap();
    let short = refused(FileBackend::open(&path.0, SIZE, Some(8), &options));
    assert!(matches!(
        short,
        FileError::Truncated {
            expected: 32768,
            found: 32767,
            ..
        }
    ));
    let odd = refused(FileBackend::open(&path.0, SIZE, None, &options));
    assert!(matches!(odd, FileError::NotBlocks { len: 32767, .. }));
    for (block_size, blocks) in [(1000, 1), (256, 1), (SIZE, 0), (SIZE, u64::MAX / 2)] {
        let other = Scratch::new("sizes");
        let sizes = refused(FileBackend::create(&other.0, block_size, blocks, &options));
        assert!(matches!(sizes, FileError::Sizes { .. }));
        assert!(!other.0.exists());
    }
    let device = refused(FileBackend::open(
        "/dev/null".as_ref(),
        SIZE,
        None,
        &options,
    ));
    assert!(matches!(device, FileError::Kind(_)));
}

#[test]
fn errors_of_the_system_have_a_meaning() {
    for (errno, expect) in [
        (Errno::NOSPC, IoError::NoSpace),
        (Errno::DQUOT, IoError::NoSpace),
        (Errno::IO, IoError::MediaError),
        (Errno::BADF, IoError::Other),
    ] {
        assert_eq!(error(errno), expect);
    }
}
