//! Both ends in one process: the contract, payloads of every kind, peers that have left or send
//! invalid data.

use super::*;
use crate::{conformance, wait};
use proptest::prelude::*;
use rackweave_base::memory::mapping::OpenError;
use rackweave_base::packet::{INLINE_MAX, PAYLOAD_MAX};
use rackweave_base::{Block, BlockRef, Payload};
use rustix::fs::{MemfdFlags, SealFlags};
use std::time::Duration;

const NOW: Instant = Instant::ZERO;

/// A shared arena with the name `name` for other processes.
fn arena(name: u16) -> Memory {
    let memory = Memory::shared(conformance::ARENA_LIMIT).unwrap();
    memory.set_origin(rackweave_base::memory::Origin(name));
    memory
}

/// Both ends of a link, the arenas of both sides, and the segment.
struct Cable {
    a: SharedMemory,
    b: SharedMemory,
    memory_a: Memory,
    memory_b: Memory,
    segment: OwnedFd,
}

/// A cable between two processes that have imported each other's arenas.
fn cable(capacity: usize) -> Cable {
    let (memory_a, memory_b) = (arena(1), arena(2));
    for (reader, owner) in [(&memory_a, &memory_b), (&memory_b, &memory_a)] {
        let fd = owner.descriptor().unwrap().try_clone_to_owned().unwrap();
        reader.import(owner.origin(), fd).unwrap();
    }
    let pool = Pool::new(4);
    let (a, handover) = SharedMemory::create(capacity, memory_a.clone(), pool.clone()).unwrap();
    let segment = handover.segment.try_clone().unwrap();
    let b = SharedMemory::attach(handover, memory_b.clone(), pool).unwrap();
    Cable {
        a,
        b,
        memory_a,
        memory_b,
        segment,
    }
}

fn filled(memory: &Memory, bytes: &[u8]) -> (Block, BlockRef) {
    let block = memory.allocate(bytes.len()).unwrap();
    block.write(0, bytes);
    let reference = block.reference(0, bytes.len() as u32).unwrap();
    (block, reference)
}

#[test]
fn it_conforms() {
    let make = |memory: &Memory, capacity| {
        let pool = Pool::new(8);
        let made = SharedMemory::create(capacity, memory.clone(), pool.clone());
        let (a, handover) = made.unwrap();
        let b = SharedMemory::attach(handover, memory.clone(), pool).unwrap();
        (a, b)
    };
    for capacity in [1, 2, 64] {
        conformance::run_in(|| arena(1), |memory| make(memory, capacity));
        conformance::run_in(
            || arena(1),
            |memory| {
                let (a, b) = make(memory, capacity);
                (b, a)
            },
        );
    }
}

#[test]
fn references_are_translated_on_the_way() {
    let mut cable = cable(4);
    let (_block, own) = filled(&cable.memory_a, b"of the one side");
    let packet = Packet::new(b"head", Payload::Region(own));
    cable.a.send(NOW, packet).unwrap();
    let packet = cable.b.receive(NOW).unwrap();
    assert_eq!(
        packet.payload.to_vec(&cable.memory_b).unwrap(),
        b"of the one side"
    );
    // As when a switch passes it back: for its owner it is a reference into its own arena again.
    cable.b.send(NOW, packet).unwrap();
    let Payload::Region(back) = cable.a.receive(NOW).unwrap().payload else {
        panic!("a reference came back as something else");
    };
    assert_eq!(back, own);
    cable.memory_b.forget(cable.memory_a.origin());
    cable
        .a
        .send(NOW, Packet::new(b"", Payload::Region(own)))
        .unwrap();
    let lost = cable.b.receive(NOW).unwrap();
    assert_eq!(lost.payload.to_vec(&cable.memory_b), None);
}

#[test]
fn trains_pass_whole() {
    let mut cable = cable(4);
    let bytes: Vec<u8> = (0..32 * 4096).map(|at| (at / 64) as u8).collect();
    let (_block, own) = filled(&cable.memory_a, &bytes);
    let mut train = Packet::new(b"head", Payload::Region(own));
    train.make_train(4096);
    cable.a.send(NOW, train).unwrap();
    let train = cable.b.receive(NOW).unwrap();
    assert_eq!((train.fragments(), train.fragment_len()), (32, 4096));
    assert_eq!(train.payload.to_vec(&cable.memory_b).unwrap(), bytes);
    // A packet that no slot can describe is dropped and counted.
    let (_block, long) = filled(&cable.memory_a, &vec![0; 33 * 4096]);
    let mut train = Packet::new(b"", Payload::Region(long));
    train.make_train(4096);
    cable.a.send(NOW, train).unwrap();
    let whole = Packet::new(b"", Payload::Region(long));
    cable.a.send(NOW, whole).unwrap();
    let copied = Payload::copied(&vec![0; PAYLOAD_MAX + 1]);
    cable.a.send(NOW, Packet::new(b"", copied)).unwrap();
    assert_eq!(cable.a.oversized(), 3);
    assert!(cable.b.receive(NOW).is_none());
}

#[test]
fn everything_about_a_packet_arrives() {
    let mut cable = cable(4);
    for len in [0, 1, INLINE_MAX, INLINE_MAX + 1, PAYLOAD_MAX] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        for check in [None, Some([1, 2, 3, 4])] {
            let mut packet = Packet::new(&[7; 88], Payload::copied(&bytes));
            packet.set_pad(&[9; 3][..len % 4]);
            packet.check = check;
            cable.b.send(NOW, packet).unwrap();
            let packet = cable.a.receive(NOW).unwrap();
            assert_eq!(packet.header(), [7; 88]);
            assert_eq!(packet.pad(), &[9; 3][..len % 4]);
            assert_eq!(packet.check, check);
            assert_eq!(packet.payload.to_vec(&cable.memory_a).unwrap(), bytes);
        }
    }
}

#[test]
fn without_a_buffer_a_packet_waits() {
    let mut cable = cable(8);
    for number in 0..6 {
        let payload = Payload::copied(&[number; 100]);
        cable.a.send(NOW, Packet::new(&[number], payload)).unwrap();
    }
    let mut held: Vec<Packet> = core::iter::from_fn(|| cable.b.receive(NOW)).collect();
    assert_eq!(held.len(), 4, "as many as the pool has buffers");
    assert!(!cable.b.prepare_sleep(), "there is something to do");
    held.remove(0);
    assert_eq!(cable.b.receive(NOW).unwrap().header(), [4]);
    drop(held);
    assert_eq!(cable.b.receive(NOW).unwrap().header(), [5]);
    assert!(cable.b.receive(NOW).is_none());
}

#[test]
fn a_dead_peer_blocks_nobody() {
    let mut cable = cable(2);
    let packet = || Packet::new(b"packet", Payload::Empty);
    cable.b.send(NOW, packet()).unwrap();
    cable.a.send(NOW, packet()).unwrap();
    cable.a.send(NOW, packet()).unwrap();
    assert!(cable.a.send(NOW, packet()).is_err() && !cable.a.is_peer_gone());
    cable.a.mark_peer_gone();
    assert!(cable.a.is_peer_gone());
    for _ in 0..10 {
        cable.a.send(NOW, packet()).unwrap();
    }
    assert_eq!(cable.a.free(), 2);
    assert!(
        cable.a.receive(NOW).is_some(),
        "what it sent before arrives"
    );
    assert!(cable.a.prepare_sleep(), "it waits for nothing any more");
}

#[test]
fn an_end_that_leaves_says_so_and_wakes_the_other() {
    let mut cable = cable(2);
    cable
        .b
        .send(NOW, Packet::new(b"last words", Payload::Empty))
        .unwrap();
    assert!(cable.a.receive(NOW).is_some());
    assert!(cable.a.prepare_sleep() && !cable.a.is_peer_gone());
    drop(cable.b);
    let woken = wait::sleep(&[cable.a.wake_fd().unwrap()], Duration::from_secs(60));
    assert!(woken.unwrap());
    cable.a.end_sleep();
    assert!(cable.a.is_peer_gone());
    assert!(!wait::sleep(&[cable.a.wake_fd().unwrap()], Duration::ZERO).unwrap());
}

#[test]
fn a_sender_without_room_sleeps_until_there_is_some() {
    let mut cable = cable(4);
    let packet = || Packet::new(b"packet", Payload::Empty);
    while cable.a.send(NOW, packet()).is_ok() {}
    assert!(cable.a.prepare_sleep());
    let is_woken = |end: &SharedMemory| {
        let fd = end.wake_fd().unwrap();
        wait::sleep(&[fd], Duration::ZERO).unwrap()
    };
    assert!(!is_woken(&cable.a));
    assert!(cable.b.receive(NOW).is_some() && cable.b.receive(NOW).is_some());
    assert!(is_woken(&cable.a));
    cable.a.end_sleep();
    assert!(!cable.a.prepare_sleep(), "first it is to use the room");
    assert!(cable.a.send(NOW, packet()).is_ok() && cable.a.prepare_sleep());
    cable.a.end_sleep();
    assert!(cable.b.receive(NOW).is_some());
    assert!(
        !is_woken(&cable.a),
        "with room left it does not wait for more"
    );
}

/// Flags belong to an open file, which the peer has too: the peer's flags must not make this end
/// wait.
#[test]
fn a_peer_that_has_its_descriptors_wait_holds_nobody_up() {
    let (mut end, handover) = SharedMemory::create(2, arena(1), Pool::new(1)).unwrap();
    for fd in &handover.wake {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        rustix::fs::fcntl_setfl(fd, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
    }
    let (done, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        end.end_sleep();
        for _ in 0..1000 {
            end.wake_peer();
        }
        done.send(()).unwrap();
    });
    heard.recv_timeout(Duration::from_secs(10)).unwrap();
}

/// The segment of a new link, overwritten with `bytes` at `at`, and its wake descriptors.
fn tampered(at: u64, bytes: &[u8]) -> Handover {
    let (end, handover) = SharedMemory::create(2, arena(1), Pool::new(1)).unwrap();
    // As if its creator had been killed: it does not announce that it leaves.
    core::mem::forget(end);
    rustix::io::pwrite(&handover.segment, bytes, at).unwrap();
    handover
}

fn attach(handover: Handover) -> Result<SharedMemory, AttachError> {
    SharedMemory::attach(handover, arena(2), Pool::new(1))
}

#[test]
fn stale_and_foreign_segments_are_refused() {
    assert!(attach(tampered(0, b"RW")).is_ok(), "untouched, it is sound");
    let check = |handover: Handover, is_expected: fn(&AttachError) -> bool| {
        let error = attach(handover).unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        let text = error.to_string();
        assert!(
            text.starts_with("stale or foreign shared-memory segment"),
            "{text}"
        );
    };
    check(tampered(0, b"xx"), |e| matches!(e, AttachError::NoLink));
    check(tampered(8, &[9]), |e| {
        matches!(e, AttachError::Version { found: 9 })
    });
    for capacity in [0_u32, 1, 3, 4, 1 << 30, u32::MAX] {
        let handover = tampered(12, &capacity.to_le_bytes());
        check(handover, |e| matches!(e, AttachError::Sizes { .. }));
    }
    check(tampered(24, &[1]), |e| {
        matches!(e, AttachError::Sizes { .. })
    });
    let segment_of = |len: u64, seals: SealFlags| {
        let mut handover = tampered(0, &[]);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("short", flags).unwrap();
        rustix::fs::ftruncate(&fd, len).unwrap();
        let mut header = [0; 64];
        rustix::io::pread(&handover.segment, &mut header[..], 0).unwrap();
        rustix::io::pwrite(&fd, &header[..len.min(64) as usize], 0).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        handover.segment = fd;
        handover
    };
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    check(segment_of(16, sealed), |e| matches!(e, AttachError::NoLink));
    check(segment_of(16384, sealed), |e| {
        matches!(e, AttachError::Sizes { .. })
    });
    let may_shrink = segment_of(32768, SealFlags::GROW);
    check(may_shrink, |e| {
        matches!(e, AttachError::Open(OpenError::NotSealed))
    });
    let empty = segment_of(0, sealed);
    check(empty, |e| {
        matches!(e, AttachError::Open(OpenError::Length(0)))
    });
    let mut pipe = tampered(0, &[]);
    pipe.segment = std::io::pipe().unwrap().0.into();
    check(pipe, |e| {
        matches!(e, AttachError::Open(OpenError::NotSealed))
    });
}

#[test]
fn a_used_segment_is_refused() {
    let (end, handover) = SharedMemory::create(2, arena(1), Pool::new(1)).unwrap();
    let again = || {
        let clone = |fd: &BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
        Handover::from_descriptors(handover.descriptors().each_ref().map(clone))
    };
    let first = attach(again()).unwrap();
    assert_eq!(first.epoch(), end.epoch());
    assert_eq!(attach(again()).unwrap_err(), AttachError::Used);
    let (end, handover) = SharedMemory::create(2, arena(1), Pool::new(1)).unwrap();
    drop(end);
    assert_eq!(attach(handover).unwrap_err(), AttachError::Used);
}

#[test]
fn an_arena_that_others_cannot_read_is_refused() {
    for memory in [Memory::new(1 << 20), Memory::shared(1 << 20).unwrap()] {
        let refused = SharedMemory::create(2, memory.clone(), Pool::new(1));
        assert!(matches!(refused, Err(CreateError::ArenaNotShared)));
        let refused = SharedMemory::attach(tampered(0, &[]), memory, Pool::new(1));
        assert!(matches!(refused, Err(AttachError::ArenaNotShared)));
    }
}

/// Overwrites the head (`at` 0) or the tail (`at` 128) of the ring from `b` to `a`.
fn set_counter(cable: &Cable, way: Way, at: u64, value: u32) {
    let at = 4096 + 4096 * way as u64 + at;
    rustix::io::pwrite(&cable.segment, &value.to_le_bytes(), at).unwrap();
}

#[test]
fn a_peer_with_nonsense_counters_is_gone() {
    for wrong in [9, 1 << 16, 1 << 31] {
        let mut liar = cable(8);
        set_counter(&liar, Way::Back, 0, wrong);
        assert!(liar.a.receive(NOW).is_none() && liar.a.is_peer_gone());
        assert!(matches!(liar.a.nonsense(), Some(Nonsense::Counter { .. })));
        let mut liar = cable(8);
        set_counter(&liar, Way::Back, 0, wrong);
        assert!(!liar.a.prepare_sleep() && liar.a.is_peer_gone());
        assert!(
            liar.a.prepare_sleep(),
            "once it is known, nothing is left to do"
        );
        let mut liar = cable(8);
        set_counter(&liar, Way::Out, 128, wrong);
        assert_eq!(liar.a.free(), 8);
        for _ in 0..20 {
            set_counter(&liar, Way::Out, 128, wrong);
            liar.a.send(NOW, Packet::new(b"", Payload::Empty)).unwrap();
        }
        assert!(liar.a.is_peer_gone(), "{wrong}");
    }
}

/// Puts `bytes` into the first descriptor of the ring from `b` to `a` and has `a` receive it.
fn receive_described(bytes: &[u8]) -> (Cable, Option<Packet>) {
    let mut cable = cable(2);
    let descriptors_of_b = 3 * 4096 + 2 * 192;
    rustix::io::pwrite(&cable.segment, bytes, descriptors_of_b).unwrap();
    set_counter(&cable, Way::Back, 0, 1);
    let packet = cable.a.receive(NOW);
    (cable, packet)
}

#[test]
fn a_peer_with_nonsense_packets_is_gone() {
    let check = |change: fn(&mut [u8; 24])| {
        let mut bytes = [0; 24];
        change(&mut bytes);
        let (cable, packet) = receive_described(&bytes);
        assert!(packet.is_none());
        assert!(
            matches!(cable.a.nonsense(), Some(Nonsense::Packet(_))),
            "{bytes:?}"
        );
    };
    check(|bytes| bytes[0] = 4);
    check(|bytes| bytes[1] = 89);
    check(|bytes| bytes[2] = 4);
    check(|bytes| (bytes[0], bytes[6]) = (1, 33));
    check(|bytes| (bytes[0], bytes[7]) = (3, 0x11));
    check(|bytes| bytes[4] = 1);
    check(|bytes| (bytes[0], bytes[4], bytes[6]) = (1, 4, 5));
    check(|bytes| (bytes[0], bytes[4], bytes[6]) = (1, 4, 4));
    // The length of a reference is its bytes 12 to 15, from byte 16 of the descriptor on.
    let reference = |len: u32, fragment_len: u16| {
        let mut bytes = [0; 40];
        bytes[0] = 2;
        bytes[4..6].copy_from_slice(&fragment_len.to_le_bytes());
        bytes[28..32].copy_from_slice(&len.to_le_bytes());
        let (cable, packet) = receive_described(&bytes);
        assert_eq!(packet.is_none(), cable.a.nonsense().is_some());
        packet.map(|packet| (cable.memory_a, packet))
    };
    for (len, fragment_len) in [(4097, 0), (u32::MAX, 0), (u32::MAX, 1), (33 * 64, 64)] {
        assert!(
            reference(len, fragment_len).is_none(),
            "{len}, {fragment_len}"
        );
    }
    assert!(reference(2 * 4097, 4097).is_none() && reference(2 * 65535, 65535).is_none());
    let (memory, packet) = reference(32 * 64, 64).unwrap();
    assert_eq!(packet.fragments(), 32);
    assert_eq!(
        packet.payload.to_vec(&memory),
        None,
        "it was named by nobody"
    );
}

proptest! {
    /// Any descriptor is either a packet that can be handled or nonsense.
    #[test]
    fn any_descriptor_is_survived(
        mut bytes in prop::collection::vec(any::<u8>(), descriptor::DESCRIPTOR_LEN), kind in 0..5_u8
    ) {
        (bytes[0], bytes[1], bytes[2]) = (kind, bytes[1] % 90, bytes[2] % 5);
        bytes[5] %= 8;
        (bytes[7], bytes[30], bytes[31]) = (bytes[7] % 18, bytes[30] % 3, 0);
        let (cable, packet) = receive_described(&bytes);
        prop_assert_eq!(packet.is_none(), cable.a.nonsense().is_some());
        if let Some(packet) = packet {
            prop_assert!(packet.fragment_len() <= PAYLOAD_MAX && packet.fragments() <= TRAIN_MAX);
            let _bytes = packet.payload.to_vec(&cable.memory_a);
        }
    }
}
