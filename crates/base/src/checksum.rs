//! The checksum of data on storage: 64 bits, computed by four lanes of multiplications.
//!
//! Each step multiplies two words to 128 bits and folds the halves together, as wyhash does; each
//! lane carries its state to the next step. The checksum detects corruption, not deliberate
//! changes. It is part of storage formats (pages, the double-write area), so it never changes.

use crate::memory::SharedBytes;
use core::ops::Range;

const LANES: [u64; 4] = [
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
];
/// Constants that differ from all of [`LANES`]: a lane without input must not make a product zero.
const LAST: [u64; 2] = [0x1d8e_4e27_c47d_124f, 0x9e37_79b9_7f4a_7c15];
const STEP: usize = 64;

/// The checksum of a word and the bytes after it, a multiple of eight. Never zero, which means no
/// checksum.
pub fn checksum(first: u64, bytes: &[u8]) -> u64 {
    checksum_of(first, bytes.len(), |range, copy| {
        copy.copy_from_slice(&bytes[range]);
    })
}

/// [`checksum`] of bytes that others may change during the computation.
pub fn checksum_shared(first: u64, bytes: SharedBytes<'_>) -> u64 {
    checksum_of(first, bytes.len(), |range, copy| {
        bytes.slice(range).copy_to(copy);
    })
}

#[inline]
fn checksum_of(first: u64, len: usize, copy: impl Fn(Range<usize>, &mut [u8])) -> u64 {
    let mut lanes = LANES;
    let whole = len / STEP * STEP;
    for at in (0..whole).step_by(STEP) {
        let mut step = [0; STEP];
        copy(at..at + STEP, &mut step);
        for (at, lane) in lanes.iter_mut().enumerate() {
            let (a, b) = (word(&step[16 * at..]), word(&step[16 * at + 8..]));
            *lane = fold(a ^ LANES[at], b ^ *lane);
        }
    }
    let mut sum = fold(first ^ LANES[0], len as u64 ^ LANES[1]);
    for at in (whole..len).step_by(8) {
        let mut eight = [0; 8];
        let end = len.min(at + 8);
        copy(at..end, &mut eight[..end - at]);
        sum = fold(u64::from_le_bytes(eight) ^ LANES[2], sum ^ LANES[3]);
    }
    for lane in lanes {
        sum = fold(sum ^ LAST[0], lane ^ LAST[1]);
    }
    sum.max(1)
}

/// The little-endian word at the start of at least eight bytes.
#[inline]
pub fn word(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}

/// Multiplies two words and folds the halves of the product together, as wyhash does.
#[inline]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn every_bit_counts() {
        let mut rng = Rng::new(1);
        for len in if cfg!(miri) {
            [8, 72].to_vec()
        } else {
            vec![8, 64, 72, 4056]
        } {
            let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let whole = checksum(5, &bytes);
            assert_ne!(whole, checksum(6, &bytes));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(whole, checksum(5, &bytes), "bit {bit} of {len} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn zeroes_of_different_lengths_differ() {
        let zeroes = [0; 4096];
        assert_ne!(checksum(0, &zeroes), checksum(0, &zeroes[..4056]));
        assert_ne!(checksum(0, &[]), 0);
    }

    /// Existing stores depend on it, for years.
    #[test]
    fn it_never_changes() {
        let bytes: Vec<u8> = (0..200).collect();
        assert_eq!(checksum(7, &bytes), FIXED);
    }
    const FIXED: u64 = 0x6d69_6e81_8d18_cb6c;
}
