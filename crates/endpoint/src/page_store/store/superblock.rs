//! Page 0 of a store: what the store is, and which pages are in use.
//!
//! Behind the page's header, little-endian:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | "RWpages\n" |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | bytes of a page |
//! | 16 | 8 | pages of the store, this one included |
//! | 24 | 8 | the store's identity |
//! | 32 | 8 | how often the store was closed |
//! | 40 | 8 | the first page that was never in use |
//! | 48 | 8 | the first free page below it, or zero |
//! | 56 | 8 | how many such free pages there are |
//! | 64 | 8 | checksum of the 64 bytes before |
//!
//! It has a checksum of its own, since whoever opens a store does not know yet how long its pages
//! are. A free page has [`FreePage`] behind its header.

use crate::page_store::checksum::checksum;

const MAGIC: u64 = u64::from_le_bytes(*b"RWpages\n");
const FREE_MAGIC: u64 = u64::from_le_bytes(*b"RWfree!\n");
/// The version of the format.
pub(super) const FORMAT: u32 = 1;
const WORDS: usize = 8;
const LEN: usize = WORDS * 8;

/// The superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages of the store, the superblock included.
    pub capacity: u64,
    /// The store's identity, which every page of it bears; never zero.
    pub identity: u64,
    /// How often the store was closed in an orderly way.
    pub generation: u64,
    /// The first page that was never in use.
    pub next_unused: u64,
    /// The first page of the list of free pages, zero if there is none.
    pub free_first: u64,
    /// Pages in that list.
    pub free_count: u64,
}

/// What is wrong with bytes that should be a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unfit {
    Blank,
    Magic(u64),
    Format(u32),
    Damaged,
}

impl Superblock {
    /// The superblock in the bytes behind page 0's header.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Unfit> {
        let head = bytes.get(..LEN + 8).ok_or(Unfit::Damaged)?;
        let word = |at: usize| word(head, at);
        if head.iter().all(|byte| *byte == 0) {
            return Err(Unfit::Blank);
        }
        if word(0) != MAGIC {
            return Err(Unfit::Magic(word(0)));
        }
        if word(1) as u32 != FORMAT {
            return Err(Unfit::Format(word(1) as u32));
        }
        if word(WORDS) != checksum(0, &head[..LEN]) {
            return Err(Unfit::Damaged);
        }
        Ok(Self {
            page_size: (word(1) >> 32) as u32,
            capacity: word(2),
            identity: word(3),
            generation: word(4),
            next_unused: word(5),
            free_first: word(6),
            free_count: word(7),
        })
    }

    /// Writes it behind page 0's header.
    pub(super) fn emit(&self, bytes: &mut [u8]) {
        let words = [
            MAGIC,
            u64::from(FORMAT) | u64::from(self.page_size) << 32,
            self.capacity,
            self.identity,
            self.generation,
            self.next_unused,
            self.free_first,
            self.free_count,
        ];
        for (at, word) in words.into_iter().enumerate() {
            set_word(bytes, at, word);
        }
        let sum = checksum(0, &bytes[..LEN]);
        set_word(bytes, WORDS, sum);
    }
}

/// The beginning of a page that is free: a mark of its own, and the next free page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FreePage {
    /// The next one's index, or zero.
    pub next: u64,
}

impl FreePage {
    /// The mark in the bytes of page `index`, if it is free.
    pub fn parse(bytes: &[u8], identity: u64, index: u64) -> Option<Self> {
        let marked =
            word(bytes, 0) == FREE_MAGIC && word(bytes, 1) == identity && word(bytes, 2) == index;
        marked.then(|| Self {
            next: word(bytes, 3),
        })
    }

    pub fn emit(&self, bytes: &mut [u8], identity: u64, index: u64) {
        for (at, word) in [FREE_MAGIC, identity, index, self.next]
            .into_iter()
            .enumerate()
        {
            set_word(bytes, at, word);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
    u64::from_le_bytes(eight)
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_and_every_damage_is_found() {
        let superblock = Superblock {
            page_size: 65536,
            capacity: 1000,
            identity: 7,
            generation: 3,
            next_unused: 17,
            free_first: 5,
            free_count: 2,
        };
        let mut bytes = vec![0; 4064];
        assert_eq!(Superblock::parse(&bytes), Err(Unfit::Blank));
        superblock.emit(&mut bytes);
        assert_eq!(Superblock::parse(&bytes), Ok(superblock));
        for bit in 0..(LEN + 8) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Superblock::parse(&bytes[..64]), Err(Unfit::Damaged));
    }

    #[test]
    fn a_free_page_is_marked_for_its_place() {
        let mut bytes = vec![0; 64];
        FreePage { next: 9 }.emit(&mut bytes, 7, 4);
        assert_eq!(FreePage::parse(&bytes, 7, 4), Some(FreePage { next: 9 }));
        assert_eq!(FreePage::parse(&bytes, 7, 5), None);
        assert_eq!(FreePage::parse(&bytes, 8, 4), None);
    }
}
