//! Valid records are accepted, and nothing else.

use super::super::{RecordError, RecordView, Stamp, verify_record, write_record};
use proptest::prelude::*;

const STAMP: Stamp = Stamp {
    writer: 3,
    sequence: 99,
};

fn record(size: usize, key: u64, version: u64, stamp: Stamp) -> Vec<u8> {
    let mut bytes = vec![0xa5; size];
    write_record(&mut bytes, key, version, stamp).expect("a size that records have");
    bytes
}

#[test]
fn a_record_tells_what_was_written() {
    for size in [32, 40, 128, 1000, 4096, 1 << 20] {
        for (key, version) in [(0, 0), (7, 1), (u64::MAX, u64::MAX)] {
            let bytes = record(size, key, version, STAMP);
            let view = RecordView {
                key,
                version,
                stamp: STAMP,
            };
            assert_eq!(verify_record(&bytes, key), Ok(view), "{size} bytes");
        }
    }
    let long = Stamp {
        writer: u16::MAX,
        sequence: u64::MAX,
    };
    let view = verify_record(&record(32, 1, 1, long), 1).unwrap();
    assert_eq!(view.stamp.writer, u16::MAX);
    assert_eq!(view.stamp.sequence, (1 << 48) - 1);
}

#[test]
fn sizes_that_records_do_not_have_are_refused() {
    for size in [0, 8, 24, 31, 33, 1004, (1 << 20) + 8] {
        let mut bytes = vec![0; size];
        let error = Err(RecordError::Size(size));
        assert_eq!(write_record(&mut bytes, 1, 1, STAMP), error);
        assert_eq!(verify_record(&bytes, 1).map(|_| ()), error);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}

/// Computed independently of this code, from the layout in the module documentation.
#[test]
fn the_layout_does_not_change() {
    let bytes = record(48, 7, 2, STAMP);
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(words, GOLDEN);
}

const GOLDEN: [u64; 6] = [
    0x0000_0000_0000_0007,
    0x0000_0000_0000_0002,
    0x0003_0000_0000_0063,
    0x2ea2_30e7_dd52_ee01,
    0x788f_7a6c_e565_33db,
    0xc3c0_4a6e_86c2_39ab,
];

#[test]
fn every_flipped_bit_is_found() {
    for size in [32, 40, 200] {
        let mut bytes = record(size, 12, 5, STAMP);
        for bit in 0..size * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = verify_record(&bytes, 12).expect_err("a damaged record");
            // A damaged version makes all of the filler foreign.
            match (bit / 8, error) {
                (0..8, RecordError::WrongKey { expected: 12, .. }) => {}
                (8..16, RecordError::Torn { at, .. }) => assert!(size > 32 && at >= 24),
                (8..16, RecordError::Checksum { .. }) => assert_eq!(size, 32),
                (at, RecordError::Torn { at: found, .. }) => assert_eq!(found, at),
                (at, RecordError::Checksum { .. }) => {
                    assert!((16..24).contains(&at) || at >= size - 8);
                }
                (at, error) => panic!("byte {at}: {error}"),
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_record_torn_at_any_byte_is_found() {
    let other = Stamp {
        writer: 4,
        sequence: 1,
    };
    for size in [32, 40, 1000] {
        // Consecutive versions, the same version by two writers, and distant ones.
        for (before, after) in [(5, 6), (6, 6), (255, 256), (1, 1 << 40)] {
            let old = record(size, 12, before, STAMP);
            let new = record(size, 12, after, other);
            for at in 0..=size {
                for (first, second) in [(&new, &old), (&old, &new)] {
                    let mut torn = first[..at].to_vec();
                    torn.extend_from_slice(&second[at..]);
                    let whole = torn == old || torn == new;
                    let verdict = verify_record(&torn, 12);
                    assert_eq!(
                        verdict.is_ok(),
                        whole,
                        "{before}, {after} at {at}: {verdict:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_torn_record_tells_where_and_of_which_version() {
    let mut bytes = record(1000, 12, 6, STAMP);
    bytes[512..].copy_from_slice(&record(1000, 12, 5, STAMP)[512..]);
    let error = verify_record(&bytes, 12).unwrap_err();
    assert_eq!(
        error,
        RecordError::Torn {
            key: 12,
            version: 6,
            at: 512,
            other: Some(5),
        }
    );
    assert_eq!(
        error.to_string(),
        "record 12 is torn or damaged: it says version 6, and byte 512 is not of it, but of \
         version 5"
    );
    bytes[515] ^= 1;
    let RecordError::Torn { at, other, .. } = verify_record(&bytes, 12).unwrap_err() else {
        panic!("it is torn");
    };
    assert!((512..516).contains(&at));
    assert_eq!(other, None);
}

#[test]
fn records_of_others_and_of_nobody_are_told_apart() {
    let bytes = record(64, 13, 2, STAMP);
    let error = RecordError::WrongKey {
        expected: 12,
        found: 13,
        version: 2,
    };
    assert_eq!(verify_record(&bytes, 12), Err(error));
    let error = RecordError::Unwritten { key: 12 };
    assert_eq!(verify_record(&[0; 64], 12), Err(error));
    // Record 0 in version 0 of writer 0 has a zero head, and is valid.
    let first = record(64, 0, 0, Stamp::default());
    assert!(verify_record(&first, 0).is_ok());
    assert_eq!(
        verify_record(&[0; 64], 0),
        Err(RecordError::Unwritten { key: 0 })
    );
    // The end of a longer record is not a valid end of a shorter one.
    let mut cut = record(72, 12, 2, STAMP);
    cut.truncate(64);
    cut[56..].copy_from_slice(&record(72, 12, 2, STAMP)[64..]);
    assert!(matches!(
        verify_record(&cut, 12),
        Err(RecordError::Checksum { .. })
    ));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), key: u64) {
        prop_assert!(verify_record(&bytes, key).is_err());
    }

    #[test]
    fn fillers_of_two_writes_share_no_word(a: (u64, u64), b: (u64, u64)) {
        prop_assume!(a != b);
        let words = |(key, version)| record(1024, key, version, STAMP);
        let (a, b) = (words(a), words(b));
        for (a, b) in a[24..1016].chunks(8).zip(b[24..1016].chunks(8)) {
            prop_assert_ne!(a, b);
        }
    }
}
