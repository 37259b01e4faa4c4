//! Page allocation.
//!
//! A worker reserves several pages at a time: it marks them in a map as in use, makes the map
//! durable, and then hands them out one by one. Pages that it has not handed out are returned when
//! it retires.
//!
//! # No page is handed out twice
//!
//! **What the rack knows.** A map is changed under its exclusive latch, so its versions form one
//! history, and no two workers choose the same page in it. The versions written home belong to that
//! history, in its order. When a node dies with the newest version, the map is lost; once the loss
//! has been accepted, the history continues from the version at home.
//!
//! **What is durable.** A page is handed out only when (1) a flush has written the map home and
//! made it durable after the page was marked, and (2) the newest version is known to contain the
//! mark, by the stamp that was left with it ([`super::map`]). From (2), the version in which the
//! page was marked is part of the history, so the version that the flush wrote contains the mark
//! too: this node had no older version of that history to write. From then on every version at home
//! contains the mark, until the page is freed. So neither a crash nor the acceptance of a lost map
//! removes it; they can only restore to *in use* a page that had been freed or returned: a leak.
//!
//! **Two nodes at one map.** A marks pages, and before its flush starts B fixes the map, marks
//! other pages, and flushes. A's flush finds that its version is not the newest and writes nothing.
//! A fixes the map again: its stamp is there, so the pages belong to A; the fix gives the map a new
//! version, which A flushes. If B had died instead, A's fix fails, as the map is lost, and A hands
//! out none of its pages.
//!
//! **A node declared dead.** The directory gives A's latch to B. A's change is not accepted, and B
//! may mark the same pages. Whatever A's flush does then, A's stamp is not in the newest version,
//! so A gives up its pages and chooses others. It must not mark them free: they may be B's.
//!
//! # Pages handed out read as zero
//!
//! A page that was never handed out was never written under this store's identity. A page that was
//! freed is zeroed when it is handed out again.
//!
//! # Unavailable pages are skipped
//!
//! If a map is lost, damaged or cannot be written, the worker moves to the next group. A free page
//! that is damaged is marked as bad; one that is lost stays free, and is skipped until its loss has
//! been accepted.

mod search;

use super::layout::StoreLayout;
use super::map::PageState;
use super::persist::{Failure, Persist};
use super::reserve::{Owed, Reservation, Reserving};
use super::{AllocateError, MapError};
use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, Pool, Worker};
use rackweave_wire::fabric::page::PageId;
use search::Search;
use std::collections::{BTreeSet, VecDeque};

/// Pages reserved the first time. The number doubles each time, up to the maximum.
const EXTENT_FIRST: u64 = 64;

/// Allocates the pages of a store, for one worker. It is sans-IO: its caller must poll the worker
/// too. [`super::PageStore::allocate`] is the blocking form.
///
/// If it is dropped without [`Self::poll_retire`], the pages that it has reserved leak.
#[derive(Debug)]
pub struct Allocator {
    layout: StoreLayout,
    /// A number that is unique among the allocators of the rack.
    who: u64,
    /// The group that it searches next.
    group: u64,
    /// Number of pages to reserve next time.
    size: u64,
    extent: VecDeque<Reserved>,
    owed: Owed,
    avoided: BTreeSet<u64>,
    lost: Vec<PageId>,
    search: Option<Search>,
    step: Step,
}

/// A page that is durably marked as in use, and not handed out.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    index: u64,
    /// Its state before.
    state: PageState,
}

#[derive(Debug)]
enum Step {
    Idle,
    Reserve(Persist, Reservation),
    Zero(Fix, Reserved),
    Return(Fix, u64),
}

/// What follows a step.
enum Then {
    Again,
    Wait,
    End(Result<PageId, AllocateError>),
}

impl Allocator {
    /// Allocates pages of an open store. `pool` is that of the worker that is polled.
    pub fn new(layout: StoreLayout, pool: &Pool) -> Self {
        let node = pool.config().node;
        Self {
            who: u64::from(node) << 32 | u64::from(pool.next_worker()),
            group: layout.first_group(node),
            size: EXTENT_FIRST.min(StoreLayout::extent_max(layout.page_size)),
            layout,
            extent: VecDeque::new(),
            owed: Owed::default(),
            avoided: BTreeSet::new(),
            lost: Vec::new(),
            search: None,
            step: Step::Idle,
        }
    }

    /// The same, starting at the first page: for the worker that has formatted the store.
    pub fn from_start(layout: StoreLayout, pool: &Pool) -> Self {
        Self {
            group: 0,
            ..Self::new(layout, pool)
        }
    }

    /// The store.
    pub fn layout(&self) -> &StoreLayout {
        &self.layout
    }

    /// Whether a page is reserved here, and is therefore not in use although its map says so.
    pub fn has_set_aside(&self, page: PageId) -> bool {
        page.store() == self.layout.store
            && self.extent.iter().any(|have| have.index == page.index())
    }

    /// Pages that were unavailable because they are lost, since the last call: maps and free pages.
    /// Accepting the loss of any of them revokes no allocation.
    pub fn take_lost(&mut self) -> Vec<PageId> {
        self.avoided.clear();
        core::mem::take(&mut self.lost)
    }

    /// Continues to allocate a page, until there is a page or an error. Its bytes are zero.
    ///
    /// # Errors
    /// [`AllocateError::StoreFull`], [`AllocateError::Maps`], or [`AllocateError::Fix`] if no page
    /// at all is available at the moment.
    pub fn poll<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<PageId, AllocateError>> {
        loop {
            match self.advance(worker) {
                Then::Again => {}
                Then::Wait => return None,
                Then::End(result) => {
                    self.search = None;
                    return Some(result);
                }
            }
        }
    }

    /// Continues to return the pages that were not handed out. Pages that could not be returned
    /// leak.
    ///
    /// # Errors
    /// The first error of a map.
    pub fn poll_retire<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
    ) -> Option<Result<(), AllocateError>> {
        loop {
            if let Step::Idle = self.step {
                for reserved in core::mem::take(&mut self.extent) {
                    self.owe(reserved);
                }
                let Some(group) = self.owed.first_group() else {
                    self.search = None;
                    return Some(Ok(()));
                };
                match worker.try_fix_in_time(self.layout.map(group), Mode::Exclusive, true) {
                    Ok(fix) => self.step = Step::Return(fix, group),
                    Err(error) => return Some(self.not_returned(group, error)),
                }
            }
            match self.advance(worker) {
                Then::Again => {}
                Then::Wait => return None,
                Then::End(Ok(page)) => self.owe(Reserved {
                    index: page.index(),
                    state: PageState::Free,
                }),
                Then::End(Err(AllocateError::Fix(error))) => return Some(Err(error.into())),
                Then::End(Err(_)) => {}
            }
        }
    }

    /// It will not be polled for a while: gives up pending operations.
    pub fn abandon<D: Directory>(&mut self, worker: &mut Worker<D>) {
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => {}
            Step::Reserve(persist, reservation) => {
                persist.abandon(worker);
                self.owed.add_reservation(reservation);
            }
            Step::Zero(fix, reserved) => {
                worker.abandon(fix);
                self.extent.push_front(reserved);
            }
            Step::Return(fix, _) => worker.abandon(fix),
        }
        self.search = None;
    }

    fn advance<D: Directory>(&mut self, worker: &mut Worker<D>) -> Then {
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => self.next(worker),
            Step::Reserve(persist, reservation) => self.reserve(worker, persist, reservation),
            Step::Zero(fix, reserved) => match worker.take(fix) {
                None => {
                    self.step = Step::Zero(fix, reserved);
                    Then::Wait
                }
                Some(Ok(mut guard)) => {
                    // It keeps its LSN: records of its former use must not be replayed.
                    guard.data_mut().fill(0);
                    Then::End(Ok(guard.page()))
                }
                Some(Err(error)) => self.pass_over(reserved, error),
            },
            Step::Return(fix, group) => match worker.take(fix) {
                None => {
                    self.step = Step::Return(fix, group);
                    Then::Wait
                }
                Some(Ok(mut guard)) => {
                    self.owed.repay(&self.layout, group, &mut guard);
                    Then::Again
                }
                Some(Err(error)) => match self.not_returned(group, error) {
                    Ok(()) => Then::Again,
                    Err(error) => Then::End(Err(error)),
                },
            },
        }
    }

    /// Takes a reserved page, or starts to reserve some.
    fn next<D: Directory>(&mut self, worker: &mut Worker<D>) -> Then {
        if let Some(reserved) = self.extent.pop_front() {
            let page = self.layout.page(reserved.index);
            if reserved.state == PageState::Unused {
                return Then::End(Ok(page));
            }
            return match worker.try_fix_in_time(page, Mode::Exclusive, true) {
                Ok(fix) => {
                    self.step = Step::Zero(fix, reserved);
                    Then::Again
                }
                Err(error) => self.pass_over(reserved, error),
            };
        }
        let search = self.search();
        if search.groups_left == 0 {
            return Then::End(Err(self.nothing_left()));
        }
        let persist = Persist::new(self.layout.map(self.group));
        self.step = Step::Reserve(persist, Reservation::new(self.group));
        Then::Again
    }

    fn reserve<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
        mut persist: Persist,
        mut reservation: Reservation,
    ) -> Then {
        let mut change = Reserving {
            layout: self.layout,
            who: self.who,
            size: self.size,
            reservation: &mut reservation,
            owed: &mut self.owed,
            avoided: &self.avoided,
        };
        let Some(result) = persist.poll(worker, &mut change) else {
            self.step = Step::Reserve(persist, reservation);
            return Then::Wait;
        };
        let source = match result {
            Ok(true) => {
                let group = reservation.group;
                let pages = reservation.pages.into_iter();
                self.extent = pages
                    .map(|(at, state)| Reserved {
                        index: self.layout.index(group, at),
                        state,
                    })
                    .collect();
                let max = StoreLayout::extent_max(self.layout.page_size);
                self.size = (self.size * 2).min(max);
                return Then::Again;
            }
            Ok(false) if reservation.is_damaged => MapError::Damaged,
            Ok(false) => {
                self.next_group(None);
                return Then::Again;
            }
            Err(failure) => {
                self.owed.add_reservation(reservation);
                match failure {
                    Failure::Fix(error) if is_general(error) => {
                        return Then::End(Err(error.into()));
                    }
                    // The next call looks elsewhere.
                    Failure::Fix(error @ FixError::TimedOut(_)) => {
                        self.next_group(None);
                        return Then::End(Err(error.into()));
                    }
                    Failure::Fix(error) => MapError::Fix(error),
                    Failure::Flush(error) if is_general(error.cause()) => {
                        return Then::End(Err(error.cause().into()));
                    }
                    Failure::Flush(error) => MapError::Flush(error),
                    Failure::Contended => MapError::Contended,
                }
            }
        };
        self.next_group(Some(source));
        Then::Again
    }

    fn owe(&mut self, reserved: Reserved) {
        if let Some((group, at)) = self.layout.find(reserved.index) {
            self.owed.add(group, at, reserved.state);
        }
    }

    /// The pages owed to a group leak, since its map is unavailable.
    fn not_returned(&mut self, group: u64, error: FixError) -> Result<(), AllocateError> {
        self.owed.forget(group);
        Err(error.into())
    }
}

/// Whether an error is not specific to the page.
fn is_general(error: FixError) -> bool {
    matches!(
        error,
        FixError::Gone
            | FixError::PoolTooSmall { .. }
            | FixError::StorageFull
            | FixError::Conflict(_)
    )
}
