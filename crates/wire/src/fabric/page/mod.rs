//! Pages: the messages between nodes and the page directory (Seamless, section 2).
//!
//! - [`request`]: a READ whose RETH carries operation, page and buffer frame; its response.
//! - [`completion`]: what the switch writes when the data has arrived.
//! - [`entry`]: the directory's entry of a page: holder, latch word, place; also the form of the
//!   entry in the memory of a server, for pages that the switch does not index.
//! - [`header`]: the first bytes of every page.
//! - [`control`]: the data that nodes, switch and controller share in a node's memory.
//!
//! A **page number** has 48 bits: the *store* of the page (a namespace of an NVMe target) in bits
//! 40 to 47, the number of the page within it below. The home of a page follows from it: block
//! `index × page size / block size` of the namespace. Therefore the switch needs no table of homes.

pub mod completion;
pub mod control;
pub mod entry;
pub mod header;
pub mod request;

pub use completion::{Completion, Outcome, PageSource};
pub use control::FrameState;
pub use entry::{FallbackLatch, LatchWord, PageLocation};
pub use header::{HEADER_LEN, PageHeader};
pub use request::{Operation, Request, Response, Status};
use serde::{Deserialize, Serialize};

use core::fmt;

/// A page: store and index.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct PageId(u64);

impl PageId {
    /// Bits of a page number.
    pub const BITS: u32 = 48;
    const INDEX_BITS: u32 = 40;
    /// "RW".
    const MAGIC: u16 = 0x5257;

    /// Page `index` of `store`; `None` if the index has more than 40 bits.
    pub const fn new(store: u8, index: u64) -> Option<Self> {
        if index >> Self::INDEX_BITS != 0 {
            return None;
        }
        Some(Self((store as u64) << Self::INDEX_BITS | index))
    }

    /// The page with this number; `None` if it has more than 48 bits.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number >> Self::BITS != 0 {
            return None;
        }
        Some(Self(number))
    }

    /// The 48 bits.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The first word of a page's header: the number, and a magic above it. It distinguishes a page
    /// from one that was never written and from memory that never was a page.
    pub const fn tag(self) -> u64 {
        (Self::MAGIC as u64) << Self::BITS | self.0
    }

    /// The page whose header begins with this word, if it is the tag of a page.
    pub const fn from_tag(tag: u64) -> Option<Self> {
        if tag >> Self::BITS != Self::MAGIC as u64 {
            return None;
        }
        Self::from_number(tag & ((1 << Self::BITS) - 1))
    }

    /// The store.
    pub const fn store(self) -> u8 {
        (self.0 >> Self::INDEX_BITS) as u8
    }

    /// The index within the store.
    pub const fn index(self) -> u64 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}:{}", self.store(), self.index())
    }
}

/// Minimum page size, in bytes.
pub const PAGE_SIZE_MIN: u32 = 4 << 10;
/// Maximum page size, in bytes.
pub const PAGE_SIZE_MAX: u32 = 1 << 20;

/// Whether pages may have this size: a power of two from 4 KiB to 1 MiB.
pub const fn is_page_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes >= PAGE_SIZE_MIN && bytes <= PAGE_SIZE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_number_is_store_and_index() {
        let page = PageId::new(3, 77).unwrap();
        assert_eq!((page.store(), page.index()), (3, 77));
        assert_eq!(PageId::from_number(page.number()), Some(page));
        assert_eq!(page.to_string(), "page 3:77");
        assert_eq!(page.tag(), 0x5257_0300_0000_004d);
        assert_eq!(PageId::from_tag(page.tag()), Some(page));
        assert_eq!(PageId::from_tag(page.number()), None);
        assert_eq!(PageId::from_tag(super::header::VOID), None);
        assert_eq!(PageId::new(0, 1 << 40), None);
        assert_eq!(PageId::from_number(1 << 48), None);
    }

    #[test]
    fn sizes_are_powers_of_two_between_the_bounds() {
        for good in [4096, 65536, 1 << 20] {
            assert!(is_page_size(good));
        }
        for bad in [0, 2048, 4097, 12288, 2 << 20] {
            assert!(!is_page_size(bad));
        }
    }
}
