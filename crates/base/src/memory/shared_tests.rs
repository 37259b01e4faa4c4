//! Shared arenas: their view from another process, simulated by a second arena.

use super::*;
use rustix::fs::{MemfdFlags, SealFlags};

use std::sync::atomic::AtomicBool;

const NAME: Origin = Origin(7);

/// An arena named [`NAME`] and another one that has imported it.
fn neighbours() -> (Memory, Memory) {
    let owner = Memory::shared(8 << 20).unwrap();
    owner.set_origin(NAME);
    let reader = Memory::new(1 << 20);
    reader.import(NAME, descriptor(&owner)).unwrap();
    (owner, reader)
}

fn descriptor(memory: &Memory) -> OwnedFd {
    memory.descriptor().unwrap().try_clone_to_owned().unwrap()
}

/// The reference as received by the other process.
fn sent(reference: BlockRef, from: &Memory, to: &Memory) -> BlockRef {
    BlockRef::decode(&reference.exported(from).encode()).imported(to)
}

#[test]
fn a_neighbour_reads_and_never_writes() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(3 << 20).unwrap();
    block.write((2 << 20) + 5, b"hello");
    let own = block.reference((2 << 20) + 5, 5).unwrap();
    let seen = sent(own, &owner, &reader);
    assert_eq!(seen.origin(), NAME);
    let mut bytes = [0; 5];
    assert!(reader.read(seen, &mut bytes));
    assert_eq!(&bytes, b"hello");
    let target = reader.allocate(64).unwrap();
    assert!(reader.copy(seen, target.reference(0, 5).unwrap()));
    target.read(0, &mut bytes);
    assert_eq!(&bytes, b"hello");
    // Neither by name nor through a writable mapping.
    assert!(!reader.write(seen, b"world"));
    assert!(!reader.copy(target.reference(0, 5).unwrap(), seen));
    assert!(!reader.copy(seen, seen));
    let word = sent(block.reference(0, 8).unwrap(), &owner, &reader);
    assert_eq!(reader.update_word(word, |_| Some(1)), None);
    let writable = mapping::open(descriptor(&owner), mapping::Access::ReadWrite);
    assert_eq!(
        writable.unwrap_err(),
        mapping::OpenError::System(rustix::io::Errno::PERM)
    );
    block.read((2 << 20) + 5, &mut bytes);
    assert_eq!(&bytes, b"hello");
}

#[test]
fn a_reference_that_comes_home_is_our_own() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(64).unwrap();
    let own = block.reference(8, 8).unwrap();
    let there = sent(own, &owner, &reader);
    let home = sent(there, &reader, &owner);
    assert_eq!(home, own);
    assert!(owner.write(home, &[1; 8]));
}

#[test]
fn a_released_block_is_gone_for_neighbours_too() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(64).unwrap();
    let seen = sent(block.reference(0, 8).unwrap(), &owner, &reader);
    assert!(reader.read(seen, &mut [0; 8]));
    drop(block);
    assert!(!reader.read(seen, &mut [0; 8]));
    let again = owner.allocate(64).unwrap();
    assert!(!reader.read(seen, &mut [0; 8]), "a new tenant is another");
    let seen = sent(again.reference(0, 8).unwrap(), &owner, &reader);
    assert!(reader.read(seen, &mut [0; 8]));
}

#[test]
fn forgotten_and_replaced_names() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(64).unwrap();
    let seen = sent(block.reference(0, 8).unwrap(), &owner, &reader);
    reader.forget(NAME);
    assert!(!reader.read(seen, &mut [0; 8]));
    reader.forget(Origin(300));
    // A process that replaces another has different generations.
    let next = Memory::shared(1 << 20).unwrap();
    let tenant = next.allocate(64).unwrap();
    reader.import(NAME, descriptor(&next)).unwrap();
    assert!(!reader.read(seen, &mut [0; 8]));
    // The segment outlives its owner while it is mapped.
    next.set_origin(NAME);
    tenant.write(0, b"a legacy");
    let seen = sent(tenant.reference(0, 8).unwrap(), &next, &reader);
    // As in a killed process, the block is not released.
    core::mem::forget(tenant);
    drop(next);
    let mut bytes = [0; 8];
    assert!(reader.read(seen, &mut bytes));
    assert_eq!(&bytes, b"a legacy");
}

#[test]
fn names_that_lead_nowhere() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(64).unwrap();
    let own = block.reference(0, 8).unwrap();
    // An arena without a name exports nothing, and a reference that was not exported reaches no
    // process's own arena.
    let nameless = Memory::shared(1 << 20).unwrap();
    let lost = nameless.allocate(8).unwrap().reference(0, 8).unwrap();
    assert_eq!(lost.exported(&nameless).origin(), Origin::NOWHERE);
    assert_eq!(own.imported(&owner).origin(), Origin::NOWHERE);
    for origin in [Origin::OWN, Origin::NOWHERE] {
        assert_eq!(
            reader.import(origin, descriptor(&owner)),
            Err(ImportError::Reserved(origin))
        );
    }
    for origin in [1, 8, u16::MAX] {
        let stray = BlockRef {
            origin: Origin(origin),
            ..own
        };
        assert!(!reader.read(stray, &mut [0; 8]));
    }
}

#[test]
fn references_made_up_by_a_peer_resolve_to_nothing() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(4096).unwrap();
    let sound = sent(block.reference(0, 8).unwrap(), &owner, &reader);
    let check = |reference: BlockRef| {
        let mut bytes = vec![0; reference.len as usize];
        assert!(!reader.read(reference, &mut bytes), "{reference:?}");
        let home = reference.imported(&owner);
        assert!(!owner.read(home, &mut bytes), "{home:?}");
    };
    for offset in [4089, 4096, 1 << 40, u64::MAX - 7, u64::MAX] {
        check(BlockRef { offset, ..sound });
    }
    for slot in [1, BLOCKS_MAX as u32 - 1, BLOCKS_MAX as u32, u32::MAX] {
        check(BlockRef { slot, ..sound });
    }
    for generation in [0, sound.generation ^ 1, sound.generation.wrapping_add(2)] {
        check(BlockRef {
            generation,
            ..sound
        });
    }
    let edge = BlockRef {
        offset: u64::MAX - 8,
        len: 64,
        ..sound
    };
    check(edge.part(32, 32));
}

#[test]
fn a_hostile_slot_table_stays_within_the_mapping() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(4096).unwrap();
    let sound = sent(block.reference(0, 8).unwrap(), &owner, &reader);
    let segment = owner.0.segment.as_ref().unwrap();
    let len = (shared::DATA_AT + (16 << 20)) as u64;
    for (offset, capacity, resolves) in [
        (shared::DATA_AT as u64, 4096, true),
        (len - 8, u64::MAX, true),
        (len - 7, u64::MAX, false),
        (len, u64::MAX, false),
        (u64::MAX, u64::MAX, false),
        (u64::MAX - 7, 4096, false),
        (0, 4096, false),
        (shared::DATA_AT as u64 - 1, 4096, false),
        (shared::DATA_AT as u64, 7, false),
    ] {
        segment.place(0, offset as usize, capacity as usize);
        let read = reader.read(sound, &mut [0; 8]);
        assert_eq!(read, resolves, "offset {offset}, capacity {capacity}");
    }
}

/// A sealed segment with a valid header modified by `change`.
fn forged(len: usize, change: impl FnOnce(&mut [u8; 24])) -> OwnedFd {
    let owner = Memory::shared(1 << 20).unwrap();
    let mut header = [0; 24];
    rustix::io::pread(owner.descriptor().unwrap(), &mut header[..], 0).unwrap();
    header[16..].copy_from_slice(&(len as u64).to_le_bytes());
    change(&mut header);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("forged", flags).unwrap();
    rustix::fs::ftruncate(&fd, len as u64).unwrap();
    rustix::io::pwrite(&fd, &header, 0).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    fd
}

#[test]
fn stale_and_foreign_segments_are_refused() {
    const LEN: usize = 4 << 20;
    let reader = Memory::new(1 << 20);
    let import = |fd: OwnedFd| reader.import(NAME, fd);
    assert_eq!(import(forged(LEN, |_| ())), Ok(()), "the forger is able");
    reader.forget(NAME);
    assert_eq!(
        import(forged(LEN, |header| header[0] ^= 1)),
        Err(ImportError::NoArena)
    );
    assert_eq!(import(forged(4096, |_| ())), Err(ImportError::NoArena));
    assert_eq!(
        import(forged(LEN, |header| header[8] += 1)),
        Err(ImportError::Version { found: 2 })
    );
    let truncated = forged(LEN, |header| header[19] += 1);
    let error = import(truncated).unwrap_err();
    assert!(
        matches!(error, ImportError::Sizes { found: LEN, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .starts_with("stale or foreign shared-memory segment")
    );
    let slots = forged(LEN, |header| header[12] ^= 1);
    assert!(matches!(import(slots), Err(ImportError::Sizes { .. })));
    // Not sealed, and not a memory segment.
    let unsealed = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, LEN as u64).unwrap();
    let not_sealed = Err(ImportError::Open(mapping::OpenError::NotSealed));
    assert_eq!(import(unsealed), not_sealed);
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(import(null.into()), not_sealed);
}

#[test]
fn a_mapping_stays_while_it_is_copied_from() {
    let (owner, reader) = neighbours();
    let block = owner.allocate(1 << 20).unwrap();
    let seen = sent(block.reference(0, 1 << 20).unwrap(), &owner, &reader);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut bytes = vec![0; 1 << 20];
                while !stop.load(Ordering::Relaxed) {
                    let _gone_or_not = reader.read(seen, &mut bytes);
                }
            });
        }
        // If `forget` did not wait, a copy would fault here.
        for _ in 0..200 {
            reader.forget(NAME);
            reader.import(NAME, descriptor(&owner)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reader.read(seen, &mut vec![0; 1 << 20]));
}

#[test]
fn a_shared_arena_is_as_an_arena_is() {
    let memory = Memory::shared(8 << 20).unwrap();
    // Huge blocks between small ones: the gaps need space in the segment, not under the limit.
    let mut blocks = Vec::new();
    for _ in 0..3 {
        blocks.push(memory.allocate(100).unwrap());
        blocks.push(memory.allocate(2 << 20).unwrap());
    }
    for (number, block) in blocks.iter().enumerate() {
        let end = block.len() - 8;
        assert_eq!(block.word(end / 8 * 8).load(Ordering::Relaxed), 0);
        block.write(end, &[number as u8 + 1; 8]);
    }
    for (number, block) in blocks.iter().enumerate() {
        let mut bytes = [0; 8];
        block.read(block.len() - 8, &mut bytes);
        assert_eq!(bytes, [number as u8 + 1; 8]);
    }
    assert!(matches!(
        memory.allocate(2 << 20).unwrap_err(),
        MemoryError::LimitReached { .. }
    ));
    blocks.truncate(1);
    let again = memory.allocate(2 << 20).unwrap();
    let mut bytes = [1; 8];
    again.read((2 << 20) - 8, &mut bytes);
    assert_eq!(bytes, [0; 8], "used again, zeroed");
    assert!(matches!(
        Memory::shared(usize::MAX).unwrap_err(),
        MemoryError::NotShared { .. }
    ));
    assert!(Memory::new(1).descriptor().is_none());
}
