//! The masked pseudo-header: the bytes that the ICRC hashes before the payload.

use super::polynomial::remainder;
use crate::{bth, ethernet, ipv4, udp};
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
        let len = ip_len(header);
        let Mask { keep, ones } = &MASKS[len];
        let mut words = *ones;
        let header_words = last_words(header, len.div_ceil(8));
        for ((word, keep), header_word) in words.iter_mut().zip(keep).rev().zip(header_words.rev())
        {
            *word |= header_word & keep;
        }
        Self {
            words,
            len: 4 + len,
        }
    }

    /// A hasher without initial inversion that has processed the head, and possibly some of the
    /// zeros before it, so that it gets whole blocks of sixteen.
    pub(super) fn hasher(&self) -> crc32fast::Hasher {
        let bytes: [[u8; 8]; WORDS] = self.words.map(u64::to_le_bytes);
        let mut hasher = crc32fast::Hasher::new_with_initial(!0);
        hasher.update(&bytes.as_flattened()[ROOM - self.len.next_multiple_of(16)..]);
        hasher
    }

    /// The difference of the CRCs of this head and that of `header`.
    #[inline]
    pub(super) fn difference(&self, header: &[u8]) -> u32 {
        let len = ip_len(header);
        if 4 + len != self.len {
            let other = Self::of(header);
            let pairs = self.words.into_iter().zip(other.words);
            return remainder(pairs.map(|(word, other)| word ^ other));
        }
        // What counts as ones cancels out.
        let first = WORDS - len.div_ceil(8);
        let pairs = self.words[first..].iter().zip(&MASKS[len].keep[first..]);
        let header_words = last_words(header, len.div_ceil(8));
        remainder(
            pairs
                .zip(header_words)
                .map(|((word, keep), header_word)| (word ^ header_word) & keep),
        )
    }
}

/// Number of bytes from the IPv4 header on.
#[inline]
fn ip_len(header: &[u8]) -> usize {
    header.len().saturating_sub(ethernet::header_len(header))
}

/// Words of a header without VLAN tag and extension, from IPv4 on.
pub(super) const PLAIN_WORDS: usize = (ipv4::LEN + udp::LEN + bth::LEN) / 8;

/// What the CRC covers of a header without VLAN tag and extension, as little-endian words. `None`
/// for any other header.
#[inline]
pub(super) fn plain(header: &[u8]) -> Option<[u64; PLAIN_WORDS]> {
    const LEN: usize = 8 * PLAIN_WORDS;
    const KEEP: [u64; WORDS] = mask(LEN).keep;
    let header: &[u8; ethernet::LEN + LEN] = header.try_into().ok()?;
    if ethernet::header_len(header) != ethernet::LEN {
        return None;
    }
    let (_, words) = header.as_rchunks::<8>();
    // A loop, as adapters of arrays are calls where nothing is optimised across crates.
    let mut plain = [0; PLAIN_WORDS];
    for (at, plain) in plain.iter_mut().enumerate() {
        let word = u64::from_le_bytes(words[words.len() - PLAIN_WORDS + at]);
        *plain = word & KEEP[WORDS - PLAIN_WORDS + at];
    }
    Some(plain)
}

/// The last `count` words of a header. Those that hold all bytes from IPv4 on are whole: in front
/// of them is less than a word, and the Ethernet header is longer.
#[inline]
fn last_words(header: &[u8], count: usize) -> impl DoubleEndedIterator<Item = u64> {
    let (_, chunks) = header.as_rchunks::<8>();
    let words = chunks[chunks.len() - count..].iter();
    words.map(|chunk| u64::from_le_bytes(*chunk))
}
