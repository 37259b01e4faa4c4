//! A writer between two NICs, and what it writes at the other.

use super::*;
use crate::baseline::tests::two_nics::{NicEnd, TwoNics};

const BYTES: u64 = 128;

fn package(number: u64) -> Vec<u8> {
    let len = 1 + number as usize % (BYTES as usize - HEADER_BYTES);
    (0..len)
        .map(|at| (number as usize * 31 + at) as u8)
        .collect()
}

fn header(bytes: &[u8]) -> PackageHeader {
    PackageHeader {
        code: 1,
        length: bytes.len() as u64,
        total: bytes.len() as u64,
        offset: 0,
    }
}

/// A writer of `parts` parts to those of three buffers that are its `own`.
fn writer(made: &[NicEnd; 2], parts: u64, own: (u64, u64)) -> RawWriter {
    let [parts, target] = [(&made[0], parts), (&made[1], 3)].map(|(end, count)| Buffers {
        region: end.region.clone(),
        count,
        bytes: BYTES,
    });
    RawWriter::new(parts, target, own, (made[0].qpn, made[0].cq))
}

#[test]
fn buffers_are_written_in_turn_without_a_receiver() {
    for (parts, own, count) in [(1, (0, 1), 5), (3, (0, 3), 20), (2, (1, 2), 7)] {
        let mut nics = TwoNics::new(11);
        let made = nics.pair(4096, 2 * parts as u32);
        let mut writer = writer(&made, parts, own);
        let mut number = 0;
        while number < count || !writer.is_idle() {
            writer.poll(&mut nics.nics[0]).expect("nothing breaks");
            while number < count && writer.has_space() {
                let bytes = package(number);
                writer.fill(header(&bytes), [&bytes[..]]);
                writer.post(&mut nics.nics[0]).expect("there is space");
                number += 1;
                assert!(writer.filling == number);
            }
            nics.settle();
        }
        for number in count.saturating_sub(own.1)..count {
            let expect = package(number);
            let buffer = writer.buffer_of(number);
            let mut found = vec![0; expect.len()];
            let at = writer.target.offset(buffer) as usize + HEADER_BYTES;
            made[1].region.block.read(at, &mut found);
            assert_eq!(found, expect, "package {number}");
            let mut word = [0; 8];
            let at = writer.target.word(buffer) as usize;
            made[1].region.block.read(at, &mut word);
            let length = expect.len() as u64 + HEADER_BYTES as u64;
            assert_eq!(u64::from_le_bytes(word), (number + 1) << 32 | length);
        }
    }
}

#[test]
fn a_part_is_not_filled_again_before_its_write_has_ended() {
    let mut nics = TwoNics::new(12);
    let made = nics.pair(4096, 2);
    let mut writer = writer(&made, 1, (0, 1));
    writer.fill(header(b"x"), [&b"x"[..]]);
    assert!(!writer.has_space() && writer.posting < writer.filling);
    writer.post(&mut nics.nics[0]).expect("there is space");
    assert_eq!(writer.poll(&mut nics.nics[0]), Ok(false));
    assert!(!writer.has_space() && !writer.is_idle());
    nics.settle();
    assert_eq!(writer.poll(&mut nics.nics[0]), Ok(true));
    assert!(writer.has_space() && writer.is_idle());
    // A target that no longer exists.
    assert!(nics.nics[1].deregister(&made[1].region));
    writer.fill(header(b"y"), [&b"y"[..]]);
    writer.post(&mut nics.nics[0]).expect("there is space");
    nics.settle();
    let expect = "a WRITE failed: RemoteAccess";
    assert_eq!(writer.poll(&mut nics.nics[0]), Err(expect.into()));
}
