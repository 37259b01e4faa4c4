//! What came into a buffer frame, and whether it is what was asked for; what goes out of it.

use super::{CHECKSUM_AT, PAGE_AT, Pool, STORE_AT, VERSION_AT};
use crate::page_store::FixError;
use crate::page_store::checksum::checksum;
use rackweave_base::memory::{FrameRead, FrameWrite};
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{PageHeader, PageId, Source};
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
        }
    }

    /// Writes a header; the page's number last, by which others know the page.
    pub(in super::super) fn set_header(&self, frame: u32, header: PageHeader) {
        let words = [
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

    /// Looks at what a fetch of `page` brought. A page that was never written in this store becomes
    /// a page of zeroes. If not `checked`, anything else will do.
    ///
    /// # Errors
    /// If it is something else than the page, or damaged.
    pub(in super::super) fn admit(
        &self,
        write: &mut FrameWrite,
        page: PageId,
        version: u64,
        source: Source,
        checked: bool,
    ) -> Result<(), FixError> {
        let mut header = self.header(write.frame());
        let from_storage = source == Source::Storage;
        if !from_storage && header.page == VOID {
            // Its node dropped the page behind the switch's look at the header. It does not use the
            // buffer frame again before the transfer is over, so the rest is whole.
            header.page = page.tag();
            self.set_header(write.frame(), header);
        }
        if from_storage && header == PageHeader::default() {
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
        if from_storage && self.config.checksums && header.checksum != 0 {
            let expected = checksum(header.store, write);
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
            if !from_storage {
                return Err(wrong);
            }
            // Whole, and of the store that was on this device before.
            self.begin_page(write, page, version);
        }
        Ok(())
    }

    fn begin_page(&self, write: &mut FrameWrite, page: PageId, version: u64) {
        write.fill(0);
        let header = PageHeader {
            page: page.tag(),
            version,
            checksum: 0,
            store: self.identity(page.store()),
        };
        self.set_header(write.frame(), header);
    }

    /// Gives a page its checksum before it is written home.
    pub(in super::super) fn seal(&self, read: &FrameRead) {
        let header = self.header(read.frame());
        if self.config.checksums && header.checksum == 0 {
            let sum = checksum(header.store, read);
            let cell = self.frames.header_word(read.frame(), CHECKSUM_AT);
            cell.store(sum.to_le(), Ordering::Release);
        }
    }

    /// A page was changed: it will be of the next version, and has no checksum.
    pub(in super::super) fn mark_changed(&self, frame: u32, page: PageId, version: u64) {
        let header = PageHeader {
            page: page.tag(),
            version,
            checksum: 0,
            store: self.identity(page.store()),
        };
        self.set_header(frame, header);
    }
}
