//! Page 0 of a store: the parameters of the store, and whether it was closed.
//!
//! Behind the page's header, little-endian:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | "RWpages\n" |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | bytes of a page |
//! | 16 | 8 | pages of the store, including this one |
//! | 24 | 8 | the store's identity |
//! | 32 | 8 | how often the store was closed |
//! | 40 | 8 | 0: closed; 1: open, which may not be durable yet; 2: open |
//! | 48 | 16 | zero |
//! | 64 | 8 | checksum of the 64 bytes before |
//!
//! The rest is zero. It has a checksum of its own, since a node that opens a store does not yet
//! know its page size. It changes only when a store is formatted, opened or closed.

use super::layout::StoreLayout;
use super::map::{set_word, word};
use crate::page_store::PageGuard;
use rackweave_base::checksum::checksum;

const MAGIC: u64 = u64::from_le_bytes(*b"RWpages\n");
/// The version of the format. In format 1, page 0 had a list of free pages.
pub(super) const FORMAT: u32 = 2;
const WORDS: usize = 8;
const LEN: usize = WORDS * 8;
const CLOSED: u64 = 0;
const OPENING: u64 = 1;
const OPEN: u64 = 2;

/// The superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages of the store, including superblock and maps.
    pub capacity: u64,
    /// The store's identity, which each of its pages carries; never zero.
    pub identity: u64,
    /// How often the store was closed cleanly.
    pub generation: u64,
    /// Whether the store was closed cleanly since it was last opened. False while any worker in the
    /// rack has it open.
    pub clean: bool,
    /// Whether the open state is durable, if the store is open.
    pub(super) marked: bool,
}

/// Why bytes are not a valid superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// They are all zero.
    Blank,
    /// They start with something else.
    Magic(u64),
    /// They have another version of the format.
    Format(u32),
    /// The checksum does not match, or there are too few bytes.
    Damaged,
}

impl Superblock {
    /// The superblock in the bytes behind page 0's header.
    ///
    /// # Errors
    /// If they are not a superblock of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Unfit> {
        let head = bytes.get(..LEN + 8).ok_or(Unfit::Damaged)?;
        let word = |at: usize| word(head, at);
        if head.iter().all(|byte| *byte == 0) {
            let is_blank = bytes.iter().all(|byte| *byte == 0);
            return Err(if is_blank {
                Unfit::Blank
            } else {
                Unfit::Damaged
            });
        }
        if word(0) != MAGIC {
            return Err(Unfit::Magic(word(0)));
        }
        if word(1) as u32 != FORMAT {
            return Err(Unfit::Format(word(1) as u32));
        }
        let reserved = word(6) | word(7);
        if word(WORDS) != checksum(0, &head[..LEN]) || word(5) > OPEN || reserved != 0 {
            return Err(Unfit::Damaged);
        }
        Ok(Self {
            page_size: (word(1) >> 32) as u32,
            capacity: word(2),
            identity: word(3),
            generation: word(4),
            clean: word(5) == CLOSED,
            marked: word(5) == OPEN,
        })
    }

    /// Writes it into page 0.
    pub(super) fn write(&self, guard: &mut PageGuard) {
        guard.update(0..guard.data().len(), |bytes| self.emit(bytes));
    }

    /// Writes it behind page 0's header, followed by zeroes.
    ///
    /// # Panics
    /// If there are fewer than 72 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let state = match (self.clean, self.marked) {
            (true, _) => CLOSED,
            (false, false) => OPENING,
            (false, true) => OPEN,
        };
        let words = [
            MAGIC,
            u64::from(FORMAT) | u64::from(self.page_size) << 32,
            self.capacity,
            self.identity,
            self.generation,
            state,
            0,
            0,
        ];
        bytes.fill(0);
        for (at, word) in words.into_iter().enumerate() {
            set_word(bytes, at, word);
        }
        let sum = checksum(0, &bytes[..LEN]);
        set_word(bytes, WORDS, sum);
    }

    /// The unchanging part, for store number `store`.
    pub fn layout(&self, store: u8) -> StoreLayout {
        StoreLayout {
            store,
            identity: self.identity,
            page_size: self.page_size,
            capacity: self.capacity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERBLOCK: Superblock = Superblock {
        page_size: 65536,
        capacity: 1000,
        identity: 7,
        generation: 3,
        clean: false,
        marked: true,
    };

    #[test]
    fn there_and_back_and_every_damage_is_found() {
        let mut bytes = vec![0; 4064];
        assert_eq!(Superblock::parse(&bytes), Err(Unfit::Blank));
        for (clean, marked) in [(true, false), (false, false), (false, true)] {
            let superblock = Superblock {
                clean,
                marked,
                ..SUPERBLOCK
            };
            superblock.emit(&mut bytes);
            assert_eq!(Superblock::parse(&bytes), Ok(superblock));
        }
        for bit in 0..(LEN + 8) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Superblock::parse(&bytes[..64]), Err(Unfit::Damaged));
    }

    #[test]
    fn reserved_words_are_zero() {
        let mut bytes = vec![0; 4064];
        SUPERBLOCK.emit(&mut bytes);
        bytes[48] = 1;
        let sum = checksum(0, &bytes[..LEN]);
        bytes[LEN..LEN + 8].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::parse(&bytes), Err(Unfit::Damaged));
    }

    #[test]
    fn a_beginning_of_zeroes_is_no_blank_page() {
        let mut bytes = vec![0; 4064];
        bytes[4063] = 1;
        assert_eq!(Superblock::parse(&bytes), Err(Unfit::Damaged));
    }
}
