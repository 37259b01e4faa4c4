//! The index of pages and their entries.

use super::PagesConfig;
use rackweave_switch::Ledger;
use rackweave_switch::table::{Exact, TableError};
use rackweave_wire::fabric::page::PageId;

/// Stages over which the table is spread: one stage's memory does not hold it.
const SHARDS: usize = 4;

/// An exact-match table from page to entry, in four stages. A page is in one of them; the
/// controller chooses one with free space.
#[derive(Debug)]
pub(super) struct Index {
    shards: [Exact<u32>; SHARDS],
    capacity: usize,
    /// Free entries. Kept by the control plane.
    free: Vec<u32>,
}

impl Index {
    pub fn new(config: &PagesConfig) -> Self {
        let capacity = config.entries as usize;
        let each = capacity.div_ceil(SHARDS);
        let names = [
            "pages.index.0",
            "pages.index.1",
            "pages.index.2",
            "pages.index.3",
        ];
        let mut stage = 0;
        let shards = names.map(|name| {
            stage += 1;
            Exact::new(name, stage, PageId::BITS as u8, each)
        });
        Self {
            shards,
            capacity,
            free: (0..config.entries).rev().collect(),
        }
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        self.shards.iter().for_each(|shard| ledger.exact(shard));
    }

    /// The entry of a page.
    #[inline]
    pub fn lookup(&self, page: PageId) -> Option<usize> {
        let found = self
            .shards
            .iter()
            .find_map(|shard| shard.lookup(page.number()));
        found.map(|&entry| entry as usize)
    }

    /// Assigns an entry to a page, or returns the one it has.
    pub fn insert(&mut self, page: PageId) -> Result<usize, TableError> {
        if let Some(entry) = self.lookup(page) {
            return Ok(entry);
        }
        let Some(&entry) = self.free.last() else {
            return Err(TableError::Full {
                table: "pages.index",
                capacity: self.capacity,
            });
        };
        let mut inserted = Err(TableError::Full {
            table: "pages.index",
            capacity: self.capacity,
        });
        for shard in &mut self.shards {
            inserted = shard.insert(page.number(), entry);
            if inserted.is_ok() {
                self.free.pop();
                break;
            }
        }
        inserted.map(|()| entry as usize)
    }

    /// Frees a page's entry.
    pub fn remove(&mut self, page: PageId) {
        if let Some(entry) = self.lookup(page) {
            self.free.push(entry as u32);
        }
        for shard in &mut self.shards {
            shard.remove(page.number());
        }
    }

    /// Pages indexed.
    pub fn len(&self) -> usize {
        self.capacity - self.free.len()
    }

    /// Every page with its entry.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, usize)> + '_ {
        self.shards.iter().flat_map(|shard| {
            shard.iter().filter_map(|(number, &entry)| {
                PageId::from_number(number).map(|page| (page, entry as usize))
            })
        })
    }
}
