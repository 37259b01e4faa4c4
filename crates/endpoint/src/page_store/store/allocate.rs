//! Which pages are in use: a worker takes pages that were never in use some at a time, and pages
//! that were freed one by one from a list that goes through them.
//!
//! Who needs the superblock fixes it before any other page here, so that nobody waits in a circle;
//! a caller must not hold the superblock, nor the page that it frees.

use super::open::superblock_of;
use super::superblock::{FreePage, Superblock};
use super::{AllocateError, PageStore};
use crate::page_store::PageGuard;
use crate::page_store::directory::{Directory, Mode};
use rackweave_wire::fabric::page::PageId;

/// Pages that a worker takes at a time.
const EXTENT: u64 = 64;

/// Pages that were never in use, and are this worker's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Extent {
    next: u64,
    end: u64,
}

impl<D: Directory> PageStore<D> {
    /// A page for the caller alone; its bytes are zero.
    ///
    /// # Errors
    /// If all pages are in use, or the superblock cannot be had.
    pub fn allocate(&mut self) -> Result<PageId, AllocateError> {
        let opened = self.opened.as_mut().ok_or(AllocateError::NotOpen)?;
        let (store, capacity, identity) = (opened.store, opened.capacity, opened.identity);
        if let Some(page) = opened.extent.take(store) {
            return Ok(page);
        }
        let (mut guard, mut superblock) = self.superblock(store)?;
        if superblock.free_first != 0 {
            let page = PageId::new(store, superblock.free_first)
                .filter(|page| page.index() < superblock.next_unused)
                .ok_or(AllocateError::Damaged(superblock_of(store)))?;
            let mut free = self.fix(page, Mode::Exclusive)?;
            let mark = FreePage::parse(free.data(), identity, page.index())
                .ok_or(AllocateError::Damaged(page))?;
            free.data_mut().fill(0);
            superblock.free_first = mark.next;
            superblock.free_count = superblock.free_count.saturating_sub(1);
            superblock.emit(guard.data_mut());
            return Ok(page);
        }
        let count = capacity.saturating_sub(superblock.next_unused).min(EXTENT);
        if count == 0 {
            return Err(AllocateError::StoreFull { capacity });
        }
        let mut extent = Extent {
            next: superblock.next_unused,
            end: superblock.next_unused + count,
        };
        superblock.next_unused = extent.end;
        superblock.emit(guard.data_mut());
        let page = extent.take(store);
        if let Some(opened) = &mut self.opened {
            opened.extent = extent;
        }
        page.ok_or(AllocateError::StoreFull { capacity })
    }

    /// Gives a page back. Its content is gone.
    ///
    /// # Errors
    /// If it is not in use, or cannot be had.
    pub fn free(&mut self, page: PageId) -> Result<(), AllocateError> {
        let opened = self.opened.as_ref().ok_or(AllocateError::NotOpen)?;
        let (store, identity) = (opened.store, opened.identity);
        let (mut guard, mut superblock) = self.superblock(store)?;
        let index = page.index();
        if page.store() != store || index == 0 || index >= superblock.next_unused {
            return Err(AllocateError::NoSuchPage(page, superblock.capacity));
        }
        let mut free = self.fix(page, Mode::Exclusive)?;
        if FreePage::parse(free.data(), identity, index).is_some() {
            return Err(AllocateError::NotInUse(page));
        }
        let mark = FreePage {
            next: superblock.free_first,
        };
        mark.emit(free.data_mut(), identity, index);
        superblock.free_first = index;
        superblock.free_count += 1;
        superblock.emit(guard.data_mut());
        Ok(())
    }

    /// Gives back the pages that this worker has taken and not given out, and waits until all
    /// latches of its guards are back. To be called before a worker ends.
    ///
    /// # Errors
    /// If a page cannot be had.
    pub fn retire(&mut self) -> Result<(), AllocateError> {
        let Some(opened) = &mut self.opened else {
            self.settle();
            return Ok(());
        };
        let store = opened.store;
        let mut extent = core::mem::take(&mut opened.extent);
        if extent.next != extent.end {
            self.change_superblock(store, |superblock| {
                if superblock.next_unused == extent.end {
                    superblock.next_unused = extent.next;
                    extent.next = extent.end;
                }
            })?;
        }
        while let Some(page) = extent.take(store) {
            self.free(page)?;
        }
        self.settle();
        Ok(())
    }

    /// Changes the superblock.
    pub(super) fn change_superblock(
        &mut self,
        store: u8,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), AllocateError> {
        let (mut guard, mut superblock) = self.superblock(store)?;
        change(&mut superblock);
        superblock.emit(guard.data_mut());
        Ok(())
    }

    /// The superblock, fixed to be changed.
    fn superblock(&mut self, store: u8) -> Result<(PageGuard, Superblock), AllocateError> {
        let page = superblock_of(store);
        let guard = self.fix(page, Mode::Exclusive)?;
        let superblock =
            Superblock::parse(guard.data()).map_err(|_| AllocateError::Damaged(page))?;
        Ok((guard, superblock))
    }
}

impl Extent {
    fn take(&mut self, store: u8) -> Option<PageId> {
        if self.next == self.end {
            return None;
        }
        let page = PageId::new(store, self.next);
        self.next += 1;
        page
    }
}
