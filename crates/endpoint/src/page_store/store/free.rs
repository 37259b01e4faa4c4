//! Freeing pages, and the blocking calls for pages.

use super::allocate::Allocator;
use super::layout::StoreLayout;
use super::map::{Map, MapMut, PageState};
use super::{AllocateError, PageStore};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, Worker};
use rackweave_base::Instant;
use rackweave_wire::fabric::page::PageId;

/// Frees a page. It is sans-IO, as [`Allocator`] is.
///
/// It becomes durable that the page is free when its map is written home, which is at the next
/// allocation from its group at the latest. After a crash before that, the page is in use, and may
/// be freed again.
#[derive(Debug)]
pub struct Freeing {
    layout: StoreLayout,
    page: PageId,
    fix: Option<Fix>,
}

impl Freeing {
    /// Starts. No worker may have the page fixed.
    pub fn new(layout: StoreLayout, page: PageId) -> Self {
        Self {
            layout,
            page,
            fix: None,
        }
    }

    /// Continues, until the page is free or there is an error.
    ///
    /// # Errors
    /// [`AllocateError::NoSuchPage`], [`AllocateError::NotInUse`], or that its map is unavailable.
    pub fn poll<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<(), AllocateError>> {
        let layout = &self.layout;
        let place = layout.find(self.page.index());
        let Some((group, at)) = place.filter(|_| self.page.store() == layout.store) else {
            let no_page = AllocateError::NoSuchPage(self.page, layout.capacity);
            return Some(Err(no_page));
        };
        let map_page = layout.map(group);
        let fix = match self.fix {
            Some(fix) => fix,
            None => match worker.try_fix_in_time(map_page, Mode::Exclusive, true) {
                Ok(fix) => *self.fix.insert(fix),
                Err(error) => return Some(Err(error.into())),
            },
        };
        let mut guard = match worker.take(fix)? {
            Ok(guard) => guard,
            Err(error) => return Some(Err(error.into())),
        };
        let state = Map::parse(&guard.data().to_vec(), layout, group).map(|map| map.state(at));
        Some(match state {
            Ok(PageState::InUse) => {
                guard.update(0..guard.data().len(), |bytes| {
                    MapMut::new(bytes, layout, group).set(at, PageState::Free);
                });
                Ok(())
            }
            Ok(_) => Err(AllocateError::NotInUse(self.page)),
            Err(_) => Err(AllocateError::Damaged(map_page)),
        })
    }
}

impl<D: Directory> PageStore<D> {
    /// Returns a page owned by the caller; its bytes are zero. Its allocation is durable: no crash
    /// makes it be handed out again.
    ///
    /// # Errors
    /// If no page is free where maps are available, or nothing is available at the moment.
    pub fn allocate(&mut self) -> Result<PageId, AllocateError> {
        self.with_allocator(Allocator::poll)
    }

    /// Frees a page. Its content is lost. A crash may restore it to in use: see [`Freeing`].
    ///
    /// # Errors
    /// If it is not in use, or its map is unavailable.
    pub fn free(&mut self, page: PageId) -> Result<(), AllocateError> {
        let allocator = self.allocator.as_ref().ok_or(AllocateError::NotOpen)?;
        if allocator.has_set_aside(page) {
            return Err(AllocateError::NotInUse(page));
        }
        let mut freeing = Freeing::new(*allocator.layout(), page);
        self.wait(|worker| freeing.poll(worker))
    }

    /// Returns the pages that this worker has reserved and not handed out, and waits until all
    /// latches of its guards are released. Call this before a worker ends.
    ///
    /// # Errors
    /// If a map is unavailable. Pages to be returned there stay in use.
    pub fn retire(&mut self) -> Result<(), AllocateError> {
        self.retire_until(self.end())
    }

    /// The same with an explicit deadline: pages not returned by then stay in use, and are returned
    /// by the next call or leaked, as in a crash.
    ///
    /// # Errors
    /// As for [`PageStore::retire`].
    pub fn retire_until(&mut self, end: Instant) -> Result<(), AllocateError> {
        let mut result = Ok(());
        while self.allocator.is_some() {
            let retired = self.with_allocator(|allocator, worker| {
                let retired = allocator.poll_retire(worker);
                if retired.is_none() && worker.now() >= end {
                    allocator.abandon(worker);
                    return Some(Err(FixError::Gone.into()));
                }
                retired
            });
            let Err(error) = retired else {
                break;
            };
            result = result.and(Err(error));
            if matches!(
                error,
                AllocateError::Fix(FixError::Gone | FixError::TimedOut(_))
            ) {
                break;
            }
        }
        let settled = self.settle_until(end);
        result.and(settled.map_err(AllocateError::from))
    }

    /// Pages that were unavailable to [`PageStore::allocate`] because they are lost, since the last
    /// call: maps and free pages. Accepting the loss of any of them revokes no allocation
    /// ([`Allocator::take_lost`]).
    pub fn take_lost(&mut self) -> Vec<PageId> {
        let allocator = self.allocator.as_mut();
        allocator.map(Allocator::take_lost).unwrap_or_default()
    }

    /// Leaves the open store: another [`PageStore::open`] is required before the next allocation.
    /// Reserved pages are returned if possible.
    pub fn leave(&mut self) {
        if self.allocator.is_some() {
            // Pages that cannot be returned leak, as in a crash.
            let _leaked = self.retire();
        }
        self.allocator = None;
    }

    pub(super) fn enter(&mut self, layout: StoreLayout, is_new: bool) {
        let pool = self.pool();
        self.allocator = Some(match is_new {
            true => Allocator::from_start(layout, pool),
            false => Allocator::new(layout, pool),
        });
    }

    fn with_allocator<T>(
        &mut self,
        mut poll: impl FnMut(&mut Allocator, &mut Worker<D>) -> Option<Result<T, AllocateError>>,
    ) -> Result<T, AllocateError> {
        let mut allocator = self.allocator.take().ok_or(AllocateError::NotOpen)?;
        let at_once = poll(&mut allocator, &mut self.worker);
        let result = match at_once {
            Some(result) => result,
            None => self.wait(|worker| poll(&mut allocator, worker)),
        };
        self.allocator = Some(allocator);
        result
    }
}
