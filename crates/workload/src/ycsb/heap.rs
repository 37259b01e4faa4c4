//! The location of records: a heap of records of one size in pages of one size.
//!
//! A page begins with the header of the page store. Records follow it, as many as fit completely;
//! the rest stays unused. Record numbers continue from page to page.

use super::record;

/// A heap of fixed-size records in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapLayout {
    page_size: u32,
    header_bytes: u32,
    record_size: u32,
    /// Whole records in a page; at least one.
    records_per_page: u32,
}

/// The location of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordLocation {
    /// The page, counted from the first of the heap.
    pub page: u64,
    /// Bytes from the start of the page, header included. A multiple of 8.
    pub offset: u32,
}

/// Why records cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeapError {
    /// Records of this size have no layout.
    #[error(
        "a record of {0} bytes; use a multiple of 8 from {min} to {max}",
        min = record::SIZE_MIN, max = record::SIZE_MAX
    )]
    RecordSize(u32),
    /// Records would not be aligned.
    #[error("a page header of {0} bytes is no multiple of 8, so records would not be aligned")]
    Header(u32),
    /// Not one record fits.
    #[error(
        "a record of {record_size} bytes does not fit a page of {page_size} bytes, {header_bytes} \
         of them header; use larger pages or smaller records"
    )]
    PageTooSmall {
        /// Bytes of a page.
        page_size: u32,
        /// Bytes at its start that are reserved for the page store.
        header_bytes: u32,
        /// Bytes of a record.
        record_size: u32,
    },
}

impl HeapLayout {
    /// A heap of records of `record_size` bytes, in pages of `page_size` bytes, the first
    /// `header_bytes` of which are reserved for the page store.
    ///
    /// # Errors
    /// If a page holds no record, or records would not be whole words on word boundaries.
    pub fn new(page_size: u32, header_bytes: u32, record_size: u32) -> Result<Self, HeapError> {
        if !record::is_size(record_size as usize) {
            return Err(HeapError::RecordSize(record_size));
        }
        if !header_bytes.is_multiple_of(8) {
            return Err(HeapError::Header(header_bytes));
        }
        let records_per_page = page_size.saturating_sub(header_bytes) / record_size;
        if records_per_page == 0 {
            return Err(HeapError::PageTooSmall {
                page_size,
                header_bytes,
                record_size,
            });
        }
        Ok(Self {
            page_size,
            header_bytes,
            record_size,
            records_per_page,
        })
    }

    /// Bytes of a page.
    pub const fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Bytes at the start of a page that are reserved for the page store.
    pub const fn header_bytes(&self) -> u32 {
        self.header_bytes
    }

    /// Bytes of a record.
    pub const fn record_size(&self) -> u32 {
        self.record_size
    }

    /// Records in a page.
    pub const fn records_per_page(&self) -> u32 {
        self.records_per_page
    }

    /// The location of record `record`.
    pub const fn place(&self, record: u64) -> RecordLocation {
        let per_page = self.records_per_page as u64;
        RecordLocation {
            page: record / per_page,
            offset: self.header_bytes + (record % per_page) as u32 * self.record_size,
        }
    }

    /// The numbers of the records in page `page`, of a heap of `records` records.
    pub fn records_of(&self, page: u64, records: u64) -> core::ops::Range<u64> {
        let per_page = u64::from(self.records_per_page);
        let first = page.saturating_mul(per_page).min(records);
        first..first.saturating_add(per_page).min(records)
    }

    /// Pages of a heap of `records` records.
    pub const fn pages(&self, records: u64) -> u64 {
        records.div_ceil(self.records_per_page as u64)
    }
}
