//! The masked pseudo-header: the bytes that the ICRC hashes before the payload.

use crate::{ethernet, ipv4, udp};
use rackweave_base::packet::HEADER_MAX;

/// Space for the longest head, four bytes of ones and the header from IPv4 on, in whole blocks of
/// sixteen bytes, which the CRC processes.
const ROOM: usize = 80;
const WORDS: usize = ROOM / 8;
/// Maximum bytes from the IPv4 header on.
const LEN_MAX: usize = HEADER_MAX - ethernet::LEN;
const _: () = assert!(4 + LEN_MAX <= ROOM);

/// Fields that count as ones, in bytes from the IPv4 header on: type of service, time to live,
/// header checksum, UDP checksum, BTH byte 4 (FECN, BECN and reserved bits).
const MASKED: [usize; 7] = [
    1,
    8,
    ipv4::CHECKSUM_AT,
    ipv4::CHECKSUM_AT + 1,
    ipv4::LEN + 6,
    ipv4::LEN + 7,
    ipv4::LEN + udp::LEN + 4,
];

/// A masked pseudo-header, at the end of a block of zeros, as little-endian words.
///
/// Eight bytes of ones, hashed by a CRC that starts with ones, are equivalent to four bytes of ones
/// hashed by a CRC that starts with zeros. For the latter, zeros in front make no difference. So
/// two heads of different lengths can be compared by one hash of their difference.
pub(super) struct Head {
    words: [u64; WORDS],
    len: usize,
}

/// The bits of a block that come from the header, and those that are ones.
#[derive(Clone, Copy)]
struct Mask {
    keep: [u64; WORDS],
    ones: [u64; WORDS],
}

/// The mask for each number of bytes from the IPv4 header on. In a header too short for all masked
/// fields, those that it contains are masked.
static MASKS: [Mask; LEN_MAX + 1] = {
    let mut masks = [Mask {
        keep: [0; WORDS],
        ones: [0; WORDS],
    }; LEN_MAX + 1];
    let mut len = 0;
    while len <= LEN_MAX {
        masks[len] = mask(len);
        len += 1;
    }
    masks
};

const fn mask(len: usize) -> Mask {
    let mut mask = Mask {
        keep: [0; WORDS],
        ones: [0; WORDS],
    };
    let start = ROOM - len;
    let mut at = start - 4;
    while at < ROOM {
        let byte = 0xff << (8 * (at % 8));
        if at < start || is_masked(at - start) {
            mask.ones[at / 8] |= byte;
        } else {
            mask.keep[at / 8] |= byte;
        }
        at += 1;
    }
    mask
}

const fn is_masked(at: usize) -> bool {
    let mut k = 0;
    while k < MASKED.len() {
        if MASKED[k] == at {
            return true;
        }
        k += 1;
    }
    false
}

impl Head {
    /// The head of a packet with this header, Ethernet first.
    #[inline]
    pub(super) fn of(header: &[u8]) -> Self {
        let len = header.len().saturating_sub(ethernet::header_len(header));
        let Mask { keep, ones } = &MASKS[len];
        let mut words = *ones;
        // Counted from the end, the whole words of the header hold all bytes from IPv4 on: the
        // remainder in front is less than a word, and the Ethernet header is longer.
        let (_, chunks) = header.as_rchunks::<8>();
        for ((word, keep), chunk) in words.iter_mut().zip(keep).rev().zip(chunks.iter().rev()) {
            *word |= u64::from_le_bytes(*chunk) & keep;
        }
        Self {
            words,
            len: 4 + len,
        }
    }

    /// A hasher that has processed the head.
    pub(super) fn hasher(&self) -> crc32fast::Hasher {
        hasher(&self.words, self.len)
    }
}

/// The difference of the CRCs of two heads.
#[inline]
pub(super) fn difference(old_header: &[u8], new_header: &[u8]) -> u32 {
    let (old, new) = (Head::of(old_header), Head::of(new_header));
    let words = core::array::from_fn(|at| old.words[at] ^ new.words[at]);
    !hasher(&words, old.len.max(new.len)).finalize()
}

/// A hasher without initial inversion that has processed the last `len` bytes of a block, and
/// possibly some of the zeros before them, so that it gets whole blocks of sixteen.
#[inline]
fn hasher(words: &[u64; WORDS], len: usize) -> crc32fast::Hasher {
    let bytes: [[u8; 8]; WORDS] = words.map(u64::to_le_bytes);
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    hasher.update(&bytes.as_flattened()[ROOM - len.next_multiple_of(16)..]);
    hasher
}
