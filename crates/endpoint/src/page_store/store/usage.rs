//! How much of a store is in use.

use super::map::{Map, PageState};
use super::{AllocateError, PageStore};
use crate::page_store::directory::{Directory, Mode};
use rackweave_wire::fabric::page::PageId;

/// Pages of a store, by their state in the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Never handed out.
    pub unused: u64,
    /// In use, or set aside by a worker, or leaked by a crash.
    pub in_use: u64,
    /// Freed.
    pub free: u64,
    /// Damaged when they were free; no longer used.
    pub bad: u64,
    /// Pages whose maps could not be read.
    pub unknown: u64,
}

impl<D: Directory> PageStore<D> {
    /// Counts the pages of the open store. It reads all maps, one after the other.
    ///
    /// # Errors
    /// If no store is open. Pages whose maps cannot be read are counted as unknown instead.
    pub fn usage(&mut self) -> Result<Usage, AllocateError> {
        let layout = *self.layout().ok_or(AllocateError::NotOpen)?;
        let mut usage = Usage::default();
        for group in 0..layout.groups() {
            let count = match self.fix(layout.map(group), Mode::Shared) {
                Ok(guard) => Map::parse(&guard.data().to_vec(), &layout, group)
                    .ok()
                    .map(|map| map.count()),
                Err(_) => None,
            };
            match count {
                Some([unused, in_use, free, bad]) => {
                    usage.unused += unused;
                    usage.in_use += in_use;
                    usage.free += free;
                    usage.bad += bad;
                }
                None => usage.unknown += layout.pages_of(group),
            }
        }
        Ok(usage)
    }

    /// The state of a page in its map. After a crash, pages may be *in use* that the engine has
    /// handed to no user; they can be freed.
    ///
    /// # Errors
    /// If no store is open, the page is not one that can be allocated, or its map is unavailable.
    pub fn page_state(&mut self, page: PageId) -> Result<PageState, AllocateError> {
        let layout = *self.layout().ok_or(AllocateError::NotOpen)?;
        let place = layout.find(page.index());
        let place = place.filter(|_| page.store() == layout.store);
        let (group, at) = place.ok_or(AllocateError::NoSuchPage(page, layout.capacity))?;
        let map = layout.map(group);
        let guard = self.fix(map, Mode::Shared)?;
        let bytes = guard.data().to_vec();
        let parsed = Map::parse(&bytes, &layout, group);
        let state = parsed.map(|map| map.state(at));
        state.map_err(|_| AllocateError::Damaged(map))
    }
}
