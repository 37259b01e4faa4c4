//! Maps pages of the heap to pages of the store.
//!
//! The first pages that can be allocated are the *catalogue*. After the page store's header, each
//! has (little-endian):
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | "RWheap1\n" |
//! | 8 | 8 | the catalogue page's number, from 0 |
//! | 16 | 8 | bytes of a record |
//! | 24 | 8 | records that were loaded; 0 until all of them are in the store |
//! | 32 | 8 | pages that the heap may grow to |
//! | 64 | 8 each | the store's page for each page of the heap, 0 if there is none yet |

use super::options::PagesOptions;
use crate::ycsb::prelude::*;
use rackweave_endpoint::page_store::StoreLayout;
use rackweave_wire::fabric::page::HEADER_LEN;
use rackweave_workload::ycsb::HeapLayout;

/// The number of the store.
pub const STORE: u8 = 0;

const MAGIC: u64 = u64::from_le_bytes(*b"RWheap1\n");
const ENTRIES_AT: usize = 64;

/// A heap of records in a store.
#[derive(Debug)]
pub struct Heap {
    /// Positions of records in the heap's pages.
    pub layout: HeapLayout,
    /// Number of loaded records.
    pub loaded: u64,
    /// The store's page for each page of the heap; 0 if there is none yet.
    map: Box<[AtomicU64]>,
    /// Whether the store has a catalogue, so that the heap can be opened again.
    pub has_catalogue: bool,
}

/// The head of a catalogue page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogueHead {
    /// The number of the catalogue page.
    pub number: u64,
    /// Bytes of a record.
    pub record_size: u64,
    /// Number of loaded records.
    pub loaded: u64,
    /// Maximum number of pages of the heap.
    pub pages_max: u64,
}

impl Heap {
    /// The layout of records in pages.
    ///
    /// # Errors
    /// If a page cannot hold a record.
    pub fn layout(options: &PagesOptions) -> Result<HeapLayout> {
        let (page, record) = (options.page_size, options.load.ycsb.record_size);
        Ok(HeapLayout::new(page, HEADER_LEN as u32, record)?)
    }

    /// An empty heap of up to `pages_max` pages.
    pub fn new(layout: HeapLayout, loaded: u64, pages_max: u64) -> Self {
        Self {
            layout,
            loaded,
            map: (0..pages_max).map(|_| AtomicU64::new(0)).collect(),
            has_catalogue: true,
        }
    }

    /// A heap for a run: large enough for the run's inserts, and for a quarter more records than at
    /// the start, so that a store can be reused.
    ///
    /// # Errors
    /// If a page cannot hold a record.
    pub fn for_run(options: &PagesOptions) -> Result<Self> {
        let layout = Self::layout(options)?;
        let records = options.load.ycsb.records;
        let records_max = options.load.ycsb.records_max().max(records + records / 4);
        Ok(Self {
            has_catalogue: !options.shared,
            ..Self::new(layout, records, layout.pages(records_max))
        })
    }

    /// Maximum number of pages.
    pub fn pages_max(&self) -> u64 {
        self.map.len() as u64
    }

    /// Current number of pages.
    pub fn pages(&self) -> u64 {
        let pages = 0..self.pages_max();
        pages.filter(|at| self.page(*at).is_some()).count() as u64
    }

    /// Maximum number of records.
    pub fn records_max(&self) -> u64 {
        self.pages_max() * u64::from(self.layout.records_per_page())
    }

    /// Number of catalogue pages.
    pub fn catalogue_pages(&self) -> u64 {
        let entries = entries_per_page(self.layout.page_size());
        self.pages_max().div_ceil(entries).max(1)
    }

    /// Pages of a store for the heap and `workers` workers, each of which reserves some pages.
    pub fn store_pages(&self, workers: u64) -> u64 {
        let page_size = self.layout.page_size();
        let set_aside = workers * StoreLayout::extent_max(page_size);
        let pages = self.catalogue_pages() + self.pages_max() + set_aside;
        StoreLayout::capacity_for(page_size, pages)
    }

    /// The store's page for a page of the heap, if there is one.
    #[inline]
    pub fn page(&self, at: u64) -> Option<PageId> {
        let index = self.map.get(at as usize)?.load(Ordering::Acquire);
        PageId::new(STORE, index).filter(|_| index != 0)
    }

    /// Sets the store's page for a page of the heap.
    pub fn enter(&self, at: u64, page: PageId) {
        if let Some(entry) = self.map.get(at as usize) {
            entry.store(page.index(), Ordering::Release);
        }
    }

    /// The position of a heap page's catalogue entry: the catalogue page, and the offset after its
    /// header.
    pub fn entry_place(&self, at: u64) -> (PageId, usize) {
        let entries = entries_per_page(self.layout.page_size());
        let page = catalogue_page(self.layout.page_size(), at / entries);
        (page, ENTRIES_AT + (at % entries) as usize * 8)
    }

    /// Writes catalogue page `number`, marking the load as finished or not.
    pub fn emit(&self, number: u64, finished: bool, bytes: &mut [u8]) {
        bytes.fill(0);
        let (record, loaded) = (
            self.layout.record_size().into(),
            u64::from(finished) * self.loaded,
        );
        let head = [MAGIC, number, record, loaded, self.pages_max()];
        for (at, word) in head.into_iter().enumerate() {
            set_word(bytes, at * 8, word);
        }
        let entries = entries_per_page(self.layout.page_size()) as usize;
        let first = number as usize * entries;
        let here = self.map.iter().skip(first).take(entries);
        for (at, entry) in here.enumerate() {
            set_word(bytes, ENTRIES_AT + at * 8, entry.load(Ordering::Acquire));
        }
    }

    /// Reads the entries of catalogue page `number`. Returns how many there are.
    pub fn take(&self, number: u64, bytes: &[u8]) -> u64 {
        let entries = entries_per_page(self.layout.page_size()) as usize;
        let first = number as usize * entries;
        let mut taken = 0;
        for (at, entry) in self.map.iter().skip(first).take(entries).enumerate() {
            let index = word(bytes, ENTRIES_AT + at * 8);
            if index != 0 {
                entry.store(index, Ordering::Release);
                taken += 1;
            }
        }
        taken
    }
}

impl CatalogueHead {
    /// Parses the bytes after a page's header; none if they hold no head.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        (word(bytes, 0) == MAGIC).then(|| Self {
            number: word(bytes, 8),
            record_size: word(bytes, 16),
            loaded: word(bytes, 24),
            pages_max: word(bytes, 32),
        })
    }
}

/// Catalogue page `number` of a store with pages of this size.
pub fn catalogue_page(page_size: u32, number: u64) -> PageId {
    let layout = StoreLayout {
        store: STORE,
        identity: 0,
        page_size,
        capacity: u64::MAX,
    };
    layout.nth(number).unwrap_or_default()
}

/// The little-endian word at byte `at`; zero beyond the end.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Sets the word at byte `at`.
fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn entries_per_page(page_size: u32) -> u64 {
    (page_size as usize - HEADER_LEN - ENTRIES_AT) as u64 / 8
}

#[cfg(test)]
mod tests;
