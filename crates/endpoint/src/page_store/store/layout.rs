//! The positions of a store's maps, and the pages that each of them describes.
//!
//! | page | content |
//! |---|---|
//! | 0 | the superblock |
//! | 1 | the map of group 0 |
//! | 2 … | the pages of group 0, as many as the map can describe |
//! | … | the map of group 1, and so on to the end of the store |
//!
//! All of it follows from the page size and the number of pages, which never change.

use super::map::{self, HEAD};
use rackweave_wire::fabric::page::{HEADER_LEN, PAGE_SIZE_MIN, PageId};

/// Maximum number of bytes that a worker reserves at a time. Each reservation costs a write of a
/// map and a flush of the device, which should be cheap compared with writing the pages themselves.
const EXTENT_BYTES: u64 = 4 << 20;
/// The same in pages: lower and upper bound of that maximum.
const EXTENT: core::ops::RangeInclusive<u64> = 64..=1024;

/// The part of a superblock that never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreLayout {
    /// The store's number, which is part of its pages' ids.
    pub store: u8,
    /// The identity that every page of the store carries.
    pub identity: u64,
    /// Bytes of a page, its header included.
    pub page_size: u32,
    /// Pages of the store, including superblock and maps.
    pub capacity: u64,
}

impl StoreLayout {
    /// The minimum capacity of a store: superblock, map and one page.
    pub const CAPACITY_MIN: u64 = 3;

    /// Pages that a map describes.
    pub const fn pages_per_map(page_size: u32) -> u64 {
        (page_size as u64 - (HEADER_LEN + HEAD) as u64) * map::PER_BYTE
    }

    /// The capacity of a store in which `pages` pages can be allocated.
    pub const fn capacity_for(page_size: u32, pages: u64) -> u64 {
        1 + pages + pages.div_ceil(Self::pages_per_map(page_size))
    }

    /// Maximum number of pages that a worker reserves at a time. Other workers cannot allocate
    /// those that it has not handed out until it has retired.
    pub fn extent_max(page_size: u32) -> u64 {
        let page_size = u64::from(page_size.max(PAGE_SIZE_MIN));
        (EXTENT_BYTES / page_size).clamp(*EXTENT.start(), *EXTENT.end())
    }

    /// Page `index` of the store; the superblock if the index is out of range.
    pub fn page(&self, index: u64) -> PageId {
        PageId::new(self.store, index).unwrap_or_else(|| superblock_of(self.store))
    }

    /// The number of groups.
    pub const fn groups(&self) -> u64 {
        self.capacity.saturating_sub(1).div_ceil(self.stride())
    }

    /// The map of a group.
    pub fn map(&self, group: u64) -> PageId {
        self.page(self.map_index(group))
    }

    /// The number of pages that a group's map describes. The last group may be short, or even
    /// empty.
    pub fn pages_of(&self, group: u64) -> u64 {
        let rest = self.capacity.saturating_sub(self.map_index(group) + 1);
        rest.min(Self::pages_per_map(self.page_size))
    }

    /// Page `at` of a group.
    pub const fn index(&self, group: u64, at: u64) -> u64 {
        self.map_index(group) + 1 + at
    }

    /// The group of a page and its position there; `None` for superblock, maps, and indexes beyond
    /// the end.
    pub const fn find(&self, index: u64) -> Option<(u64, u64)> {
        if index == 0 || index >= self.capacity {
            return None;
        }
        let (group, at) = ((index - 1) / self.stride(), (index - 1) % self.stride());
        if at == 0 { None } else { Some((group, at - 1)) }
    }

    /// The `number`th page, from 0, that is neither superblock nor map. In a new store, this is the
    /// `number`th page allocated by the worker that formatted it.
    pub fn nth(&self, number: u64) -> Option<PageId> {
        let per_map = Self::pages_per_map(self.page_size);
        let index = self.index(number / per_map, number % per_map);
        PageId::new(self.store, index).filter(|_| index < self.capacity)
    }

    /// The group that a node searches first, so that nodes do not all contend for the same map.
    pub(super) const fn first_group(&self, node: u16) -> u64 {
        let hash = (node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash as u128 * self.groups() as u128) >> 32) as u64
    }

    const fn stride(&self) -> u64 {
        1 + Self::pages_per_map(self.page_size)
    }

    const fn map_index(&self, group: u64) -> u64 {
        1 + group * self.stride()
    }
}

/// The page of a store's superblock.
pub(super) fn superblock_of(store: u8) -> PageId {
    PageId::new(store, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(capacity: u64) -> StoreLayout {
        StoreLayout {
            store: 3,
            identity: 7,
            page_size: 4096,
            capacity,
        }
    }

    #[test]
    fn every_page_is_superblock_or_map_or_in_one_group() {
        let per_map = StoreLayout::pages_per_map(4096);
        for capacity in [3, 4, 100, per_map + 2, per_map + 3, 3 * per_map + 4] {
            let layout = layout(capacity);
            let mut expect = 1;
            let mut nth = 0;
            for group in 0..layout.groups() {
                assert_eq!(layout.map(group).index(), expect);
                assert_eq!(layout.find(expect), None);
                for at in 0..layout.pages_of(group) {
                    let index = layout.index(group, at);
                    assert_eq!(index, expect + 1 + at);
                    assert_eq!(layout.find(index), Some((group, at)));
                    assert_eq!(layout.nth(nth), PageId::new(3, index));
                    nth += 1;
                }
                expect += 1 + layout.pages_of(group);
            }
            assert_eq!((expect, layout.nth(nth)), (capacity, None));
            assert_eq!((layout.find(0), layout.find(capacity)), (None, None));
            let enough = StoreLayout::capacity_for(4096, nth);
            assert!(enough <= capacity && capacity <= enough + 1, "{capacity}");
        }
    }

    #[test]
    fn nodes_begin_at_different_groups() {
        let layout = layout(1 << 20);
        assert!(layout.groups() > 64);
        let mut first: Vec<_> = (0..16).map(|node| layout.first_group(node)).collect();
        assert!(first.iter().all(|group| *group < layout.groups()));
        first.sort_unstable();
        first.dedup();
        assert!(first.len() > 12, "{first:?}");
        assert_eq!(self::layout(100).first_group(9), 0);
    }

    #[test]
    fn an_extent_is_four_mebibytes_within_bounds() {
        let extents = [4096, 16384, 65536, 1 << 20].map(StoreLayout::extent_max);
        assert_eq!(extents, [1024, 256, 64, 64]);
    }
}
