//! Checks of pages that arrive in a buffer frame, and preparation of pages that leave it.

use super::{CHECKSUM_AT, EPOCH_AT, LSN_AT, PAGE_AT, Pool, STORE_AT, VERSION_AT};
use crate::page_store::FixError;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::checksum::{checksum, checksum_shared};
use rackweave_base::memory::{FrameRead, FrameWrite, SharedBytes};
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{PageHeader, PageId, PageSource};
use std::sync::atomic::Ordering;

impl Pool {
    /// The header of the page in a buffer frame.
    pub(in super::super) fn header(&self, frame: u32) -> PageHeader {
        let word = |at| u64::from_le(self.frames.header_word(frame, at).load(Ordering::Acquire));
        PageHeader {
            page: word(PAGE_AT),
            version: word(VERSION_AT),
            checksum: word(CHECKSUM_AT),
            store: word(STORE_AT),
            lsn: word(LSN_AT),
            epoch: word(EPOCH_AT),
        }
    }

    /// Writes a header, the page's number last, since other nodes recognize the page by it.
    pub(in super::super) fn set_header(&self, frame: u32, header: PageHeader) {
        let words = [
            (EPOCH_AT, header.epoch),
            (LSN_AT, header.lsn),
            (STORE_AT, header.store),
            (CHECKSUM_AT, header.checksum),
            (VERSION_AT, header.version),
            (PAGE_AT, header.page),
        ];
        for (at, word) in words {
            let cell = self.frames.header_word(frame, at);
            cell.store(word.to_le(), Ordering::Release);
        }
    }

    /// The LSN of the page in a buffer frame.
    pub(in super::super) fn lsn(&self, frame: u32) -> u64 {
        let word = self.frames.header_word(frame, LSN_AT);
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Sets the LSN of the page in a buffer frame. The caller holds the frame's latch.
    pub(in super::super) fn set_lsn(&self, frame: u32, lsn: u64) {
        let word = self.frames.header_word(frame, LSN_AT);
        word.store(lsn.to_le(), Ordering::Release);
    }

    /// Checks what a fetch of `page` returned. Two cases become a page of zeroes of this store: a
    /// page that was never written, whose bytes are all zero, and a page of the store that was on
    /// this device before. If not `checked`, anything else is accepted.
    ///
    /// # Errors
    /// If it is not the requested page, or is damaged.
    pub(in super::super) fn admit(
        &self,
        write: &mut FrameWrite,
        page: PageId,
        version: u64,
        source: PageSource,
        checked: bool,
    ) -> Result<(), FixError> {
        self.note_used(page.store());
        let mut header = self.header(write.frame());
        let from_storage = source == PageSource::Storage;
        if !from_storage && header.page == VOID {
            // Its node dropped the page after the switch had read the header. It does not reuse the
            // buffer frame before the transfer is over, so the rest is complete.
            header.page = page.tag();
            self.set_header(write.frame(), header);
        }
        // A header of zeroes in front of anything else is damage.
        let is_zero = || write.bytes().is_all(0);
        let looked_at = planted(Canary::PagesDamageIsBlank) || is_zero();
        let blank = header == PageHeader::default() && looked_at;
        if from_storage && blank {
            self.begin_page(write, page, version);
            return Ok(());
        }
        if !checked {
            return Ok(());
        }
        let wrong = FixError::WrongPage {
            page,
            found: header.page,
            store: header.store,
        };
        if header.page != page.tag() {
            return Err(wrong);
        }
        // Other nodes may copy a page from this buffer frame as soon as it is there. Until this
        // node has checked it, its checksum tells them to check it themselves.
        let as_stored = from_storage || header.checksum != 0;
        if as_stored && self.config.checksums {
            let expected = page_checksum(&header, write.bytes());
            if header.checksum != expected {
                return Err(FixError::Corrupt {
                    page,
                    found: header.checksum,
                    expected,
                });
            }
        }
        let identity = self.identity(page.store());
        if identity != 0 && header.store != identity {
            if !as_stored {
                return Err(wrong);
            }
            // Complete, and of the store that was on this device before.
            self.begin_page(write, page, version);
        } else if header.checksum != 0 {
            let cell = self.frames.header_word(write.frame(), CHECKSUM_AT);
            cell.store(0, Ordering::Release);
        }
        Ok(())
    }

    fn begin_page(&self, write: &mut FrameWrite, page: PageId, version: u64) {
        write.bytes_mut().fill(0);
        self.set_header(write.frame(), self.new_header(page, version, 0));
    }

    /// The header of a page without a checksum.
    fn new_header(&self, page: PageId, version: u64, lsn: u64) -> PageHeader {
        PageHeader {
            page: page.tag(),
            version,
            checksum: 0,
            store: self.identity(page.store()),
            lsn,
            epoch: self.epoch(),
        }
    }

    /// Gives a page its checksum before it is written home.
    pub(in super::super) fn seal(&self, read: &FrameRead) {
        let header = self.header(read.frame());
        if self.config.checksums && header.checksum == 0 {
            let sum = page_checksum(&header, read.bytes());
            let cell = self.frames.header_word(read.frame(), CHECKSUM_AT);
            cell.store(sum.to_le(), Ordering::Release);
        }
    }

    /// Marks a page as changed: it gets the next version and loses its checksum. Its LSN stays.
    pub(in super::super) fn mark_changed(&self, frame: u32, page: PageId, version: u64) {
        let lsn = self.lsn(frame);
        self.set_header(frame, self.new_header(page, version, lsn));
    }
}

/// The checksum of a page: over its header from the store's identity on, and the bytes behind it.
/// Never zero.
fn page_checksum(header: &PageHeader, bytes: SharedBytes<'_>) -> u64 {
    let mut words = [0; 16];
    words[..8].copy_from_slice(&header.lsn.to_le_bytes());
    words[8..].copy_from_slice(&header.epoch.to_le_bytes());
    checksum(checksum_shared(header.store, bytes), &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_the_header_counts_from_the_identity_on() {
        let header = PageHeader {
            store: 5,
            lsn: 9,
            ..PageHeader::default()
        };
        let block = rackweave_base::Memory::new(4096).allocate(64).unwrap();
        block.bytes_mut(0, 64).fill(1);
        let bytes = block.bytes(0, 64);
        let whole = page_checksum(&header, bytes);
        for bit in 0..64 {
            let store = header.store ^ 1 << bit;
            assert_ne!(whole, page_checksum(&PageHeader { store, ..header }, bytes));
            let lsn = header.lsn ^ 1 << bit;
            assert_ne!(whole, page_checksum(&PageHeader { lsn, ..header }, bytes));
        }
    }
}
