//! A peer that breaks the protocol. It holds valid keys and writes arbitrary data.

use super::rig::{COMPUTE, Rig, STORAGE, small};
use crate::messaging::{Arrived, CloseReason, Closed, ClosedBy, MessagingConfig};
use rackweave_base::{Duration, Rng};
use rackweave_verbs::{Access, Operation, Region, Verbs as _, WorkRequest};
use rackweave_wire::fabric::message::{
    CONNECTION_ENTRY, ENTRY_LEN, FLAG_FINISHED, INLINE_LEN, INLINE_MAX, PULSE_ENTRY, PieceHeader,
    Sequence, Word, inline_at, own_entry, peer_entry,
};
use zerocopy::IntoBytes as _;

/// Has the compute node WRITE bytes into a region of the storage node, while both are polled.
fn write(rig: &mut Rig, into_info: bool, offset: u64, bytes: &[u8]) {
    let region = post_write(rig, into_info, offset, bytes);
    rig.run(Duration::from_micros(50));
    rig.network.nics[COMPUTE].deregister(&region);
}

/// The same while neither is polled, as a peer acts that does not run our machines.
fn write_alone(rig: &mut Rig, into_info: bool, offset: u64, bytes: &[u8]) {
    let region = post_write(rig, into_info, offset, bytes);
    let end = rig.network.now + Duration::from_micros(50);
    while rig.network.advance(end, core::iter::empty()) {}
    rig.network.now = end;
    rig.network.nics[COMPUTE].deregister(&region);
}

fn post_write(rig: &mut Rig, into_info: bool, offset: u64, bytes: &[u8]) -> Region {
    let keys = &rig.keys[STORAGE];
    let place = if into_info {
        keys.buffer_info
    } else {
        keys.receive
    };
    let (qpn, pd) = (rig.sender().qpn(), rig.sender().pd());
    let block = rig.network.memory.allocate(bytes.len()).unwrap();
    block.write(0, bytes);
    let nic = &mut rig.network.nics[COMPUTE];
    let region = nic.register(pd, block, Access::empty()).unwrap();
    let to = Operation::Write {
        address: place.address + offset,
        rkey: place.rkey,
        immediate: None,
    };
    let mut request = WorkRequest::new(0, to, &[region.segment(0, bytes.len() as u32)]);
    request.signaled = false;
    nic.post_send(qpn, request).unwrap();
    region
}

fn write_word(rig: &mut Rig, entry: usize, word: u64) {
    write(rig, true, entry as u64 * ENTRY_LEN, &word.to_le_bytes());
}

/// The storage node detects the violation, reports it and survives; the compute node receives the
/// reason.
fn check(rig: &mut Rig, reason: CloseReason) {
    let found = format!("{:?}", rig.receiver().peek());
    let lied = Closed {
        by: ClosedBy::Local,
        reason,
    };
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.nodes[STORAGE].closed(), Some(lied), "found {found}");
    let by = ClosedBy::Peer;
    assert_eq!(rig.nodes[COMPUTE].closed(), Some(Closed { by, reason }));
}

fn filled(package: u64, length: u32) -> u64 {
    let sequence = Sequence::of(package);
    Word::Filled { sequence, length }.into()
}

#[test]
fn foreign_states() {
    for word in [
        u64::MAX,
        4,
        Word::Free {
            sequence: Sequence::of(0),
        }
        .into(),
        Word::Closed {
            reason: CloseReason::Normal,
        }
        .into(),
    ] {
        let mut rig = Rig::new(&small());
        write_word(&mut rig, own_entry(0), word);
        check(&mut rig, CloseReason::ForeignState);
    }
    for word in [filled(0, 100), 0xff00] {
        for entry in [CONNECTION_ENTRY, peer_entry(0), peer_entry(2)] {
            let mut rig = Rig::new(&small());
            write_word(&mut rig, entry, word);
            check(&mut rig, CloseReason::ForeignState);
        }
    }
}

#[test]
fn packages_that_cannot_be() {
    for (entry, package) in [(own_entry(0), 1), (own_entry(0), 0xff_ffff)] {
        let mut rig = Rig::new(&small());
        write_word(&mut rig, entry, filled(package, 100));
        check(&mut rig, CloseReason::BadSequence);
    }
    // Buffers reported free that hold nothing.
    let mut rig = Rig::new(&small());
    let sequence = Sequence::of(0);
    write_word(&mut rig, peer_entry(1), Word::Free { sequence }.into());
    check(&mut rig, CloseReason::BadSequence);
}

#[test]
fn lengths_that_cannot_be() {
    for length in [0, 31, 1025, u32::MAX] {
        let mut rig = Rig::new(&small());
        write_word(&mut rig, own_entry(0), filled(0, length));
        check(&mut rig, CloseReason::BadLength);
    }
}

#[test]
fn inline_words_that_cannot_be() {
    let state = Word::Free {
        sequence: Sequence::of(0),
    };
    let cases = [
        (u64::from(state), CloseReason::ForeignState),
        (filled(1, 64), CloseReason::BadSequence),
        (filled(0, 0), CloseReason::BadLength),
        (filled(0, 48), CloseReason::BadLength),
        (filled(0, INLINE_LEN as u32), CloseReason::BadLength),
    ];
    for (word, reason) in cases {
        let mut rig = Rig::new(&small());
        let at = inline_at(0) + INLINE_MAX as u64;
        write(&mut rig, true, at, &word.to_le_bytes());
        check(&mut rig, reason);
    }
}

fn header() -> PieceHeader {
    PieceHeader {
        opcode: 1.into(),
        length: 64.into(),
        total: 64.into(),
        offset: 0.into(),
        message: 0.into(),
        flags: 0.into(),
    }
}

type Case = (fn(&mut PieceHeader), CloseReason);

#[test]
fn headers_that_contradict() {
    let cases: [Case; 9] = [
        (|h| h.length = 65.into(), CloseReason::BadHeader),
        (|h| h.length = u32::MAX.into(), CloseReason::BadHeader),
        (|h| h.length = 0.into(), CloseReason::BadHeader),
        (|h| h.offset = 1.into(), CloseReason::BadHeader),
        (|h| h.offset = u64::MAX.into(), CloseReason::BadHeader),
        (|h| h.message = 1.into(), CloseReason::BadHeader),
        (|h| h.flags = 2.into(), CloseReason::BadHeader),
        (|h| h.flags = FLAG_FINISHED.into(), CloseReason::BadHeader),
        (|h| h.total = 100_001.into(), CloseReason::MessageTooLong),
    ];
    for (number, (change, reason)) in cases.into_iter().enumerate() {
        let mut rig = Rig::new(&small());
        let mut header = header();
        change(&mut header);
        write(&mut rig, false, 0, header.as_bytes());
        write_word(&mut rig, own_entry(0), filled(0, 96));
        check(&mut rig, reason);
        assert!(rig.receiver().peek().is_err(), "case {number}");
    }
}

#[test]
fn a_message_that_changes_its_mind() {
    let cases: [fn(&mut PieceHeader); 4] = [
        |h| h.opcode = 2.into(),
        |h| h.total = 300.into(),
        |h| h.offset = 100.into(),
        |h| h.message = 1.into(),
    ];
    for change in cases {
        let mut rig = Rig::new(&small());
        let mut first = header();
        first.total = 128.into();
        let mut second = first;
        second.offset = 64.into();
        change(&mut second);
        let mut package = [0; 192];
        package[..32].copy_from_slice(first.as_bytes());
        package[96..128].copy_from_slice(second.as_bytes());
        write(&mut rig, false, 0, &package);
        write_word(&mut rig, own_entry(0), filled(0, 192));
        assert!(matches!(rig.receiver().peek(), Ok(Arrived::Piece(_))));
        rig.receiver().release();
        check(&mut rig, CloseReason::BadHeader);
    }
}

/// Has the compute node write a valid package of one short message, and its word.
fn write_package(rig: &mut Rig, package: u64) {
    let mut header = header();
    header.message = (package as u32).into();
    let buffer = package % u64::from(small().receive_buffers);
    let offset = buffer * u64::from(small().receive_bytes);
    write_alone(rig, false, offset, header.as_bytes());
    let offset = own_entry(buffer as u8) as u64 * ENTRY_LEN;
    write_alone(rig, true, offset, &filled(package, 96).to_le_bytes());
}

fn poll_storage(rig: &mut Rig) {
    let nic = &mut rig.network.nics[STORAGE];
    // The receiver is asked whether the connection is closed.
    let _ = rig.nodes[STORAGE].poll(rig.network.now, nic);
}

/// A receiver that has reported a violation accepts nothing more of its peer, even if the data in
/// its buffers, or what comes next, has become valid.
#[test]
fn a_lie_cannot_be_taken_back() {
    let mut rig = Rig::new(&small());
    let mut wrong = header();
    wrong.offset = 1.into();
    write(&mut rig, false, 0, wrong.as_bytes());
    write_word(&mut rig, own_entry(0), filled(0, 96));
    let lied = Closed {
        by: ClosedBy::Local,
        reason: CloseReason::BadHeader,
    };
    assert_eq!(rig.receiver().peek(), Err(lied));
    write(&mut rig, false, 0, header().as_bytes());
    assert_eq!(rig.receiver().peek(), Err(lied));

    let mut rig = Rig::new(&small());
    write_word(&mut rig, own_entry(0), filled(0, 31));
    let lied = Closed {
        by: ClosedBy::Local,
        reason: CloseReason::BadLength,
    };
    assert_eq!(rig.receiver().peek(), Err(lied));
    write_package(&mut rig, 0);
    assert_eq!(rig.receiver().peek(), Err(lied));
}

/// The number of a package is the next one, but its sender has not been given a buffer for it.
#[test]
fn packages_without_a_buffer() {
    let mut rig = Rig::new(&small());
    for package in 0..3 {
        write_package(&mut rig, package);
        assert!(matches!(rig.receiver().peek(), Ok(Arrived::Piece(_))));
        rig.receiver().release();
    }
    write_package(&mut rig, 3);
    let lied = Closed {
        by: ClosedBy::Local,
        reason: CloseReason::BadSequence,
    };
    assert_eq!(rig.receiver().peek(), Err(lied));
}

/// A peer that acknowledges nothing and continues to send cannot overflow the queue of words that
/// report free buffers.
#[test]
fn free_buffers_that_nobody_acknowledges() {
    let config = MessagingConfig {
        timeout: Duration::from_millis(100),
        ..small()
    };
    let mut rig = Rig::of(&config, &config, 1);
    rig.network.mute.push(COMPUTE);
    let mut taken = 0;
    for package in 0..40 {
        write_package(&mut rig, package);
        if rig.receiver().peek().is_err() {
            break;
        }
        rig.receiver().release();
        poll_storage(&mut rig);
        taken += 1;
    }
    // Three buffers, and six that are reported free before one of those reports is acknowledged.
    assert_eq!(taken, 9);
    let lied = Closed {
        by: ClosedBy::Local,
        reason: CloseReason::BadSequence,
    };
    assert_eq!(rig.nodes[STORAGE].closed(), Some(lied));
}

/// Free buffers that could not be reported are reported when the peer acknowledges again.
#[test]
fn free_buffers_are_told_of_later() {
    let mut rig = Rig::new(&small());
    rig.network.mute.push(COMPUTE);
    for package in 0..9 {
        write_package(&mut rig, package);
        assert!(matches!(rig.receiver().peek(), Ok(Arrived::Piece(_))));
        rig.receiver().release();
        poll_storage(&mut rig);
    }
    assert!(rig.receiver().owes());
    rig.network.mute.clear();
    for _ in 0..20 {
        write_alone(&mut rig, true, PULSE_ENTRY as u64 * ENTRY_LEN, &[0]);
        poll_storage(&mut rig);
    }
    assert!(!rig.receiver().owes());
    assert_eq!(rig.nodes[STORAGE].closed(), None);
}

#[test]
fn random_bytes_never_panic() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let config = MessagingConfig {
            keepalive: Duration::ZERO,
            ..small()
        };
        let mut rig = Rig::of(&config, &config, seed);
        for _ in 0..4 {
            let bytes: Vec<u8> = (0..64).map(|_| rng.next_u32() as u8).collect();
            write(&mut rig, false, rng.below(1024) & !31, &bytes);
            let word = match rng.below(3) {
                0 => rng.next_u64(),
                _ => filled(rng.below(3), rng.below(1100) as u32),
            };
            write_word(&mut rig, rng.below(16) as usize, word);
            for _ in 0..8 {
                match rig.receiver().peek() {
                    Ok(Arrived::Piece(_)) => rig.receiver().release(),
                    Ok(_) => break,
                    Err(_) => break,
                }
            }
            rig.poll();
            if rig.nodes[COMPUTE].closed().is_some() {
                break;
            }
        }
        rig.destroy();
    }
}
