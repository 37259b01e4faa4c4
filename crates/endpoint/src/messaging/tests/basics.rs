//! A receiver receives what a sender sends.

use super::rig::{COMPUTE, Rig, STORAGE, pattern, piece_bytes, small};
use crate::messaging::{Arrived, MessageInfo, MessagingConfig, SendError};
use rackweave_base::Duration;
use rackweave_verbs::{Access, Verbs as _};

#[test]
fn a_message_arrives_whole_whatever_its_length() {
    let mut rig = Rig::new(&small());
    let one_piece = rig.sender().piece_max();
    assert_eq!(one_piece, 1024 - 32);
    let lengths = [
        0,
        1,
        31,
        32,
        33,
        one_piece - 1,
        one_piece,
        one_piece + 1,
        2 * one_piece,
        50_000,
        100_000,
    ];
    for (number, length) in lengths.into_iter().enumerate() {
        let payload = pattern(number as u64, length);
        let (info, got) = rig.carry(77, &payload);
        let expect = MessageInfo {
            opcode: 77,
            message: number as u32,
            length: length as u64,
        };
        assert_eq!((info, got), (expect, payload), "{length} bytes");
    }
    rig.run(Duration::from_millis(1));
    assert!(rig.sender().is_consumed());
    rig.destroy();
}

#[test]
fn a_small_package_and_its_word_are_one_write() {
    for (word_last, len, writes) in [(true, 960, 1), (true, 961, 2), (false, 100, 2)] {
        let storage = MessagingConfig {
            word_last,
            ..small()
        };
        let mut rig = Rig::of(&small(), &storage, 1);
        let payload = pattern(1, len);
        let before = rig.network.nics[COMPUTE].counters().sent_pkts;
        assert_eq!(rig.carry(1, &payload).1, payload);
        let sent = rig.network.nics[COMPUTE].counters().sent_pkts - before;
        assert_eq!(sent, writes, "{len} bytes, {word_last}");
    }
}

#[test]
fn the_default_is_sane() {
    let mut rig = Rig::new(&MessagingConfig::default());
    let payload = pattern(1, 3 << 20);
    assert_eq!(rig.carry(1, &payload).1, payload);
}

#[test]
fn small_messages_join_while_others_are_under_way() {
    let mut rig = Rig::new(&small());
    let sent = rig.fill(&[5; 100]);
    rig.run(Duration::from_millis(1));
    let took = rig.take_all();
    assert_eq!(took.len(), sent);
    for (number, (opcode, payload)) in took.iter().enumerate() {
        assert_eq!(
            (*opcode as usize, payload.as_slice()),
            (number, &[5; 100][..])
        );
    }
    // The first was sent alone, the others filled packages: 32 + 100 bytes take 160.
    let counters = rig.sender().counters();
    assert_eq!(
        (counters.messages, counters.pieces),
        (sent as u64, sent as u64)
    );
    assert_eq!(counters.packages, 3);
    assert_eq!(sent, 1 + 2 * (1024 / 160));
}

#[test]
fn a_sender_waits_for_a_buffer_and_no_longer() {
    let mut rig = Rig::new(&small());
    rig.fill(&[1; 900]);
    rig.run(Duration::from_millis(1));
    assert!(rig.sender().is_delivered() && !rig.sender().is_consumed());
    // All three buffers are full; three more packages wait in the send buffer.
    assert_eq!(rig.fill(&[2; 900]), 3);
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.sender().counters().packages, 3);
    assert!(rig.sender().counters().waits_for_buffer > 0);

    assert_eq!(piece_bytes(rig.receiver()), Some(vec![1; 900]));
    rig.receiver().release();
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.sender().counters().packages, 4);
    let mut taken = 0;
    for _ in 0..5 {
        taken += rig.take_all().len();
        rig.run(Duration::from_millis(1));
    }
    assert_eq!(taken, 5);
}

#[test]
fn a_piece_stays_until_it_is_released() {
    let mut rig = Rig::new(&small());
    assert!(rig.sender().try_send(3, b"first").unwrap());
    assert!(rig.sender().try_send(4, b"second").unwrap());
    rig.run(Duration::from_millis(1));
    for _ in 0..2 {
        assert_eq!(piece_bytes(rig.receiver()), Some(b"first".to_vec()));
    }
    rig.receiver().release();
    let Ok(Arrived::Piece(piece)) = rig.receiver().peek() else {
        panic!("there is a second one");
    };
    assert_eq!((piece.opcode, piece.message), (4, 1));
    assert!(piece.is_last());
    assert!(piece.bytes.as_ptr().addr().is_multiple_of(32));
    assert!(!rig.sender().is_consumed(), "the package is not read whole");
    rig.receiver().release();
    rig.run(Duration::from_millis(1));
    assert!(rig.sender().is_consumed());
}

#[test]
#[should_panic(expected = "peeked at first")]
fn nothing_is_released_twice() {
    let mut rig = Rig::new(&small());
    rig.sender().try_send(3, b"one").unwrap();
    rig.run(Duration::from_millis(1));
    rig.receiver().peek().unwrap();
    rig.receiver().release();
    rig.receiver().release();
}

#[test]
fn bytes_of_a_region_are_sent_without_a_copy() {
    let mut rig = Rig::new(&small());
    let bytes = pattern(9, 5000);
    let block = rig.network.memory.allocate(5000).unwrap();
    block.write(0, &bytes);
    let pd = rig.sender().pd();
    let nic = &mut rig.network.nics[COMPUTE];
    let region = nic.register(pd, block, Access::empty()).unwrap();

    // A header from the caller, then the region's bytes.
    rig.sender().begin(8, 10 + 4990).unwrap();
    assert_eq!(rig.sender().write(b"ten bytes!"), 10);
    let (mut written, mut target) = (0, Vec::new());
    let info = loop {
        written += rig
            .sender()
            .write_region(&region, 10 + written, 4990 - written);
        if let Some(info) = rig.receiver().receive_into(&mut target).unwrap() {
            break info;
        }
        assert!(rig.step(Duration::from_secs(1)));
    };
    assert_eq!(info.length, 5000);
    assert_eq!(target[..10], *b"ten bytes!");
    assert_eq!(target[10..], bytes[10..]);
    // Messages before and after it in the same buffers.
    let (_, after) = rig.carry(1, &bytes[..3000]);
    assert_eq!(after, bytes[..3000]);
}

#[test]
fn a_message_is_written_in_place() {
    let mut rig = Rig::new(&small());
    rig.sender().begin(1, 2500).unwrap();
    let mut spaces = Vec::new();
    while rig.sender().remaining() > 0 {
        let mut space = rig.sender().space();
        let len = space.len().min(600);
        space.slice(..len).fill(spaces.len() as u8);
        spaces.push(len);
        rig.sender().commit(len);
    }
    assert_eq!(spaces, [600, 392, 600, 392, 516]);
    rig.run(Duration::from_millis(1));
    let mut target = Vec::new();
    assert!(rig.receiver().receive_into(&mut target).unwrap().is_some());
    let expect: Vec<u8> = spaces
        .iter()
        .enumerate()
        .flat_map(|(number, &len)| vec![number as u8; len])
        .collect();
    assert_eq!(target, expect);
}

#[test]
fn the_receiver_is_told_of_the_end() {
    let mut rig = Rig::new(&small());
    rig.sender().try_send(1, b"last words").unwrap();
    rig.sender().finish().unwrap();
    rig.sender().finish().unwrap();
    assert_eq!(rig.sender().try_send(1, b"more"), Err(SendError::Finished));
    assert_eq!(rig.receiver().peek(), Ok(Arrived::Empty));
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.take_all().len(), 1);
    assert_eq!(rig.receiver().peek(), Ok(Arrived::Finished));
    rig.run(Duration::from_millis(1));
    assert!(rig.sender().is_consumed());
    assert_eq!(rig.closed(), [None, None]);
    // The other direction is still open.
    assert!(
        rig.nodes[STORAGE].senders[0]
            .try_send(1, b"answer")
            .unwrap()
    );
    rig.run(Duration::from_millis(1));
    let receiver = &mut rig.nodes[COMPUTE].receivers[0];
    assert_eq!(piece_bytes(receiver), Some(b"answer".to_vec()));
}

#[test]
fn messages_are_begun_one_after_the_other() {
    let mut rig = Rig::new(&small());
    let max = 100_000;
    assert_eq!(
        rig.sender().begin(1, max + 1),
        Err(SendError::TooLong {
            bytes: max + 1,
            max
        })
    );
    rig.sender().begin(1, 10).unwrap();
    assert_eq!(rig.sender().write(b"four"), 4);
    let missing = Err(SendError::Unfinished { missing: 6 });
    assert_eq!(rig.sender().begin(1, 1), missing);
    assert_eq!(
        rig.sender().finish(),
        Err(SendError::Unfinished { missing: 6 })
    );
    assert_eq!(
        rig.sender().try_send(1, b"x"),
        Err(SendError::Unfinished { missing: 6 })
    );
    // No more than was announced.
    assert_eq!(rig.sender().write(b"six and more"), 6);
    let long = vec![0; 1000];
    assert_eq!(
        rig.sender().try_send(1, &long),
        Err(SendError::NotInOnePiece {
            bytes: 1000,
            max: 992
        })
    );
}

#[test]
fn an_idle_pair_asks_for_signs_of_life() {
    let mut rig = Rig::new(&small());
    rig.run(Duration::from_millis(100));
    assert_eq!(rig.closed(), [None, None]);
    let pulses = rig.sender().counters().pulses;
    assert!(
        (10..=20).contains(&pulses),
        "{pulses} in 100 ms, one each 5 ms"
    );
    assert!(rig.receiver().counters().pulses > 0);
}
