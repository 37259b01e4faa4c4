//! Giving pages back, and the calls of a thread that waits for pages.

use super::allocate::Allocator;
use super::layout::StoreLayout;
use super::map::{Map, MapMut, PageState};
use super::{AllocateError, PageStore};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, Worker};
use rackweave_base::Instant;
use rackweave_wire::fabric::page::PageId;

/// Gives a page back. It is sans-IO, as [`Allocator`] is.
///
/// That the page is free is durable when its map is written home: at the next allocation from its
/// group at the latest. After a crash before that, the page is in use, and may be given back again.
#[derive(Debug)]
pub struct Freeing {
    layout: StoreLayout,
    page: PageId,
    fix: Option<Fix>,
}

impl Freeing {
    /// Begins. Nobody must have the page fixed.
    pub fn new(layout: StoreLayout, page: PageId) -> Self {
        Self {
            layout,
            page,
            fix: None,
        }
    }

    /// Goes on, until the page is free or there is an error.
    ///
    /// # Errors
    /// [`AllocateError::NoSuchPage`], [`AllocateError::NotInUse`], or that its map cannot be had.
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
    /// A page for the caller alone; its bytes are zero. That it is in use is durable: no crash has
    /// it handed out again.
    ///
    /// # Errors
    /// If no page is free where maps can be had, or nothing can be had at the moment.
    pub fn allocate(&mut self) -> Result<PageId, AllocateError> {
        self.with_allocator(Allocator::poll)
    }

    /// Gives a page back. Its content is gone. A crash may bring it back in use: see [`Freeing`].
    ///
    /// # Errors
    /// If it is not in use, or its map cannot be had.
    pub fn free(&mut self, page: PageId) -> Result<(), AllocateError> {
        let allocator = self.allocator.as_ref().ok_or(AllocateError::NotOpen)?;
        if allocator.has_set_aside(page) {
            return Err(AllocateError::NotInUse(page));
        }
        let mut freeing = Freeing::new(*allocator.layout(), page);
        self.wait(|worker| freeing.poll(worker))
    }

    /// Gives back the pages that this worker has set aside and not handed out, and waits until all
    /// latches of its guards are back. To be called before a worker ends.
    ///
    /// # Errors
    /// If a map cannot be had. What is to be given back there stays in use.
    pub fn retire(&mut self) -> Result<(), AllocateError> {
        self.retire_until(self.end())
    }

    /// The same until another time: what is not given back by then stays in use, and is given back
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

    /// Pages that could not be had for [`PageStore::allocate`] because they are lost, since the
    /// last call: maps and free pages. To accept the loss of any of them takes back no allocation
    /// ([`Allocator::take_lost`]).
    pub fn take_lost(&mut self) -> Vec<PageId> {
        let allocator = self.allocator.as_mut();
        allocator.map(Allocator::take_lost).unwrap_or_default()
    }

    /// Leaves the store that is open: another [`PageStore::open`] comes before the next allocation.
    /// What was set aside is given back, if that is possible.
    pub fn leave(&mut self) {
        if self.allocator.is_some() {
            // What cannot be given back is leaked, as in a crash.
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
