//! The first bytes of every page, in a buffer frame and on the SSD.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | tag: page number and a magic ([`super::PageId::tag`]); or [`VOID`], or zero |
//! | 8 | 8 | version: that of the latch word when the page was last unlatched after a change |
//! | 16 | 8 | checksum of everything after it, or zero while the page may be changing |
//! | 24 | 8 | the store's identity |
//! | 32 | 8 | LSN: position of the page's last change in the log of the engine above, or zero |
//! | 40 | 8 | epoch: the page directory that assigned the version; it orders its versions |
//!
//! All little-endian. The tag is [`VOID`] while the buffer frame holds no page, or none yet, and
//! zero in a page that was never written. A node that drops a clean page voids the header before it
//! reuses the buffer frame: from this the switch learns of it (Seamless, section 2.1).

use super::PageId;

/// Bytes of the header. What follows belongs to the page's owner.
pub const HEADER_LEN: usize = 48;

/// The tag when there is no page.
pub const VOID: u64 = u64::MAX;

/// The header as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageHeader {
    /// The page's tag.
    pub page: u64,
    /// The version at the last change.
    pub version: u64,
    /// The checksum of bytes 24 to the end, or zero.
    pub checksum: u64,
    /// The store's identity.
    pub store: u64,
    /// The log sequence number of the last change that had one, or zero. The engine above sets it;
    /// no layer below interprets it.
    pub lsn: u64,
    /// The page directory that assigned the version: a random number.
    pub epoch: u64,
}

impl PageHeader {
    /// Reads the first 48 bytes; `None` if there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let words: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&words[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        Some(Self {
            page: word(0),
            version: word(8),
            checksum: word(16),
            store: word(24),
            lsn: word(32),
            epoch: word(40),
        })
    }

    /// For the header at the home of `page`: the version that the directory of this epoch assigned
    /// to the contents; 0 if an earlier directory did, or the page was never written. `None` if
    /// this is not a header of the page: the home is corrupted, and any version may have been
    /// there. `is_blank` says whether all bytes of the page are zero.
    pub fn home_version(
        &self,
        page: PageId,
        epoch: u64,
        is_blank: impl FnOnce() -> bool,
    ) -> Option<u64> {
        if self.page == page.tag() {
            let is_of_this_directory = self.epoch == epoch;
            return Some(if is_of_this_directory {
                self.version
            } else {
                0
            });
        }
        (*self == Self::default() && is_blank()).then_some(0)
    }

    /// The bytes.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let words = [
            self.page,
            self.version,
            self.checksum,
            self.store,
            self.lsn,
            self.epoch,
        ];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let header = PageHeader {
            page: 0x0102_0304_0506,
            version: 9,
            checksum: u64::MAX - 1,
            store: 5,
            lsn: 0x0708,
            epoch: 0x090a,
        };
        let bytes = header.emit();
        assert_eq!(bytes[..8], [6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(bytes[8..10], [9, 0]);
        assert_eq!(bytes[32..40], [8, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[40..], [0x0a, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!(PageHeader::parse(&bytes), Some(header));
        assert_eq!(PageHeader::parse(&bytes[..HEADER_LEN - 1]), None);
    }

    #[test]
    fn a_home_tells_its_version_or_that_it_is_damaged() {
        let page = PageId::new(1, 7).unwrap();
        let header = PageHeader {
            page: page.tag(),
            version: 9,
            epoch: 5,
            ..PageHeader::default()
        };
        assert_eq!(header.home_version(page, 5, || false), Some(9));
        assert_eq!(header.home_version(page, 6, || false), Some(0));
        let other = PageId::new(1, 8).unwrap();
        assert_eq!(header.home_version(other, 5, || true), None);
        let zeroes = PageHeader::default();
        assert_eq!(zeroes.home_version(page, 5, || true), Some(0));
        assert_eq!(zeroes.home_version(page, 5, || false), None);
    }
}
