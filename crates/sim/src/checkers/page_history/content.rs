//! Self-identifying pages: every word of a page follows from the page's number, the version that
//! its writer gave it, the writer, and the seed.
//!
//! The first four words are page, version, writer and a checksum over them; all others are filler.
//! So the checker knows every byte of a version that it never saw, and a page that mixes two
//! versions is detected by the first word of the other.

use super::super::stamp::scramble;
use super::Who;

/// Minimum bytes of a page: its first four words.
pub const CONTENT_BYTES_MIN: usize = 32;

const WORD: usize = 8;

/// The identity of a page's content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageStamp {
    /// The page's number.
    pub page: u64,
    /// The version that the writer gave it.
    pub version: u64,
    /// The writer.
    pub writer: Who,
}

/// What is wrong with the bytes of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Torn {
    /// Too short, or not a whole number of words.
    #[error("{len} bytes are no page of whole words")]
    Length {
        /// Bytes of the page.
        len: usize,
    },
    /// The first words are not those of any page of this run.
    #[error("no page of this run: it begins with {words:016x?}")]
    NotStamped {
        /// The first words.
        words: [u64; 4],
    },
    /// A word after the stamp belongs to another version.
    #[error("{stamp:?}: word {at} is {got:#018x}, not {expect:#018x}")]
    Mixed {
        /// The stamp in the first words.
        stamp: PageStamp,
        /// The first wrong word.
        at: usize,
        /// The actual word.
        got: u64,
        /// The expected word.
        expect: u64,
    },
    /// Some words of a page that was never written are not zero.
    #[error("a page that begins as one never written has {got:#018x} as word {at}")]
    NotZero {
        /// The first wrong word.
        at: usize,
        /// The actual word.
        got: u64,
    },
}

impl PageStamp {
    fn words(self, seed: u64) -> [u64; 4] {
        let writer = u64::from(self.writer.node) << 16 | u64::from(self.writer.worker);
        let sum = scramble(scramble(scramble(seed ^ self.page) ^ self.version) ^ writer);
        [self.page, self.version, writer, sum]
    }

    /// The word at index `at`, from the fourth on.
    fn filler(sum: u64, at: usize) -> u64 {
        scramble(sum.wrapping_add(at as u64))
    }
}

/// Writes stamp and filler over the whole page.
///
/// # Panics
/// If the page is shorter than its stamp or not a whole number of words.
pub fn fill_page(bytes: &mut [u8], stamp: PageStamp, seed: u64) {
    assert!(bytes.len() >= CONTENT_BYTES_MIN && bytes.len().is_multiple_of(WORD));
    let first = stamp.words(seed);
    for (at, chunk) in bytes.chunks_exact_mut(WORD).enumerate() {
        let word = match first.get(at) {
            Some(word) => *word,
            None => PageStamp::filler(first[3], at),
        };
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// Identifies a page and compares every word of it. `None` if it is all zeroes: never written.
///
/// # Errors
/// If it is not exactly one version of one page of this run.
pub fn check_page(bytes: &[u8], seed: u64) -> Result<Option<PageStamp>, Torn> {
    let len = bytes.len();
    if len < CONTENT_BYTES_MIN || !len.is_multiple_of(WORD) {
        return Err(Torn::Length { len });
    }
    let word = |chunk: &[u8]| {
        chunk
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte))
    };
    let mut words = bytes.chunks_exact(WORD).map(word).enumerate();
    let mut first = [0; 4];
    for (place, (_, word)) in first.iter_mut().zip(words.by_ref()) {
        *place = word;
    }
    if first == [0; 4] {
        return match words.find(|&(_, word)| word != 0) {
            Some((at, got)) => Err(Torn::NotZero { at, got }),
            None => Ok(None),
        };
    }
    let stamp = PageStamp {
        page: first[0],
        version: first[1],
        writer: Who {
            node: (first[2] >> 16) as u16,
            worker: first[2] as u16,
        },
    };
    if stamp.words(seed) != first {
        return Err(Torn::NotStamped { words: first });
    }
    let mut rest = words.map(|(at, got)| (at, got, PageStamp::filler(first[3], at)));
    match rest.find(|(_, got, expect)| got != expect) {
        Some((at, got, expect)) => Err(Torn::Mixed {
            stamp,
            at,
            got,
            expect,
        }),
        None => Ok(Some(stamp)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(version: u64) -> Vec<u8> {
        let writer = Who { node: 3, worker: 1 };
        let stamp = PageStamp {
            page: 0x1_0000_0007,
            version,
            writer,
        };
        let mut bytes = vec![0xee; 4064];
        fill_page(&mut bytes, stamp, 5);
        bytes
    }

    #[test]
    fn a_page_is_recognised() {
        let stamp = check_page(&page(9), 5).unwrap().unwrap();
        assert_eq!((stamp.page, stamp.version), (0x1_0000_0007, 9));
        assert_eq!(stamp.writer, Who { node: 3, worker: 1 });
        assert!(matches!(
            check_page(&page(9), 6),
            Err(Torn::NotStamped { .. })
        ));
        assert_eq!(check_page(&[0; 4064], 5), Ok(None));
    }

    #[test]
    fn every_damage_is_seen() {
        for at in 0..page(9).len() {
            let mut bytes = page(9);
            bytes[at] ^= 1;
            assert!(check_page(&bytes, 5).is_err(), "byte {at}");
        }
        // Their first words are the same.
        let (old, new) = (page(8), page(9));
        for cut in (16..old.len()).step_by(8) {
            let mixed = [&new[..cut], &old[cut..]].concat();
            assert!(check_page(&mixed, 5).is_err(), "cut at {cut}");
        }
        let mut zeroes = vec![0; 4064];
        zeroes[4000] = 1;
        let found = check_page(&zeroes, 5);
        assert_eq!(found, Err(Torn::NotZero { at: 500, got: 1 }));
        let found = check_page(&zeroes[..33], 5);
        assert_eq!(found, Err(Torn::Length { len: 33 }));
    }
}
